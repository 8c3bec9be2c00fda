"""Every fast formula against its twin where n is small, and exact integers where large."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
import torch

from maxk_lab import estimators
from maxk_lab.estimators import reference
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_estimator
from maxk_lab.estimators.check.result import small_groups
from maxk_lab.estimators.check.twins import has_twin, inputs, slow_twin
from maxk_lab.estimators.method import Method

SPELLINGS = [
    spelling for row in BASELINES if not row.token_level for spelling in (row.name, *row.examples)
]
ALONE = [
    spelling
    for row in ESTIMATORS
    if not row.takes_baseline
    for spelling in (row.name, *row.examples)
]


def groups(n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    plain = torch.randn(2, n, generator=generator, dtype=torch.float64)
    tied = torch.randint(-2, 2, (2, n), generator=generator).double()
    return torch.cat([plain, tied])


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_weights(spelling: str, n: int) -> None:
    for k in range(1, n + 1):
        method = Method.parse("maxk", spelling, k)
        assert has_twin(method)
        if method.refusal(n) is None:
            given = inputs(method, groups(n))
            fast, slow = method.weights(groups(n), **given), slow_twin(method)(groups(n), **given)
            torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ALONE)
def test_estimators_without_baseline(spelling: str) -> None:
    compared = 0
    for rewards in small_groups(binary=choose_estimator(spelling).row.binary_rewards):
        n = rewards.shape[-1]
        for k in range(1, n + 1):
            method = Method.parse(spelling, "none", k)
            if method.refusal(n) is None:
                slow = slow_twin(method)(rewards)
                torch.testing.assert_close(method.weights(rewards), slow, rtol=1e-12, atol=1e-14)
                compared += 1
    assert compared >= 5


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7])
def test_values(n: int) -> None:
    rewards = groups(n)
    curve = estimators.maxk_curve(rewards)
    torch.testing.assert_close(curve, reference.maxk_curve(rewards), rtol=1e-12, atol=1e-14)
    for k in range(1, n + 1):
        value = estimators.maxk_reward_estimate(rewards, k)
        torch.testing.assert_close(value, curve[..., k - 1], rtol=1e-12, atol=1e-14)
        exact = reference.maxk_reward_weights(n, k)
        torch.testing.assert_close(
            estimators.maxk_reward_weights(n, k), exact, rtol=1e-14, atol=0.0
        )
    for k in range(1, n):
        left_out = estimators.sample_loo_baseline(rewards, k)
        torch.testing.assert_close(
            left_out, reference.sample_loo_baseline(rewards, k), rtol=1e-12, atol=1e-14
        )
        s = estimators.maxk_gradient_weights(rewards, k)
        torch.testing.assert_close(estimators.apply_sample_loo(s, rewards, k), s - left_out)


@pytest.mark.parametrize("k", [1, 2, 7, 100, 199, 200])
def test_score_weights_at_200_are_exact(k: int) -> None:
    n = 200
    ranked = sorted(random.Random(k).uniform(-1.0, 1.0) for _ in range(n))
    exact_r = [Fraction(r) for r in ranked]
    total = math.comb(n, k)
    tail, exact = Fraction(0), [0.0] * n
    for i in range(n, 0, -1):
        exact[i - 1] = float((math.comb(i - 1, k - 1) * exact_r[i - 1] + tail) / total)
        if k >= 2 and i >= 2:
            tail += math.comb(i - 2, k - 2) * exact_r[i - 1]
    rewards = torch.tensor(ranked, dtype=torch.float64)
    weights = estimators.maxk_gradient_weights(rewards, k)
    scale = max(map(abs, exact))
    torch.testing.assert_close(
        weights, torch.tensor(exact, dtype=torch.float64), rtol=0.0, atol=1e-13 * scale
    )


@pytest.mark.parametrize("k", [2, 3, 1_000, 32_768, 64_991, 65_535, 65_536])
def test_subloo_at_65536_against_exact_integers(k: int) -> None:
    """Whole rewards that rise at few ranks: the exact weight is a sum of few ratios."""
    n, jumps = 65_536, {64_990: 2, 65_400: 5, 65_534: 1, 65_535: 4}
    gaps = torch.zeros(n, dtype=torch.int64)
    gaps[list(jumps)] = torch.tensor(list(jumps.values()))
    weights = estimators.subloo_weights(gaps.cumsum(0), k)
    exact = Fraction(0)
    for j, gap in jumps.items():
        # C(j, K-1) / C(n, K) = K/n * product of (l-K+1) / l over l = j+1..n-1.
        chosen = math.prod(max(index - k + 1, 0) for index in range(j + 1, n))
        exact += gap * Fraction(k * chosen, n * math.prod(range(j + 1, n)))
        assert float(weights[j]) == pytest.approx(float(exact), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("k", [1, 2, 255, 32_768, 65_535, 65_536])
def test_huge_groups_are_finite_and_consistent(k: int) -> None:
    n = 65_536
    rewards = torch.randn(n, generator=torch.Generator().manual_seed(k), dtype=torch.float64) - 5.0
    value = float(estimators.maxk_reward_estimate(rewards, k))
    s = estimators.maxk_gradient_weights(rewards, k)
    assert torch.isfinite(s).all()
    assert float(s.sum()) == pytest.approx(k * value, rel=1e-10)
    assert float(estimators.maxk_reward_weights(n, k).sum()) == pytest.approx(1.0, rel=1e-10)
    if k == 1:
        torch.testing.assert_close(s, rewards / n, rtol=1e-10, atol=1e-15)
    if k < n:
        left_out = estimators.sample_loo_baseline(rewards, k)
        torch.testing.assert_close(
            s + (n - k) / n * left_out, torch.full_like(s, value), rtol=1e-10, atol=0.0
        )
        centred = estimators.centred_weights(rewards, k)
        torch.testing.assert_close(centred, s - k / n * left_out, rtol=0.0, atol=1e-12)
        assert abs(float(centred.sum())) < 1e-9 * float(centred.abs().sum())


def test_curve_crosses_blocks() -> None:
    rewards = torch.randn(3, 700, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    curve = estimators.maxk_curve(rewards)
    for k in (1, 255, 256, 257, 512, 513, 699, 700):
        value = estimators.maxk_reward_estimate(rewards, k)
        torch.testing.assert_close(curve[:, k - 1], value, rtol=1e-11, atol=1e-13)
    assert (curve.diff(dim=-1) >= -1e-13).all()
