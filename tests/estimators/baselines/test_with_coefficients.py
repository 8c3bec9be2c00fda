"""Baselines with given coefficients or on disjoint groups, and the other arguments."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from maxk_lab import estimators
from maxk_lab.estimators.check.bandit import TinyBandit

BANDIT = TinyBandit((0.3, -0.8, 0.5, 0.1), (-6.25, -5.0, -4.1, -5.0))


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(rewards: torch.Tensor, baseline: str, k: int = 3, **options: Any) -> torch.Tensor:
    return estimators.advantages(rewards, baseline=baseline, k=k, **options)


def row(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def assert_same(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("how", ["cross_fit", "same_batch", "oracle"])
def test_coefficients_make_the_fixed_baseline(how: str) -> None:
    rewards = draw(4, 7) - 6.0
    assert_same(
        weights(rewards, f"affine[{how}]", coefficients=row(0.3)), weights(rewards, "affine[0.3]")
    )
    assert_same(
        weights(rewards, f"ladder[{how}]", coefficients=row(0.5, -1.0)),
        weights(rewards, "ladder[0.5 -1 1.5]"),
    )


def test_reductions() -> None:
    rewards = draw(4, 7) - 6.0
    for alpha, name in ((0.0, "centred"), (1.0, "subloo")):
        assert_same(
            weights(rewards, "affine[oracle]", coefficients=row(alpha)), weights(rewards, name)
        )
    assert_same(weights(rewards, "ladder[0 0 1]"), weights(rewards, "centred"))
    assert_same(weights(rewards, "ladder[0 1 0]"), weights(rewards, "subloo"))
    assert_same(weights(rewards, "ladder[0 0.4 0.6]"), weights(rewards, "affine[0.4]"))
    assert_same(weights(rewards, "constant[0]"), weights(rewards, "none"))
    assert_same(
        weights(rewards, "constant[oracle]", coefficients=row(-5.0)),
        weights(rewards, "constant[-5.0]"),
    )
    assert_same(weights(rewards, "constant[-5.0]"), weights(rewards, "none") + 3 / 7 * 5.0)
    baseline = weights(rewards, "none") - weights(rewards, "centred")
    assert_same(
        weights(rewards, "joint_optimum", coefficients=baseline), weights(rewards, "centred")
    )


def test_a_constant_next_to_large_rewards_keeps_its_precision() -> None:
    noise = 1e-3 * draw(7)
    found = weights((noise - 1e4).float(), "constant[-10000.0]")
    exact = weights((noise - 1e4).float().double() + 1e4, "none")
    torch.testing.assert_close(found, exact.float(), rtol=1e-6, atol=0.0)


def test_coefficients_broadcast_over_groups() -> None:
    rewards, coefficients = draw(2, 3, 7), draw(3, 2, seed=1)
    found = weights(rewards, "ladder", coefficients=coefficients)
    for a in range(2):
        for b in range(3):
            assert_same(found[a, b], weights(rewards[a, b], "ladder", coefficients=coefficients[b]))
    own = draw(2, 1, 1, seed=2)
    assert_same(
        weights(rewards, "affine[cross_fit]", coefficients=own)[1, 2],
        weights(rewards[1, 2], f"affine[{float(own[1])}]"),
    )
    assert weights(rewards.float(), "ladder", coefficients=coefficients).dtype == torch.float32


@pytest.mark.parametrize(
    ("baseline", "shape", "needed"),
    [
        ("affine[oracle]", (2,), 1),
        ("ladder", (3,), 2),
        ("ladder", (5, 2), 2),
        ("ladder", (4, 1, 2), 2),
        ("constant", (), 1),
        ("joint_optimum", (1,), 7),
    ],
)
def test_coefficients_of_a_wrong_shape_are_refused(
    baseline: str, shape: tuple[int, ...], needed: int
) -> None:
    message = (
        f"coefficients must be [..., {needed}] over the leading dimensions of rewards [4, 7], "
        "got shape"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        weights(draw(4, 7), baseline, coefficients=torch.zeros(shape))
    wrong: Any = 0.5
    with pytest.raises(TypeError, match=r"coefficients must be a torch\.Tensor, got float"):
        estimators.Method.parse("maxk", baseline, 3).weights(draw(4, 7), coefficients=wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"baseline": "ladder"},
            "ladder[cross_fit] needs its fitted coefficients, [..., D], got none",
        ),
        (
            {"baseline": "affine[0.5]", "coefficients": row(1.0)},
            "affine[0.5] takes no coefficients",
        ),
        ({"estimator": "off_policy_maxk"}, "off_policy_maxk needs ratios"),
        ({"estimator": "maxk", "ratios": torch.ones(7)}, "maxk takes no ratios"),
        ({"estimator": "partitioned", "baseline": "none", "k": 2}, "partitioned needs K divides n"),
        (
            {"estimator": "median", "baseline": "ladder"},
            "median takes no baseline of the maximum alone",
        ),
        (
            {"estimator": "off_policy_maxk", "baseline": "group_mean"},
            "takes only baselines for importance",
        ),
    ],
)
def test_what_is_missing_or_too_much_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        estimators.advantages(draw(7), **{"k": 3, **options})


@pytest.mark.parametrize("baseline", ["none", "centred", "subloo"])
def test_ratios_of_one_are_on_policy(baseline: str) -> None:
    rewards = draw(4, 7) - 6.0
    for estimator in ("off_policy_maxk", "off_policy_first_order"):
        found = weights(
            rewards, baseline, estimator=estimator, ratios=torch.ones(4, 7, dtype=torch.float64)
        )
        assert_same(found, weights(rewards, baseline))


def test_partitioned_by_hand() -> None:
    rewards = row(1.0, 4.0, 2.0, 3.0, 9.0, 0.0)
    none = estimators.advantages(rewards, estimator="partitioned", baseline="none", k=2)
    assert_same(none, row(4.0, 4.0, 3.0, 3.0, 9.0, 9.0) / 3)
    loo = estimators.advantages(rewards, estimator="partitioned[loo]", baseline="none", k=2)
    assert_same(loo, row(-2.0, -2.0, -3.5, -3.5, 5.5, 5.5) / 3)


def test_partitioned_ends() -> None:
    rewards = draw(3, 6) - 6.0
    whole = estimators.advantages(rewards, estimator="partitioned", baseline="none", k=6)
    assert_same(whole, weights(rewards, "none", k=6))
    single = estimators.advantages(rewards, estimator="partitioned[loo]", baseline="none", k=1)
    assert_same(single, weights(rewards, "rloo", k=1))
    shifted = estimators.advantages(
        (rewards * 8).round() + 1e9, estimator="partitioned[loo]", baseline="none", k=2
    )
    assert torch.equal(
        shifted,
        estimators.advantages(
            (rewards * 8).round(), estimator="partitioned[loo]", baseline="none", k=2
        ),
    )


def test_partitioned_varies_more_than_subsets() -> None:
    """Its estimate uses n / K subsets, that of maxk all C(n, K): enumerated for K = 2 of 4."""
    variance = {
        (estimator, baseline): BANDIT.trace_variance(4, 2, estimator=estimator, baseline=baseline)
        for estimator, baseline in (
            ("partitioned[none]", "none"),
            ("partitioned[loo]", "none"),
            ("maxk", "none"),
            ("maxk", "centred"),
        )
    }
    assert variance["maxk", "none"] < variance["partitioned[none]", "none"]
    assert variance["maxk", "centred"] < variance["partitioned[loo]", "none"]


def test_same_batch_coefficients_are_biased_and_others_are_not() -> None:
    truth = BANDIT.gradient(2)
    for fit, biased in (("same_batch", True), ("oracle", False), ("cross_fit", False)):
        mean = BANDIT.mean_estimate(4, 2, estimator="maxk", baseline=f"affine[{fit}]")
        assert (float((mean - truth).norm() / truth.norm()) > 1e-3) is biased
