"""RL4CO's environments with a generator's own arguments, or made by a function of the user's."""

import sys

import pytest
import torch
from rl4co.envs import TSPEnv, get_env
from small_environments import make

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError


class Clustered(TSPEnv):
    """Cities in one corner of the square."""

    def _reset(self, td=None, batch_size=None):
        return super()._reset(td.set("locs", td["locs"] / 10), batch_size)


def make_env(**generator):
    assert generator == {"num_loc": 5}
    return Clustered(generator_params=generator, check_solution=False)


def make_another(**generator):
    return get_env("op", generator_params=generator)


def make_nothing(**generator):
    return None


@pytest.fixture(autouse=True)
def functions_in_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "own_env", sys.modules[__name__])


def test_arguments_of_a_generator():
    small, large = (make("cvrp", num_loc=5, generator={"capacity": c}) for c in (10, 1000))
    demands = [each.instances(20, 0)["demand"] for each in (small, large)]
    torch.testing.assert_close(demands[0], 100 * demands[1])


def test_an_argument_that_it_does_not_have_is_refused():
    with pytest.raises(LabError, match=r"no argument 'capacty' \(did you mean capacity\?\)"):
        make("cvrp", num_loc=5, generator={"capacty": 10})


def test_an_environment_of_the_users_own_is_sampled_as_any_other():
    environment = make("tsp", num_loc=5, env="own_env:make_env")
    policy, instances = environment.policy(0), environment.instances(4, 0)
    rollouts = environment.rollout(policy, instances, 6, seed=1)
    assert float(instances["locs"].max()) <= 0.1
    assert float(rollouts.rewards.min()) > -0.75
    found = environment.log_probs(policy, instances, rollouts.actions)
    torch.testing.assert_close(found.detach(), rollouts.log_probs)


def test_what_is_not_known_of_it_is_said():
    environment = make("tsp", num_loc=5, env="own_env:make_env")
    assert not environment.enumerable
    with pytest.raises(LabError, match="optima of an environment of your own are not known"):
        environment.optimum_method(environment.instances(2, 0), "auto")
    row = ENVIRONMENTS.get("tsp")
    assert not row.reward_range({"num_loc": 5, "env": "own_env:make_env"}).bounded


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("own_env:make_another", "must make an environment of RL4CO named 'tsp', got one named"),
        ("own_env:make_nothing", "named 'tsp', got NoneType"),
        ("own_env:make_no", "cannot load the env 'own_env:make_no'"),
    ],
)
def test_functions_that_make_no_such_environment(path, message):
    with pytest.raises(LabError, match=message):
        make("tsp", num_loc=5, env=path)


def test_a_module_that_is_nowhere_is_refused_before_anything_is_made():
    row = ENVIRONMENTS.get("tsp")
    refused = row.refusal({"num_loc": 5, "env": "nowhere:make"}, row.policy_settings.defaults())
    assert "cannot load the env 'nowhere:make': No module named 'nowhere'" in refused
