"""Every environment of the catalogue through the same laws."""

import pytest
import torch

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.protocol import make_environment

SMALL = {
    "embed_dim": 16,
    "num_encoder_layers": 1,
    "num_heads": 2,
    "feedforward_hidden": 16,
    "dtype": "float64",
}


@pytest.mark.parametrize("row", list(ENVIRONMENTS), ids=lambda row: row.name)
def test_every_environment_keeps_the_contract(row):
    """Teacher forcing, one instance alone, padding after done, and an enumeration whose probabilities sum to one."""
    defaults = {p.name: p.default for p in row.parameters}
    parameters = defaults | {"name": row.name, row.size_parameter: min(row.enumerable_up_to, 6)}
    policy_settings = {p.name: SMALL.get(p.name, p.default) for p in row.policy_parameters}
    environment = make_environment(parameters, policy_settings)
    assert environment.enumerable
    policy, instances = environment.policy(0), environment.instances(3, 1)
    rollouts = environment.rollout(policy, instances, 5, seed=2)
    assert torch.equal(environment.log_probs(policy, instances, rollouts.actions), rollouts.log_probs)
    alone = environment.select(instances, 1)
    torch.testing.assert_close(
        environment.log_probs(policy, alone, rollouts.actions[1:2])[0],
        rollouts.log_probs[1],
        rtol=1e-10,
        atol=1e-12,
    )
    padded = torch.nn.functional.pad(rollouts.actions, (0, 2))
    assert torch.equal(environment.log_probs(policy, instances, padded), rollouts.log_probs)
    listed, rewards = environment.enumerate(alone)
    total = environment.log_probs(policy, alone, listed.unsqueeze(0)).exp().sum().item()
    assert total == pytest.approx(1.0, abs=1e-12)
    width = listed.shape[1] - rollouts.actions.shape[2]
    drawn = torch.nn.functional.pad(rollouts.actions[1], (0, max(width, 0)))[:, : listed.shape[1]]
    match = (drawn.unsqueeze(1) == listed).all(-1)
    assert match.sum(1).eq(1).all()
    torch.testing.assert_close(rewards[match.long().argmax(1)], rollouts.rewards[1], rtol=1e-9, atol=1e-9)
