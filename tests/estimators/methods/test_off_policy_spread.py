"""Off-policy weights where ratios lie far apart, against their definition in exact fractions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.methods.off_policy import (
    OFF_POLICY_BASELINES,
    off_policy_value,
    off_policy_weights,
)
from maxk_lab.estimators.reference import off_policy as reference

SPREADS = [5.0, 10.0, 15.0, 60.0, "one of 1e-200"]


def far_apart(n: int, spread: float | str) -> tuple[Tensor, Tensor]:
    """Rewards with ties and of both signs, and ratios of this log-sd, or of 15 but for one."""
    generator = torch.Generator().manual_seed(n)
    rewards, normal = torch.randn(2, 3, n, generator=generator, dtype=torch.float64)
    ratios = ((spread if isinstance(spread, float) else 15.0) * normal).exp()
    if not isinstance(spread, float):
        ratios[:, n // 2] = 1e-200
    return rewards.round(decimals=1), ratios


def ks(n: int, baseline: str) -> range:
    return range(2 if baseline == "subloo" else 1, n + (baseline != "centred"))


@pytest.mark.parametrize("baseline", OFF_POLICY_BASELINES)
@pytest.mark.parametrize("spread", SPREADS)
def test_weights_are_exact_at_any_spread(spread: float | str, baseline: str) -> None:
    """Within 1e-14 of the largest weight of each group, for n = 2..10 and every K."""
    for n in range(2, 11):
        rewards, ratios = far_apart(n, spread)
        for k in ks(n, baseline):
            found = off_policy_weights(rewards, ratios, k, baseline)
            exact = reference.off_policy_weights(rewards, ratios, k, baseline)
            largest = exact.abs().amax(-1, keepdim=True)
            assert bool(((found - exact).abs() <= 1e-14 * largest).all()), (n, k)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_every_weight_is_exact_next_to_its_own_two_terms(spread: float | str, shift: float) -> None:
    """Those of `centred`, also where another sample's weight is greater by hundreds of digits."""
    for n in range(2, 7):
        rewards, ratios = far_apart(n, spread)
        rewards = rewards.abs() + shift
        for k in range(1, n):
            found = off_policy_weights(rewards, ratios, k, "centred")
            exact = reference.off_policy_weights(rewards, ratios, k, "centred")
            own = reference.off_policy_weights(rewards, ratios, k, "none")
            assert bool(((found - exact).abs() <= 1e-14 * (own + (own - exact))).all()), (n, k)


def test_centred_sees_gaps_alone_at_ratios_of_one_and_little_else_near_them() -> None:
    """On rewards of -1e6 whose gaps are 1e-3: their difference, not they, is rounded."""
    rewards, normal = torch.randn(
        2, 3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    rewards = 1e-3 * rewards - 1e6
    for distance, tolerance in ((0.0, 1e-14), (1e-8, 1e-13)):
        ratios = (distance * normal).exp()
        for k in range(1, 8):
            found = off_policy_weights(rewards, ratios, k, "centred")
            exact = reference.off_policy_weights(rewards, ratios, k, "centred")
            assert bool(((found - exact).abs() <= tolerance * exact.abs().max()).all()), k


@pytest.mark.parametrize("baseline", OFF_POLICY_BASELINES)
def test_float32_rewards_get_the_weights_of_float64_rounded_once(baseline: str) -> None:
    rewards, ratios = far_apart(8, 5.0)
    for k in ks(8, baseline):
        found = off_policy_weights(rewards.float(), ratios, k, baseline)
        exact = reference.off_policy_weights(rewards.float(), ratios, k, baseline)
        assert found.dtype == torch.float32
        error = (found.double() - exact).abs()
        allowed = 2.0**-24 * exact.abs() + 1e-14 * exact.abs().amax(-1, keepdim=True)
        assert bool((error <= allowed + 2.0**-150).all()), k


def test_weights_beyond_the_rewards_dtype_are_an_error_and_no_number() -> None:
    rewards, ratios = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1e20, 1e20, 1.0]).double()
    for baseline in ("none", "centred"):
        with pytest.raises(ValueError, match="products of K = 2 ratios leave the range of float32"):
            off_policy_weights(rewards, ratios, 2, baseline)
        assert torch.isfinite(off_policy_weights(rewards.double(), ratios, 2, baseline)).all()
    with pytest.raises(ValueError, match="leave the range of float32"):
        off_policy_value(rewards, ratios, 2)


@pytest.mark.parametrize("baseline", OFF_POLICY_BASELINES)
@pytest.mark.parametrize("log10", [-35.0, -60.0, -72.0, -76.0, -100.0, -290.0])
@pytest.mark.parametrize("n", [2, 8, 12])
def test_products_next_to_zero_are_exact_or_an_error(n: int, log10: float, baseline: str) -> None:
    """Never a number that has lost its digits."""
    generator = torch.Generator().manual_seed(n)
    rewards, near = torch.rand(2, 3, n, generator=generator, dtype=torch.float64)
    ratios = 10.0**log10 * (0.5 + near)
    right = refused = asked = 0
    for rewarded in (rewards, (rewards > 0.7).double()):
        for k in ks(n, baseline):
            asked += 1
            try:
                found = off_policy_weights(rewarded, ratios, k, baseline)
            except LabError:
                refused += k * log10 < -280
                continue
            exact = reference.off_policy_weights(rewarded, ratios, k, baseline)
            largest = exact.abs().amax(-1, keepdim=True)
            assert bool(((found - exact).abs() <= 1e-14 * largest).all()), k
            right += 1
    assert right + refused == asked
    assert refused or (n - 1) * log10 > -300


@pytest.mark.parametrize("baseline", ["none", "subloo"])
def test_a_tiny_ratio_of_the_only_reward_does_not_lose_it(baseline: str) -> None:
    rewards = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    ratios = torch.tensor([1.0, 1e-160, 1e-160], dtype=torch.float64)
    with pytest.raises(LabError, match="leave the range of float64"):
        off_policy_weights(rewards, ratios, 3, baseline)
    with pytest.raises(LabError, match="leave the range of float64"):
        off_policy_value(rewards, ratios, 3)
    found = off_policy_weights(rewards, ratios, 2, baseline)
    exact = reference.off_policy_weights(rewards, ratios, 2, baseline)
    assert found == pytest.approx(exact, rel=1e-14, abs=0)
