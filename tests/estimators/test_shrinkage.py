"""The James-Stein baseline: its formula and its laws; `test_catalogue.py` has its mean."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from maxk_lab.estimators import advantages, maxk_reward_estimate


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weigh(rewards: Tensor, k: int, baseline: str = "shrinkage") -> Tensor:
    return advantages(rewards, baseline=baseline, k=k)


def by_definition(rewards: Tensor, k: int) -> Tensor:
    """The weights [P, n], prompt by prompt and sample by sample."""
    prompts, n = rewards.shape
    weights = weigh(rewards, k, "none").clone()
    left_out = [torch.arange(n) != i for i in range(n)]
    for p in range(prompts):
        rest = rewards[[q for q in range(prompts) if q != p]]
        values = maxk_reward_estimate(rest, k)
        jackknife = torch.stack([maxk_reward_estimate(rest[:, keep], k) for keep in left_out])
        v = (n - 1) * jackknife.var(0, correction=0).mean()
        share = v / (v + values.var(correction=0))
        for i, keep in enumerate(left_out):
            value = maxk_reward_estimate(rewards[p][keep], k)
            weights[p, i] -= k / n * ((1 - share) * value + share * values.mean())
    return weights


@pytest.mark.parametrize(("prompts", "n", "k"), [(2, 4, 1), (5, 6, 3), (3, 5, 4)])
def test_weights_are_those_of_the_definition(prompts: int, n: int, k: int) -> None:
    rewards = draw(prompts, n) + draw(prompts, 1, seed=1)
    torch.testing.assert_close(weigh(rewards, k), by_definition(rewards, k), rtol=0, atol=1e-13)


def test_the_variance_of_one_sample_values_is_that_of_the_mean() -> None:
    """At K = 1 the formula of the authors' code, by hand: v = 1/2 and s = 4 of prompts 2 and 3."""
    rewards = torch.tensor([[0.0, 4.0], [1.0, 3.0], [6.0, 6.0]], dtype=torch.float64)
    share = 0.5 / (0.5 + 4.0)
    levels = torch.tensor([(1 - share) * 4 + share * 4, (1 - share) * 0 + share * 4])
    torch.testing.assert_close(weigh(rewards, 1)[0], (rewards[0] - levels.double()) / 2)


@pytest.mark.parametrize("k", [1, 3])
def test_laws(k: int) -> None:
    rewards = draw(4, 2, 5).round(decimals=1)
    weights = weigh(rewards, k)
    order, prompts = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(weigh(rewards[..., order], k), weights[..., order])
    torch.testing.assert_close(weigh(rewards[prompts], k), weights[prompts])
    torch.testing.assert_close(weigh(rewards[:, 1], k), weights[:, 1])
    all_usable = advantages(rewards, baseline="shrinkage", k=k, usable=torch.ones_like(rewards))
    torch.testing.assert_close(all_usable, weights)
    torch.testing.assert_close(weigh(rewards + 1024, k), weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(weigh(1e200 * rewards, k), 1e200 * weights)
    moved = rewards.clone()
    moved[0, 0, 0] += 31
    levels = [weigh(one, k, "none") - weigh(one, k) for one in (rewards, moved)]
    torch.testing.assert_close(levels[0][0, 0, 0], levels[1][0, 0, 0])
    torch.testing.assert_close(weigh(moved, k)[:, 1], weights[:, 1])


def test_one_prompt_and_equal_rewards_give_centred() -> None:
    for rewards in (draw(5), draw(1, 5), torch.ones(3, 5)):
        torch.testing.assert_close(weigh(rewards, 2), weigh(rewards, 2, "centred"))
