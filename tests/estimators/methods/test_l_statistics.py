"""Laws of the L-statistics: reductions, linearity, large groups, outliers, refusals."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab import estimators
from maxk_lab.estimators import reference
from maxk_lab.estimators.catalogue import BASELINES
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.check.run import check_pair
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranks import derived, maximum
from maxk_lab.estimators.ranks.gaps import apply_rule

NAMES = tuple(row.name for row in BASELINES if row.any_objective)
UNBIASED = tuple(name for name in NAMES if BASELINES.get(name).unbiased)
FORMS = ("top_m[2]", "cvar_upper[0.3]", "cvar_lower[0.3]", "median", "trimmed_mean[0.2]")
CPU = torch.device("cpu")


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(
    rewards: torch.Tensor, form: str, baseline: str, k: int, **options: Any
) -> torch.Tensor:
    return estimators.advantages(rewards, estimator=form, baseline=baseline, k=k, **options)


def explicit(alpha: list[float]) -> str:
    return f"l_statistic[{' '.join(map(repr, alpha))}]"


@st.composite
def cases(
    draw_one: st.DrawFn, names: tuple[str, ...] = NAMES
) -> tuple[str, str, torch.Tensor, int]:
    form, name = draw_one(st.sampled_from(FORMS)), draw_one(st.sampled_from(names))
    rewards = torch.tensor(
        draw_one(st.lists(st.integers(-50, 50), min_size=3, max_size=9))
    ).double()
    return form, name, rewards, draw_one(st.integers(2, len(rewards) - 1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_last_order_alone_is_the_maximum_exactly(name: str, k: int) -> None:
    rewards = draw(4, 9)
    maximum = weights(rewards, "maxk", name, k)
    for form in (explicit([0.0] * (k - 1) + [1.0]), "top_m[1]", f"cvar_upper[{1 / k}]"):
        assert torch.equal(weights(rewards, form, name, k), maximum)
        value = estimators.objective_estimate(rewards, Objective(form, k))
        assert torch.equal(value, estimators.maxk_reward_estimate(rewards, k))


@pytest.mark.parametrize(
    "form", ["median", "trimmed_mean[0.2]", "cvar_lower[0.1]", "cvar_upper[0.9]", "top_m[1]"]
)
def test_one_reward_is_the_mean(form: str) -> None:
    rewards = draw(4, 6)
    for name in ("none", "group_mean", "centred", "sample_loo", "pkpo_sloo", "affine[0]"):
        assert torch.equal(weights(rewards, form, name, 1), weights(rewards, "reinforce", name, 1))


@pytest.mark.parametrize("k", [2, 5, 9])
def test_even_weights_are_the_mean(k: int) -> None:
    rewards = draw(4, 9) - 6.0
    for form in (f"top_m[{k}]", "cvar_upper[1.0]", "cvar_lower[1.0]", "trimmed_mean[0.0]"):
        value = estimators.objective_estimate(rewards, Objective(form, k))
        torch.testing.assert_close(value, rewards.mean(-1), rtol=1e-14, atol=0.0)
        # What a sample adds to the means of its subsets is RLOO.
        rloo = weights(rewards, "reinforce", "centred", 1)
        torch.testing.assert_close(
            weights(rewards, form, "subloo", k), rloo, rtol=1e-12, atol=1e-15
        )
        if k < 9:
            torch.testing.assert_close(
                weights(rewards, form, "centred", k), rloo, rtol=1e-12, atol=1e-15
            )


@pytest.mark.parametrize("k", [2, 3, 8])
def test_the_minimum_is_minus_the_maximum_of_minus_the_rewards(k: int) -> None:
    rewards = draw(4, 8)
    for name in ("none", "subloo", *(("centred", "sample_loo") if k < 8 else ())):
        lowest = weights(rewards, f"cvar_lower[{1 / k}]", name, k)
        torch.testing.assert_close(
            lowest, -weights(-rewards, "maxk", name, k), rtol=1e-12, atol=1e-15
        )


@given(
    st.lists(st.floats(-2, 2).map(lambda x: round(x, 2)), min_size=4, max_size=4),
    st.lists(st.floats(-2, 2).map(lambda x: round(x, 2)), min_size=4, max_size=4),
    st.floats(-3, 3).map(lambda x: round(x, 2)),
    st.sampled_from(NAMES),
)
def test_weights_are_linear_in_alpha(
    a: list[float], b: list[float], factor: float, name: str
) -> None:
    rewards = draw(3, 7)
    both = [
        float(Fraction(repr(x)) + Fraction(repr(factor)) * Fraction(repr(y))) for x, y in zip(a, b)
    ]
    found = weights(rewards, explicit(both), name, 4)
    parts = weights(rewards, explicit(a), name, 4) + factor * weights(rewards, explicit(b), name, 4)
    torch.testing.assert_close(found, parts, rtol=1e-11, atol=1e-13)


@given(cases(), st.integers(-1000, 1000), st.integers(1, 100))
def test_shift_and_scale(case: tuple[str, str, torch.Tensor, int], shift: int, scale: int) -> None:
    form, name, rewards, k = case
    found = weights(rewards, form, name, k)
    torch.testing.assert_close(weights(rewards * scale, form, name, k), found * scale)
    shifted = weights(rewards + shift, form, name, k)
    if BASELINES.get(name).shift_invariant:
        assert torch.equal(shifted, found)
    else:
        level = weights(torch.full_like(rewards, shift), form, name, k)
        torch.testing.assert_close(shifted, found + level, rtol=1e-10, atol=1e-10)


@given(cases(), st.randoms(use_true_random=False))
def test_ties_and_permutations(case: tuple[str, str, torch.Tensor, int], rng: Any) -> None:
    form, name, rewards, k = case
    found = weights(rewards, form, name, k)
    for reward in rewards.unique():
        assert found[rewards == reward].unique().numel() == 1
    order = list(range(len(rewards)))
    rng.shuffle(order)
    assert torch.equal(weights(rewards[order], form, name, k), found[order])


@given(cases(UNBIASED), st.integers(0, 8), st.integers(-50, 50))
def test_baseline_of_a_sample_does_not_see_its_reward(
    case: tuple[str, str, torch.Tensor, int], i: int, other: int
) -> None:
    form, name, rewards, k = case
    i %= len(rewards)
    moved = rewards.clone()
    moved[i] = other
    seen = [(weights(r, form, "none", k) - weights(r, form, name, k))[i] for r in (moved, rewards)]
    torch.testing.assert_close(seen[0], seen[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [name for name in NAMES if BASELINES.get(name).shift_invariant])
def test_float32_rewards_with_a_large_shift(form: str, name: str) -> None:
    rewards = (-1e4 + 1e-3 * draw(16, seed=3)).float()
    exact = weights(rewards.double() + 1e4, form, name, 8)
    torch.testing.assert_close(weights(rewards, form, name, 8), exact.float(), rtol=1e-6, atol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("form", [*FORMS, "cvar_upper[0.9]"])
@pytest.mark.parametrize("k", [2, 64, 1024, 4095, 4096])
def test_large_groups_are_finite_and_consistent(form: str, k: int) -> None:
    n, own = 4096, Objective(form, k)
    rewards = draw(n, seed=k) - 6.0
    value = float(estimators.objective_estimate(rewards, own))
    s = estimators.maxk_gradient_weights(rewards, k, objective=own)
    subloo = estimators.subloo_weights(rewards, k, objective=own)
    assert torch.isfinite(s).all()
    assert torch.isfinite(subloo).all()
    assert float(s.sum()) == pytest.approx(k * value, rel=1e-12)
    if k == n:
        direct = math.fsum(a * r for a, r in zip(own.order_weights, rewards.sort().values.tolist()))
        assert value == pytest.approx(direct, rel=1e-12)
        torch.testing.assert_close(s, torch.full_like(s, value), rtol=1e-12, atol=0.0)
        return
    left_out = s - estimators.sample_loo_weights(rewards, k, objective=own)
    torch.testing.assert_close(
        s + (n - k) / n * left_out, torch.full_like(s, value), rtol=1e-12, atol=0.0
    )
    centred = estimators.centred_weights(rewards, k, objective=own)
    assert abs(float(centred.sum())) < 1e-12 * float(centred.abs().sum())
    # The sum of what the samples add: K (value - mean of the reduced value of the others).
    reduced = Objective(explicit([float(x) for x in own.reduced()]), k - 1)
    lower = estimators.objective_estimate(rewards, reduced)
    total = float(k * (value - lower))
    assert float(subloo.sum()) == pytest.approx(
        total, abs=1e-11 * float(subloo.abs().sum()) + 1e-11 * k
    )


@pytest.mark.parametrize("form", ["cvar_lower[0.3]", "median", "trimmed_mean[0.4]"])
def test_a_huge_reward_that_does_not_count_costs_no_precision(form: str) -> None:
    """The value of K = n does not hold the best reward at all; float64 at 1e18 resolves 128."""
    rewards = draw(8, seed=1)
    rewards[3] = 1e18
    own = Objective(form, 8)
    direct = math.fsum(
        a * r for a, r in zip(own.order_weights, rewards.sort().values.tolist()) if a
    )
    assert float(estimators.objective_estimate(rewards, own)) == pytest.approx(direct, rel=1e-14)
    s = estimators.maxk_gradient_weights(rewards, 8, objective=own)
    torch.testing.assert_close(s, torch.full_like(s, direct), rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("form", [*FORMS, "l_statistic[0.5 0.0 -1.5]"])
def test_objective_of_the_bandit_is_the_mean_over_tuples(form: str) -> None:
    """J = sum_j R_(j) (H(F_j) - H(F_(j-1))), with H from binomial chances."""
    bandit = TinyBandit((0.3, -0.8, 0.5, 0.1), (-6.25, -5.0, -4.1, -5.0))
    own = Objective(form, 3)
    p = torch.softmax(torch.tensor(bandit.logits, dtype=torch.float64), 0).tolist()

    def share(mass: float) -> float:
        return sum(
            own.order_weights[j - 1]
            * sum(math.comb(3, m) * mass**m * (1 - mass) ** (3 - m) for m in range(j, 4))
            for j in range(1, 4)
        )

    total, below = 0.0, 0.0
    for level in sorted(set(bandit.rewards)):
        reached = below + sum(x for x, reward in zip(p, bandit.rewards) if reward == level)
        total += level * (share(min(reached, 1.0)) - share(below))
        below = reached
    found = bandit.objective(torch.tensor(bandit.logits, dtype=torch.float64), own)
    assert float(found) == pytest.approx(total, rel=1e-13)


def test_value_is_unbiased() -> None:
    """E of the estimate over all outcomes of five draws."""
    bandit = TinyBandit((0.3, -0.8, 0.5), (-6.25, -5.0, -4.1))
    logits = torch.tensor(bandit.logits, dtype=torch.float64)
    arms = torch.cartesian_prod(*[torch.arange(3)] * 5)
    chance = torch.softmax(logits, 0)[arms].prod(-1)
    rewards = torch.tensor(bandit.rewards, dtype=torch.float64)[arms]
    for form in FORMS:
        own = Objective(form, 3)
        found = chance @ estimators.objective_estimate(rewards, own)
        assert float(found) == pytest.approx(float(bandit.objective(logits, own)), rel=1e-13)


def test_wrong_rules_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong mass of the reduced objective breaks the twin; a wrong step biases, too."""
    right = derived.subloo
    monkeypatch.setattr(derived, "subloo", lambda *arguments: 1.01 * right(*arguments))
    failing = {result.name for result in check_pair("median", "subloo") if not result.ok}
    assert failing == {"fast = slow", "unbiased"}


def test_subsets_by_hand() -> None:
    """Four rewards, subsets of three, the median: s_i counts the middle ones."""
    rewards = torch.tensor([1.0, 10.0, 100.0, 1000.0], dtype=torch.float64)
    middle = [sorted(subset)[1] for subset in combinations(rewards.tolist(), 3)]
    assert sorted(middle) == [10.0, 10.0, 100.0, 100.0]
    assert weights(rewards, "median", "none", 3).tolist() == pytest.approx([30.0, 30.0, 52.5, 52.5])
    assert float(estimators.objective_estimate(rewards, Objective("median", 3))) == pytest.approx(
        55.0
    )


@pytest.mark.parametrize(
    ("estimator", "k", "message"),
    [
        ("top_m[9]", 8, "the m of top_m must be at most K = 8, got 9"),
        ("l_statistic[0.5 0.5]", 3, "l_statistic must have as many weights as K = 3, got 2"),
        ("median", 9, "k must be an integer with 1 <= k <= n = 8, got 9"),
    ],
)
def test_mistakes(estimator: str, k: int, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        weights(draw(8), estimator, "none", k)


def test_an_objective_of_another_k_is_refused() -> None:
    with pytest.raises(
        ValueError, match=re.escape("objective must be one of k = 3 rewards, got median@2")
    ):
        estimators.centred_weights(draw(8), 3, objective=Objective("median", 2))
    with pytest.raises(ValueError, match="k must be an integer with 1 <= k <= n = 8, got 9"):
        estimators.objective_estimate(draw(8), Objective("median", 9))
    with pytest.raises(ValueError, match="rewards must be finite, got nan"):
        estimators.objective_estimate(torch.tensor([1.0, float("nan")]), Objective("median", 2))


def test_dtypes_and_shapes() -> None:
    own = Objective("median", 2)
    for dtype in (torch.float16, torch.float32, torch.int64, torch.bool):
        rewards = torch.tensor([[0, 1, 1], [1, 0, 0]]).to(dtype)
        found = weights(rewards, "median", "subloo", 2)
        assert found.dtype == (dtype if dtype.is_floating_point else torch.float64)
        assert found.shape == (2, 3)
        value = estimators.objective_estimate(rewards, own)
        assert value.dtype == found.dtype
        assert value.shape == (2,)
    assert weights(torch.zeros(0, 3), "median", "centred", 2).shape == (0, 3)
    for shape in ((3,), (2, 3)):
        found = estimators.objective_estimate(draw(*shape), own)
        torch.testing.assert_close(found, reference.objective_estimate(draw(*shape), own))


def test_maximum_keeps_its_own_rule() -> None:
    """Max@K never goes through the general rules, whatever spells it."""
    rewards, rule = draw(5, 8), (8 / 5) * maximum.group_mean(8, 3, CPU)
    assert torch.equal(
        weights(rewards, "top_m[1]", "centred", 3), apply_rule(rule, rewards, stable_sort=True)
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("form", FORMS)
def test_cuda_agrees_and_never_waits(form: str) -> None:
    rewards = draw(8, 16).float()
    device_rewards = rewards.cuda()
    for name in NAMES:
        weights(device_rewards, form, name, 3)
        torch.cuda.set_sync_debug_mode("error")
        try:
            found = weights(device_rewards, form, name, 3)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.testing.assert_close(found.cpu(), weights(rewards, form, name, 3))
