"""The options that rescale weights: off by default, exact where on, and biased."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from maxk_lab.estimators import WEIGHT_NORMALIZATIONS, advantages
from maxk_lab.estimators.check.bandit import TinyBandit

REWARDS = torch.tensor([[0.0, 2.0, 5.0, 1.0], [3.0, 3.0, 3.0, 3.0]], dtype=torch.float64)
BANDIT = TinyBandit((0.3, -0.8, 0.5, 0.1), (-6.25, -5.0, -4.1, -5.5))


def test_off_by_default() -> None:
    plain = advantages(REWARDS, baseline="subloo", k=2)
    off = advantages(
        REWARDS, baseline="subloo", k=2, weight_normalization="none", min_gap_scale=None
    )
    assert torch.equal(plain, off)


def test_by_hand() -> None:
    w = advantages(REWARDS, baseline="subloo", k=2)
    centred = w - w.mean(-1, keepdim=True)
    zscore = advantages(REWARDS, baseline="subloo", k=2, weight_normalization="zscore")
    torch.testing.assert_close(zscore, centred / (w.std(-1, keepdim=True) + 1e-8))
    assert (zscore[1] == 0).all()
    to_zero = advantages(REWARDS, baseline="subloo", k=2, weight_normalization="sum_to_zero")
    torch.testing.assert_close(to_zero, centred)
    by_gap = advantages(REWARDS, baseline="none", k=2, min_gap_scale=0.5)
    s = advantages(REWARDS, baseline="none", k=2)
    torch.testing.assert_close(by_gap, s / torch.tensor([[5.0], [0.5]]))


def test_the_gap_comes_before_the_normalization() -> None:
    both = advantages(
        REWARDS, baseline="subloo", k=2, min_gap_scale=0.5, weight_normalization="sum_to_zero"
    )
    one = advantages(REWARDS, baseline="subloo", k=2, min_gap_scale=0.5)
    torch.testing.assert_close(both, one - one.mean(-1, keepdim=True))


@pytest.mark.parametrize(
    "option",
    [
        *({"weight_normalization": how} for how in WEIGHT_NORMALIZATIONS if how != "none"),
        {"min_gap_scale": 0.1},
    ],
    ids=str,
)
def test_every_option_biases_an_unbiased_pair(option: dict[str, Any]) -> None:
    truth = BANDIT.gradient(2)
    plain = BANDIT.mean_estimate(4, 2, estimator="maxk", baseline="subloo")
    assert float((plain - truth).norm() / truth.norm()) < 1e-12
    biased = BANDIT.mean_estimate(4, 2, estimator="maxk", baseline="subloo", **option)
    assert float((biased - truth).norm() / truth.norm()) > 1e-2


@pytest.mark.parametrize(
    "option", [{"weight_normalization": "zscore"}, {"min_gap_scale": 1e-6}], ids=str
)
def test_float32_agrees_with_float64_for_shifted_and_small_rewards(option: dict[str, Any]) -> None:
    noise = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    for rewards in (noise + 1000.0, 1e-4 * noise):
        exact = advantages(rewards.double(), baseline="centred", k=2, **option)
        found = advantages(rewards, baseline="centred", k=2, **option)
        torch.testing.assert_close(found, exact.float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            {"weight_normalization": "z_score"},
            r"one of none, zscore, sum_to_zero, got 'z_score' \(did you mean zscore",
        ),
        (
            {"weight_normalization": None},
            "weight_normalization must be one of none, zscore, sum_to_zero, got None",
        ),
        ({"min_gap_scale": 0.0}, "min_gap_scale must be a finite number > 0 or None, got 0.0"),
        (
            {"min_gap_scale": float("inf")},
            "min_gap_scale must be a finite number > 0 or None, got inf",
        ),
        ({"min_gap_scale": True}, "min_gap_scale must be a finite number > 0 or None, got True"),
    ],
)
def test_mistakes(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        advantages(REWARDS, baseline="subloo", k=2, **option)


def test_zscore_of_one_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="zscore needs n >= 2 samples"):
        advantages(torch.ones(1), baseline="none", k=1, weight_normalization="zscore")
