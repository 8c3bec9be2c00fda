"""Rules of large groups, values and the seeds' functions, against fractions and each other."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from maxk_lab import estimators
from maxk_lab.estimators import Objective, lines
from maxk_lab.estimators.least_squares import Equations, family_terms
from maxk_lab.estimators.method import Method


def forms(k: int) -> tuple[str, ...]:
    """Objectives of K rewards: of the best, of the middle, and of the worst with either sign."""
    worst = " ".join(f"{(-1) ** j * 0.7 / (j + 1)}" for j in range(k))
    return ("top_m[2]", "cvar_upper[0.3]", middle(k), f"order[{worst}]")


def middle(k: int) -> str:
    """The mean of the middle three fifths of K rewards."""
    inside = [1.0 if k // 5 <= j < k - k // 5 else 0.0 for j in range(k)]
    return f"order[{' '.join(str(one / sum(inside)) for one in inside)}]"


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(rewards: Tensor, estimator: str, baseline: str, k: int, **numbers: Any) -> Tensor:
    return Method.parse(estimator, baseline, k).weights(rewards, **numbers)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_values_are_the_means_over_subsets(n: int) -> None:
    rewards = torch.cat([draw(2, n, seed=n), draw(2, n, seed=n).round()])
    curve = estimators.maxk_curve(rewards)
    for k in range(1, n + 1):
        value = estimators.maxk_reward_estimate(rewards, k)
        subsets = torch.combinations(torch.arange(n), k)
        torch.testing.assert_close(value, rewards[:, subsets].amax(-1).mean(-1))
        torch.testing.assert_close(curve[..., k - 1], value, rtol=1e-12, atol=1e-14)
        for form in forms(k) if k > 1 else ():
            objective = Objective(form, k)
            alpha = torch.tensor(objective.order_weights, dtype=torch.float64)
            exact = (rewards[:, subsets].sort(-1).values @ alpha).mean(-1)
            torch.testing.assert_close(estimators.objective_estimate(rewards, objective), exact)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool])
def test_values_keep_shapes_and_dtypes(dtype: torch.dtype) -> None:
    wanted = dtype if dtype.is_floating_point else torch.float64
    for shape in ((3,), (0, 3), (2, 1, 3)):
        rewards = (draw(*shape) > 0).to(dtype)
        for value, size in (
            (estimators.maxk_reward_estimate(rewards, 2), shape[:-1]),
            (estimators.maxk_curve(rewards), shape),
            (estimators.sample_loo_baseline(rewards, 2), shape),
            (estimators.objective_estimate(rewards, Objective("order[0.5 0.5]", 2)), shape[:-1]),
        ):
            assert (value.dtype, value.shape) == (wanted, size)


def test_the_seeds_functions_are_rows_of_the_catalogue() -> None:
    rewards = draw(4, 6).float()
    for stable in (True, False):
        s = estimators.maxk_gradient_weights(rewards, 3, stable_sort=stable)
        assert torch.equal(s, weights(rewards, "maxk", "none", 3))
        subloo = estimators.subloo_weights(rewards, 3, stable_sort=stable)
        assert torch.equal(subloo, weights(rewards, "maxk", "subloo", 3))
        exact = weights(rewards.double(), "maxk", "none", 3)
        with_loo = estimators.apply_sample_loo(exact, rewards, 3, stable_sort=stable)
        torch.testing.assert_close(with_loo, weights(rewards.double(), "maxk", "sample_loo", 3))
        left_out = estimators.sample_loo_baseline(rewards.double(), 3, stable_sort=stable)
        torch.testing.assert_close(with_loo, exact - left_out)
    assert estimators.apply_sample_loo(s, rewards, 3).dtype == torch.float32


def test_weights_cached_in_inference_mode_serve_autograd() -> None:
    with torch.inference_mode():
        estimators.maxk_reward_estimate(torch.randn(11), 4)
    rewards = torch.randn(11, requires_grad=True)
    estimators.maxk_reward_estimate(rewards, 4).backward()
    assert rewards.grad is not None
    assert float(rewards.grad.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["score", "left_out_value", "group_mean", "subloo", "value"])
def test_the_general_lines_give_those_of_the_maximum(name: str) -> None:
    """Two ways to the same coefficients: hypergeometric means and the maximum's recurrence."""
    for n, k in ((5, 2), (40, 17), (300, 299), (4096, 64)):
        general = getattr(lines, name)(n, k, Objective("max", k))
        special = getattr(lines, name)(n, k)
        for found, exact in ((general.up, special.up), (general.level, special.level)):
            np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-300)
        assert (general.top, general.base % n) == (special.top, special.base % n)


@pytest.mark.parametrize("k", [1, 2, 100, 199, 200])
def test_weights_at_200_are_exact(k: int) -> None:
    n = 200
    ranked = sorted(random.Random(k).uniform(-1.0, 1.0) for _ in range(n))
    total, tail, exact = math.comb(n, k), Fraction(0), [0.0] * n
    for i in range(n, 0, -1):
        own = math.comb(i - 1, k - 1) * Fraction(ranked[i - 1])
        exact[i - 1] = float((own + tail) / total)
        if k >= 2 and i >= 2:
            tail += math.comb(i - 2, k - 2) * Fraction(ranked[i - 1])
    found = weights(torch.tensor(ranked, dtype=torch.float64), "maxk", "none", k)
    wanted = torch.tensor(exact, dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=0.0, atol=1e-13 * float(wanted.abs().max()))
    shares = [float(Fraction(math.comb(i, k - 1), total)) for i in range(n)]
    of_rewards = estimators.maxk_reward_weights(n, np.int64(k))
    expected = torch.tensor(shares, dtype=torch.float64)
    torch.testing.assert_close(of_rewards, expected, rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("k", [2, 1_000, 64_991, 65_535, 65_536])
def test_subloo_at_65536_against_exact_integers(k: int) -> None:
    """Whole rewards that rise at few ranks: the exact weight is a sum of few ratios."""
    n, jumps = 65_536, {64_990: 2, 65_400: 5, 65_534: 1, 65_535: 4}
    gaps = torch.zeros(n, dtype=torch.int64)
    gaps[list(jumps)] = torch.tensor(list(jumps.values()))
    found = estimators.subloo_weights(gaps.cumsum(0), k)
    exact = Fraction(0)
    for j, gap in jumps.items():
        # C(j, K-1) / C(n, K) = K/n * product of (l-K+1) / l over l = j+1..n-1.
        chosen = math.prod(max(index - k + 1, 0) for index in range(j + 1, n))
        exact += gap * Fraction(k * chosen, n * math.prod(range(j + 1, n)))
        assert float(found[j]) == pytest.approx(float(exact), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize(
    ("form", "n", "k"),
    [*(("maxk", 4096, k) for k in (2, 1024, 4096)), *(("order", 512, k) for k in (2, 128, 512))],
)
def test_large_groups_are_finite_and_consistent(form: str, n: int, k: int) -> None:
    form = middle(k) if form == "order" else form
    method, rewards = Method.parse(form, "none", k), draw(n, seed=k) - 6.0
    value = float(estimators.objective_estimate(rewards, method.objective_at(n)))
    s, subloo = (weights(rewards, form, baseline, k) for baseline in ("none", "subloo"))
    assert torch.isfinite(subloo).all()
    assert float(s.sum()) == pytest.approx(k * value, rel=1e-12)
    if k == n:
        ranked = rewards.sort().values.tolist()
        direct = math.fsum(a * r for a, r in zip(method.objective_at(n).order_weights, ranked))
        torch.testing.assert_close(s, torch.full_like(s, direct), rtol=1e-12, atol=0.0)
        return
    left_out = s - weights(rewards, form, "sample_loo", k)
    torch.testing.assert_close(
        s + (n - k) / n * left_out, torch.full_like(s, value), rtol=1e-12, atol=0.0
    )
    centred = weights(rewards, form, "centred", k)
    assert abs(float(centred.sum())) < 1e-12 * float(centred.abs().sum())


def test_the_curve_of_a_large_group_rises_through_the_values() -> None:
    rewards = draw(700) - 6.0
    curve = estimators.maxk_curve(rewards)
    assert (curve.diff(dim=-1) >= -1e-13).all()
    for k in (2, 350, 700):
        value = estimators.maxk_reward_estimate(rewards, k)
        torch.testing.assert_close(curve[k - 1], value, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("form", ["order[1 1 1 0 0 0 0 0]", "order[0 0 0 1 1 0 0 0]"])
def test_a_huge_reward_that_does_not_count_costs_no_precision(form: str) -> None:
    """The value of K = n does not hold the best reward at all; float64 at 1e18 resolves 128."""
    rewards = draw(8, seed=1)
    rewards[3] = 1e18
    objective = Objective(form, 8)
    ranked = rewards.sort().values.tolist()
    direct = math.fsum(a * r for a, r in zip(objective.order_weights, ranked) if a)
    value = float(estimators.objective_estimate(rewards, objective))
    assert value == pytest.approx(direct, rel=1e-14)
    s = weights(rewards, form, "none", 8)
    torch.testing.assert_close(s, torch.full_like(s, direct), rtol=1e-14, atol=0.0)


@pytest.mark.parametrize(("family", "count"), [("affine", 1), ("ladder", 3), ("constant", 1)])
def test_the_terms_of_a_family_are_its_weights_at_any_coefficients(family: str, count: int) -> None:
    rewards, coefficients = draw(3, 7).float() - 6.0, draw(count, seed=1)
    start, directions = family_terms(rewards.requires_grad_(), 4, family)
    assert start.dtype == directions.dtype == torch.float64
    assert not start.requires_grad
    assert not directions.requires_grad
    expected = weights(rewards.double(), "maxk", f"{family}[oracle]", 4, coefficients=coefficients)
    torch.testing.assert_close(start + directions @ coefficients, expected)


def test_coefficients_broadcast_over_groups_and_keep_the_precision_of_large_rewards() -> None:
    rewards, coefficients = draw(2, 3, 7), draw(3, 2, seed=1)
    found = weights(rewards, "maxk", "ladder", 3, coefficients=coefficients)
    for a, b in ((0, 0), (1, 2)):
        exact = weights(rewards[a, b], "maxk", "ladder", 3, coefficients=coefficients[b])
        torch.testing.assert_close(found[a, b], exact)
    own = draw(2, 1, 1, seed=2)
    found = weights(rewards, "maxk", "affine[cross_fit]", 3, coefficients=own)
    single = weights(rewards[1, 2], "maxk", f"affine[{float(own[1])}]", 3)
    torch.testing.assert_close(found[1, 2], single)
    large, level = (1e-3 * draw(7) - 1e4).float(), torch.tensor([-10_000.0])
    exact = weights(large.double() + 1e4, "maxk", "none", 3).float()
    found = weights(large, "maxk", "constant[oracle]", 3, coefficients=level)
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=0.0)


def test_directions_that_least_squares_does_not_see_get_nothing() -> None:
    zero = torch.zeros(2, 3, 3, dtype=torch.float64)
    assert not Equations(zero, zero[..., 0]).solution().any()
    twice = torch.ones(2, 2, dtype=torch.float64)  # the second direction is the first
    torch.testing.assert_close(Equations(twice, 3 * twice[0]).solution(), 1.5 * twice[0])


@pytest.mark.parametrize("k", [1, 17, 59])
def test_optimal_at_60_is_the_direct_sum_over_the_others(k: int) -> None:
    n, rewards, generator = 60, draw(60), torch.Generator().manual_seed(k)
    g = 10.0 ** (9 * torch.rand(n, generator=generator, dtype=torch.float64))
    baseline = torch.zeros(n, dtype=torch.float64)
    for i in range(n):
        keep = torch.arange(n) != i
        s = weights(rewards[keep], "maxk", "none", k)
        baseline[i] = (n - 1) / n * (g[keep] * s).sum() / g[keep].sum()
    expected = weights(rewards, "maxk", "none", k) - baseline
    found = weights(rewards, "maxk", "optimal", k, trajectory_weights={"grad_norm": g})
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-12 * float(expected.abs().max()))
