"""The softmax bandit: its samples, its proxy and its isolation from the global random state."""

import math

import torch
from small_environments import make

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment


def test_the_logit_proxy_is_the_exact_squared_score_norm():
    environment = make("bandit", arms=6)
    policy, instances = environment.policy(0), environment.instances(2, 1)
    rollouts = environment.rollout(policy, instances, 5, seed=2)
    log_probs = environment.log_probs(policy, instances, rollouts.actions)
    for value, proxy in zip(log_probs.flatten(), rollouts.logit_proxy.flatten()):
        (score,) = torch.autograd.grad(value, [policy.logits], retain_graph=True)
        torch.testing.assert_close(score.square().sum(), proxy, rtol=1e-12, atol=1e-12)


def table(**changes):
    parameters = {"name": "bandit", "arms": 5, "reward_shift": 0.0} | changes
    return make_environment(parameters, {"init_std": 1.0, "dtype": "float64"}).instances(2, 7)


def test_tables_that_are_not_drawn_ascend_from_0_to_1():
    expected = {
        "linear": [0, 0.25, 0.5, 0.75, 1],
        "exponential": [(math.exp(5 * x / 4) - 1) / (math.exp(5) - 1) for x in range(5)],
        "binary": [0, 0, 0, 0, 1],
    }
    for name, rewards in expected.items():
        wanted = torch.tensor([rewards, rewards], dtype=torch.float64)
        torch.testing.assert_close(table(rewards=name), wanted, rtol=1e-14, atol=0)
        torch.testing.assert_close(
            table(rewards=name, reward_shift=-1.0), wanted - 1, rtol=1e-14, atol=1e-15
        )


def test_success_probability_is_that_of_the_last_arm():
    for dtype, tolerance in (("float64", 1e-15), ("float32", 1e-7)):
        environment = make("bandit", dtype, policy={"success_probability": 0.02}, arms=5)
        network = environment.policy(3)
        probabilities = network().exp()
        assert probabilities.dtype == getattr(torch, dtype)
        wanted = torch.tensor([0.245] * 4 + [0.02], dtype=probabilities.dtype)
        torch.testing.assert_close(probabilities.detach(), wanted, rtol=tolerance * 10, atol=0)
        assert torch.equal(network.logits, environment.policy(4).logits)


def test_the_row_says_when_rewards_are_0_and_1():
    row = ENVIRONMENTS.get("bandit")
    assert row.other_rewards({"rewards": "binary", "reward_shift": 0.0}) is None
    assert "1 for the last arm" in row.other_rewards({"rewards": "binary", "reward_shift": 1.0})
    assert "spaced evenly" in row.other_rewards({"rewards": "linear", "reward_shift": 0.0})
    assert (
        row.refusal({}, {"success_probability": 1.0})
        == "success_probability must be less than 1, got 1.0"
    )
    assert row.refusal({}, {"success_probability": 0.9}) is None
    assert row.refusal({}, {}) is None
