"""Rollouts: statistics of a decision at the edges, and parts of another shape."""

from __future__ import annotations

from dataclasses import replace

import pytest
import small_environments
import torch

from maxk_lab.environments.rollouts import checked, logit_proxy
from maxk_lab.errors import LabError
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.training.evaluation import sample_rewards


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda r: {"rewards": r.rewards.flatten()}, r"the rewards .* \[3, 4\] .*, got \[12\]"),
        (lambda r: {"rewards": r.rewards.tolist()}, "the rewards .*, got list"),
        (lambda r: {"entropy": None}, "the entropy .*, got NoneType"),
        (lambda r: {"truncated": torch.zeros(3)}, r"the truncated .*, got \[3\]"),
        (lambda r: {"actions": r.actions[..., 0]}, r"the actions .* \[3, 4, T\] .*, got \[3, 4\]"),
    ],
)
def test_a_part_of_another_shape_is_named(wrong, message):
    environment = small_environments.make("bandit")
    rollouts = environment.rollout(environment.policy(0), environment.instances(3, 1), 4, seed=2)
    assert checked(rollouts, 4, 3) is rollouts
    with pytest.raises(LabError, match=message):
        checked(replace(rollouts, **wrong(rollouts)), 4, 3)


def test_rewards_in_one_row_are_refused_in_every_study(monkeypatch):
    environment = small_environments.make("bandit")
    rollout = environment.rollout

    def flat(*arguments, **options):
        rollouts = rollout(*arguments, **options)
        return replace(rollouts, rewards=rollouts.rewards.flatten())

    monkeypatch.setattr(environment, "rollout", flat)
    policy, instances = environment.policy(0), environment.instances(2, 1)
    with pytest.raises(LabError, match=r"rewards of its rollout must be a tensor \[1, 16\]"):
        draw_pool(environment, policy, instances, 2, 16, objectives=[1], seed=3)
    with pytest.raises(LabError, match="rewards of its rollout must be a tensor"):
        sample_rewards(environment, policy, instances, 8, 1)


@pytest.mark.parametrize("confidence", [1.0, 9.0, 12.0, 30.0])
def test_the_logit_proxy_of_a_confident_float32_policy_is_that_of_float64(confidence):
    logits = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    logits[:, 2] += confidence
    for action in (2, 4):
        actions = torch.full((50,), action)
        p = torch.log_softmax(logits.double(), -1).exp()
        exact = 1 - 2 * p[:, action] + p.square().sum(-1)
        if confidence > 10 and action == 2:  # there even float64 has to sum what is small by itself
            others = torch.cat([p[:, :2], p[:, 3:]], 1)
            exact = others.sum(1).square() + others.square().sum(1)
        proxy = logit_proxy(logits.softmax(-1), actions)
        torch.testing.assert_close(proxy.double(), exact, rtol=2e-5, atol=0.0)
        assert (proxy > 0).all()
