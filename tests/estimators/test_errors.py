"""Mistakes are refused with the argument, its value and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from maxk_lab import estimators
from maxk_lab.errors import LabError

REWARDS = torch.tensor([1.0, 2.0, 3.0])
BELOW_N = "k must be an integer with 1 <= k < n = 3, got {}"
UP_TO_N = "k must be an integer with 1 <= k <= n = 3, got {}"
FROM_TWO = "k must be an integer with 2 <= k <= n = 3, got {}"
MISTAKES = [
    ("maxk_reward_estimate", UP_TO_N, (0, 4, -1, 1.5, True, "2", None)),
    ("maxk_gradient_weights", UP_TO_N, (0, 4)),
    ("sample_loo_baseline", BELOW_N, (0, 3)),
    ("sample_loo_weights", BELOW_N, (0, 3)),
    ("pkpo_sloo_weights", BELOW_N, (0, 3)),
    ("group_mean_weights", BELOW_N, (0, 3)),
    ("centred_weights", BELOW_N, (0, 3)),
    ("subloo_weights", FROM_TWO, (1, 4)),
    ("affine_weights", "k must be an integer with 2 <= k < n = 3, got {}", (1, 3)),
]


@pytest.mark.parametrize(("name", "message", "ks"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_k_out_of_range(name: str, message: str, ks: tuple[object, ...]) -> None:
    for k in ks:
        with pytest.raises(ValueError, match=f"^{re.escape(message.format(repr(k)))}$"):
            getattr(estimators, name)(REWARDS, k)


@pytest.mark.parametrize("k", [0, 3])
def test_apply_sample_loo_needs_k_below_n(k: int) -> None:
    with pytest.raises(ValueError, match=re.escape(BELOW_N.format(k))):
        estimators.apply_sample_loo(REWARDS, REWARDS, k)


def test_apply_sample_loo_needs_equal_shapes() -> None:
    with pytest.raises(
        ValueError, match=re.escape("s must have the shape of rewards [3], got [2]")
    ):
        estimators.apply_sample_loo(REWARDS[:2], REWARDS, 1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("function", [estimators.maxk_reward_estimate, estimators.centred_weights])
def test_rewards_must_be_finite(function: Callable[..., torch.Tensor], bad: float) -> None:
    rewards = torch.zeros(4, 3)
    rewards[2, 1] = bad
    with pytest.raises(ValueError, match=f"^rewards must be finite, got {bad}$"):
        function(rewards, 2)


def test_rewards_must_not_overflow() -> None:
    with pytest.raises(ValueError, match="must span less than"):
        estimators.centred_weights(torch.tensor([-1.5e308, 1.5e308], dtype=torch.float64), 1)


def test_huge_rewards_are_no_mistake() -> None:
    rewards = torch.tensor([[0.0, 1.7e308], [0.0, 1.7e308]], dtype=torch.float64)
    assert torch.isfinite(estimators.centred_weights(rewards, 1)).all()


@pytest.mark.parametrize("rewards", [torch.tensor(1.0), torch.zeros(3, 0)])
def test_shapes(rewards: torch.Tensor) -> None:
    with pytest.raises(
        ValueError, match=re.escape("rewards must have shape [..., n] with n >= 1, got shape")
    ):
        estimators.centred_weights(rewards, 1)


def test_types() -> None:
    with pytest.raises(TypeError, match=r"rewards must be a torch\.Tensor"):
        estimators.centred_weights([1.0, 2.0], 1)
    with pytest.raises(
        ValueError, match=r"rewards must be floating-point, integer or boolean, got .*complex"
    ):
        estimators.centred_weights(torch.zeros(3, dtype=torch.complex64), 1)


def test_reward_weights() -> None:
    with pytest.raises(ValueError, match="n must be an integer with n >= 1, got 0"):
        estimators.maxk_reward_weights(0, 1)
    with pytest.raises(ValueError, match="k must be an integer with 1 <= k <= n = 2, got 3"):
        estimators.maxk_reward_weights(2, 3)


def test_alpha_must_be_finite() -> None:
    with pytest.raises(ValueError, match="alpha must be a finite number, got nan"):
        estimators.affine_weights(REWARDS, 2, alpha=float("nan"))


def test_advantages_refuses_what_the_catalogue_refuses() -> None:
    with pytest.raises(ValueError, match="subloo needs 2 <= K <= n, got K = 1 and n = 3"):
        estimators.advantages(REWARDS, baseline="subloo", k=1)
    with pytest.raises(ValueError, match="subloo needs 2 <= K <= n, got K = 1 and n = 3"):
        estimators.advantages(REWARDS, estimator="reinforce", baseline="subloo", k=2)
    with pytest.raises(LabError, match=r"unknown baseline 'centered' \(did you mean centred\?\)"):
        estimators.advantages(REWARDS, baseline="centered")
