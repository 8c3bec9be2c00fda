"""Off-policy weights where ratios lie far apart and near one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators import effective_sample_size, off_policy_value
from maxk_lab.estimators.check.brute_force import brute_force
from maxk_lab.estimators.method import Method

BASELINES = pytest.mark.parametrize("baseline", ["none", "centred", "subloo"])
EXACT = "off_policy_maxk"
SPREADS = [5.0, 15.0, 60.0, "one of 1e-200"]


def weigh(rewards: Tensor, ratios: Tensor, k: int, baseline: str) -> Tensor:
    return Method.parse(EXACT, baseline, k).weights(rewards, ratios=ratios)


def exact(rewards: Tensor, ratios: Tensor, k: int, baseline: str) -> Tensor:
    return brute_force(Method.parse(EXACT, baseline, k), rewards, ratios=ratios)


def ks(n: int, baseline: str) -> list[int]:
    return [k for k in range(1, n + 1) if Method.parse(EXACT, baseline, k).refusal(n) is None]


def far_apart(n: int, spread: float | str) -> tuple[Tensor, Tensor]:
    """Rewards with ties and of both signs, and ratios of this log-sd, or of 15 but for one."""
    generator = torch.Generator().manual_seed(n)
    rewards, normal = torch.randn(2, 2, n, generator=generator, dtype=torch.float64)
    ratios = ((spread if isinstance(spread, float) else 15.0) * normal).exp()
    if not isinstance(spread, float):
        ratios[:, n // 2] = 1e-200
    return rewards.round(decimals=1), ratios


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_every_weight_is_exact_next_to_its_own_two_terms(spread: float | str, shift: float) -> None:
    """Those of `centred`, also where another sample's weight is greater by hundreds of digits."""
    for n in range(2, 6):
        rewards, ratios = far_apart(n, spread)
        rewards = rewards.abs() + shift
        for k in range(1, n):
            found = weigh(rewards, ratios, k, "centred")
            right, own = (exact(rewards, ratios, k, name) for name in ("centred", "none"))
            assert bool(((found - right).abs() <= 1e-14 * (own + (own - right))).all()), (n, k)


def test_centred_sees_gaps_alone_at_ratios_of_one_and_little_else_near_them() -> None:
    """On rewards of -1e6 whose gaps are 1e-3: their difference, not they, is rounded."""
    generator = torch.Generator().manual_seed(0)
    rewards, normal = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64)
    rewards = 1e-3 * rewards - 1e6
    for distance, tolerance in ((0.0, 1e-14), (1e-8, 1e-13)):
        ratios = (distance * normal).exp()
        for k in range(1, 5):
            right = exact(rewards, ratios, k, "centred")
            error = (weigh(rewards, ratios, k, "centred") - right).abs()
            assert bool((error <= tolerance * right.abs().max()).all()), k


@BASELINES
@pytest.mark.parametrize("log10", [-35.0, -76.0, -290.0])
def test_products_next_to_zero_are_exact_or_an_error(log10: float, baseline: str) -> None:
    """Never a number that has lost its digits."""
    right = refused = asked = 0
    for n in (2, 5):
        generator = torch.Generator().manual_seed(n)
        rewards, near = torch.rand(2, 2, n, generator=generator, dtype=torch.float64)
        ratios = 10.0**log10 * (0.5 + near)
        for rewarded in (rewards, (rewards > 0.7).double()):
            for k in ks(n, baseline):
                asked += 1
                try:
                    found = weigh(rewarded, ratios, k, baseline)
                except LabError:
                    refused += k * log10 < -280
                    continue
                slow = exact(rewarded, ratios, k, baseline)
                largest = slow.abs().amax(-1, keepdim=True)
                assert bool(((found - slow).abs() <= 1e-14 * largest).all()), k
                right += 1
    assert right + refused == asked
    assert refused or 5 * log10 > -300


@BASELINES
def test_products_beyond_a_dtype_are_an_error_and_no_number(baseline: str) -> None:
    generator = torch.Generator().manual_seed(0)
    large = torch.randn(256, generator=generator).double(), torch.full((256,), 1e6).double()
    few = torch.tensor([1.0, 3.0, 2.0]), torch.tensor([1e20, 1e20, 1.0]).double()
    # A tiny ratio of the only reward must not lose it.
    tiny = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1e-160, 1e-160]], dtype=torch.float64)
    cases = [(large, 128, "float64"), (few, 2, "float32"), (tiny, 3, "float64")]
    for case, k, dtype in cases[: 2 if baseline == "centred" else 3]:
        with pytest.raises(LabError, match=f"K = {k} ratios leave the range of {dtype}"):
            weigh(*case, k, baseline)
        with pytest.raises(LabError, match="leave the range"):
            off_policy_value(*case, k)
    assert torch.isfinite(weigh(*large, 8, baseline)).all()
    assert weigh(*tiny, 2, baseline) == pytest.approx(exact(*tiny, 2, baseline), rel=1e-14, abs=0)


@pytest.mark.parametrize(("n", "k"), [(6, 1), (6, 5), (64, 8), (200, 100)])
def test_ratios_of_one_give_the_on_policy_weights(n: int, k: int) -> None:
    drawn = torch.randn(4, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    for rewards in (drawn - 6.0, 1e-3 * drawn.round(decimals=1) - 1e4):
        for baseline in ("none", "centred", "subloo")[: 3 if k > 1 else 2]:
            expected = Method.parse("maxk", baseline, k).weights(rewards)
            found = weigh(rewards, torch.ones_like(rewards), k, baseline)
            tolerance = 1e-12 * float(expected.abs().max())
            torch.testing.assert_close(found, expected, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize(("n", "k"), [(6, 3), (64, 63), (1_030, 400)])
def test_value_is_own_weight_plus_the_value_of_the_others(n: int, k: int) -> None:
    """I2 off-policy: value = s_i + (n-K)/n * (value of the others); sums of 300 digits included."""
    generator = torch.Generator().manual_seed(n)
    rewards = torch.randn(n, generator=generator, dtype=torch.float64).round(decimals=1)
    ratios = (0.05 * torch.randn(n, generator=generator, dtype=torch.float64)).exp()
    value, s = off_policy_value(rewards, ratios, k), weigh(rewards, ratios, k, "none")
    torch.testing.assert_close(s.sum(), k * value, rtol=1e-12, atol=0.0)
    centred, subloo = (weigh(rewards, ratios, k, baseline) for baseline in ("centred", "subloo"))
    largest = float(s.abs().max())
    for i in (0, n - 1):
        keep = torch.arange(n) != i
        left_out, fewer = (off_policy_value(rewards[keep], ratios[keep], at) for at in (k, k - 1))
        torch.testing.assert_close(s[i] + (n - k) / n * left_out, value, rtol=1e-12, atol=0.0)
        for found, level in ((centred, left_out), (subloo, fewer)):
            expected = s[i] - ratios[i] * (k / n) * level
            torch.testing.assert_close(found[i], expected, rtol=0.0, atol=1e-11 * largest)


@BASELINES
def test_blocks_of_groups_give_what_one_gives(
    baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewards, ratios = (x.expand(3, 2, 8) for x in far_apart(8, 0.7))
    found = weigh(rewards, ratios, 4, baseline)
    assert torch.equal(found[1], weigh(rewards[0], ratios[0], 4, baseline))
    monkeypatch.setattr("maxk_lab.estimators.off_policy.BLOCK_ENTRIES", 120)
    assert torch.equal(weigh(rewards, ratios, 4, baseline), found)


def test_effective_sample_size() -> None:
    tiny = torch.full((3, 8), 1e-200, dtype=torch.float64)
    assert effective_sample_size(tiny).tolist() == [8.0] * 3
    assert float(effective_sample_size(torch.tensor([1e200, 1.0, 1.0], dtype=torch.float64))) == 1.0
    assert float(effective_sample_size(torch.tensor([1.0, 2.0]))) == pytest.approx(9 / 5)
