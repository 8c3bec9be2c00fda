"""The work of a unit: groups of rewards, and whether all of their weights are 0."""

from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators.method import Method
from maxk_lab.execution.checkpoints import initial_policy
from maxk_lab.seeds import derive_seed


def measure(unit, cells, *, cache, event):
    """Yield (cell id, metrics) of every cell of a unit."""
    environment = make_environment(unit["environment"], unit["policy"])
    policy = initial_policy(environment, unit)
    for cell in cells:
        seed = derive_seed("silent", unit["seed"], cell["n"])
        instances = environment.instances(64, seed)
        rewards = environment.rollout(policy, instances, cell["n"], seed=seed).rewards
        weights = Method.of(cell).weights(rewards.double())
        yield cell["id"], {"silent": (weights == 0).all(-1).tolist()}
