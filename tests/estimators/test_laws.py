"""The laws of every method of the catalogue, over K, ties, shifts, scales, dtypes and extremes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.check.run import inputs
from maxk_lab.estimators.method import Method

FORMS = ("top_m[2]", "tail_rl", "cvar_upper[0.3]")
ORDER = "order[0.5 0.0 -1.5]"
# `test_shrinkage.py` has the laws of rows that use several prompts.
SPELLINGS = [
    spelling
    for row in BASELINES
    if not row.across_prompts
    for spelling in (row.name, *row.examples)
]
PAIRS = [
    (estimator, baseline)
    for estimator in (
        "maxk",
        "reinforce",
        *FORMS,
        ORDER,
        *(
            name
            for row in ESTIMATORS
            if not row.has_objective
            for name in (row.name, *row.examples)
        ),
    )
    for baseline in SPELLINGS
    if Method.parse(estimator, baseline).pair_refusal is None
    # Those that the others are sums of.
    and (estimator not in FORMS[1:] or baseline in ("none", "centred", "subloo"))
    and (estimator != "reinforce" or BASELINES.get(baseline.split("[")[0]).objective == "J_1")
]
METHODS = pytest.mark.parametrize(("estimator", "baseline"), PAIRS)


def row(numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@st.composite
def groups(draw: st.DrawFn, estimator: str, baseline: str) -> tuple[Method, Tensor, dict[str, Any]]:
    """A method at a K that it takes, whole rewards with ties, and what else it needs."""
    n = draw(st.integers(1, 6))
    ks = [k for k in range(1, n + 1) if Method.parse(estimator, baseline, k).refusal(n) is None]
    assume(ks)
    method = Method.parse(estimator, baseline, draw(st.sampled_from(ks)))
    most = 1 if method.needs_binary_rewards else 50
    low = 0 if method.needs_binary_rewards else -50
    numbers = st.integers(low, most) | st.integers(0, 1)
    rewards = row(draw(st.lists(numbers, min_size=n, max_size=n)))
    return method, rewards, inputs(method, rewards)


def assert_near(found: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    """Within `tolerance` of the largest expected weight of the group."""
    scale = expected.abs().amax(-1, keepdim=True)
    error = ((found - expected).abs() / torch.where(scale == 0, 1.0, scale)).amax()
    assert float(error) <= tolerance, (found, expected)


@METHODS
def test_laws(estimator: str, baseline: str) -> None:
    @settings(max_examples=8)
    @given(groups(estimator, baseline), st.randoms(use_true_random=False))
    def law(case: tuple[Method, Tensor, dict[str, Any]], rng: Any) -> None:
        method, rewards, numbers = case
        before = copy.deepcopy((rewards, numbers))
        found = method.weights(rewards, **numbers)
        assert torch.isfinite(found).all()
        assert repr((rewards, numbers)) == repr(before)  # nothing is written to
        permutes(method, rewards, numbers, found, rng)
        ties(method, rewards, numbers, found)
        dtypes(method, rewards, numbers)
        if not method.needs_binary_rewards:
            shifts_and_scales(method, rewards, numbers, found)
        if method.is_unbiased and method.estimator.row.has_objective and method.fit is None:
            sees_no_own_reward(method, rewards, numbers)

    assert law() is None


def permutes(
    method: Method, rewards: Tensor, numbers: dict[str, Any], found: Tensor, rng: Any
) -> None:
    order = list(range(len(rewards)))
    rng.shuffle(order)
    turned = {
        name: {kind: g[order] for kind, g in table.items()}
        if isinstance(table, dict)
        else (table if table.shape != rewards.shape or name == "coefficients" else table[order])
        for name, table in numbers.items()
    }
    if method.baseline.row.name == "joint_optimum":
        turned["coefficients"] = numbers["coefficients"][order]
    assert_near(method.weights(rewards[order], **turned), found[order])


def ties(method: Method, rewards: Tensor, numbers: dict[str, Any], found: Tensor) -> None:
    if method.baseline.row.name == "joint_optimum":
        return
    even = {
        name: {kind: torch.ones_like(g) for kind, g in table.items()}
        if isinstance(table, dict)
        else (table if name == "coefficients" else torch.ones_like(table))
        for name, table in numbers.items()
    }
    alike = method.weights(rewards, **even)
    for reward in rewards.unique():
        same = alike[rewards == reward]
        if numbers.keys() <= {"coefficients"}:
            assert same.unique().numel() == 1
        else:  # summed in the samples' order
            torch.testing.assert_close(same, same[:1].expand_as(same), rtol=1e-12, atol=1e-12)


def dtypes(method: Method, rewards: Tensor, numbers: dict[str, Any]) -> None:
    exact = method.weights(rewards, **numbers)
    for dtype in (torch.float16, torch.float32, torch.int64):
        weights = method.weights(
            rewards.to(dtype).requires_grad_(dtype.is_floating_point), **numbers
        )
        assert weights.dtype == (dtype if dtype.is_floating_point else torch.float64)
        assert not weights.requires_grad
        assert torch.equal(weights, exact.to(weights.dtype))
    stacked = method.weights(
        rewards.expand(2, 1, -1),
        **{
            name: {kind: g.expand(2, 1, -1) for kind, g in table.items()}
            if isinstance(table, dict)
            else table.expand(2, 1, -1)
            for name, table in numbers.items()
        },
    )
    assert stacked.shape == (2, 1, len(rewards))
    torch.testing.assert_close(stacked, exact.expand_as(stacked), rtol=1e-12, atol=1e-14)


def shifts_and_scales(
    method: Method, rewards: Tensor, numbers: dict[str, Any], found: Tensor
) -> None:
    chosen, base = method.estimator.row, method.baseline.row
    if base.name == "joint_optimum":
        return  # it is given as numbers in units of reward
    shifted = method.weights(rewards + 1024, **numbers)
    if method.is_shift_invariant:
        assert torch.equal(shifted, found)
    elif chosen.has_objective and base.name != "constant":
        level = method.weights(torch.full_like(rewards, 1024), **numbers)
        torch.testing.assert_close(shifted, found + level, rtol=1e-10, atol=1e-10)
        assert not torch.allclose(shifted, found)
    if chosen.has_objective and base.name != "constant":
        torch.testing.assert_close(method.weights(rewards * 7, **numbers), found * 7)


def sees_no_own_reward(method: Method, rewards: Tensor, numbers: dict[str, Any]) -> None:
    """Neither reward nor g of a sample enters its own baseline."""
    plain = Method.parse(method.estimator.name, "none", method.k)
    moved = rewards.clone()
    moved[0] += 31
    other = {
        name: {kind: torch.cat([9 * g[:1], g[1:]]) for kind, g in table.items()}
        for name, table in numbers.items()
    }
    levels = [
        (plain.weights(r) - method.weights(r, **given))[0]
        for r, given in ((rewards, numbers), (moved, other))
    ]
    torch.testing.assert_close(*levels, rtol=1e-9, atol=1e-9)


@METHODS
def test_every_method_runs_exactly_where_the_catalogue_says(estimator: str, baseline: str) -> None:
    for n in (1, 2, 3, 5):
        rewards = torch.ones(0, n)
        for k in range(1, n + 2):
            method = Method.parse(estimator, baseline, k)
            numbers = inputs(method, rewards)
            if method.refusal(n) is None:
                assert method.weights(rewards, **numbers).shape == (0, n)
            else:
                with pytest.raises(ValueError, match=r"must (be|have)|needs"):
                    method.weights(rewards, **numbers)


@pytest.mark.parametrize("estimator", ["maxk", *FORMS])
@pytest.mark.parametrize(
    "baseline", [row.name for row in BASELINES if row.shift_invariant and row.any_objective]
)
def test_float32_rewards_with_a_large_shift(estimator: str, baseline: str) -> None:
    noise = torch.randn(16, generator=torch.Generator().manual_seed(3))
    rewards = (-1e4 + 1e-3 * noise).float()
    for k in (2, 8, 15):
        method = Method.parse(estimator, baseline, k)
        exact = method.weights(rewards.double() + 1e4)
        torch.testing.assert_close(method.weights(rewards), exact.float(), rtol=1e-6, atol=0.0)


def test_subloo_is_zero_below_rank_k_and_monotone() -> None:
    rewards = torch.randn(50, 8, generator=torch.Generator().manual_seed(4))
    for k in (2, 5, 8):
        weights = Method.parse("maxk", "subloo", k).weights(rewards)
        ranked = weights.gather(-1, rewards.argsort(-1))
        assert (ranked[:, : k - 1] == 0).all()
        assert (ranked.diff(dim=-1) >= 0).all()


@pytest.mark.parametrize("k", [2, 3, 7])
def test_objectives_meet(k: int) -> None:
    """The last order alone is the maximum, even weights are the mean, and signs turn the ends."""
    rewards = torch.randn(4, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def weights(estimator: str, baseline: str, of: Tensor = rewards) -> Tensor:
        return Method.parse(estimator, baseline, k).weights(of)

    zeros = ["0"] * (k - 1)
    last, first = (f"order[{' '.join(alpha)}]" for alpha in ([*zeros, "1"], ["1", *zeros]))
    for baseline in ("none", "centred", "subloo", "affine[0.3]"):
        for form in (last, "top_m[1]", f"cvar_upper[{1 / k}]"):
            assert torch.equal(weights(form, baseline), weights("maxk", baseline))
        lowest = weights(first, baseline)
        assert_near(lowest, -weights("maxk", baseline, -rewards), 1e-11)
        if baseline != "none":
            for form in (f"top_m[{k}]", "cvar_upper[1.0]"):
                assert_near(weights(form, baseline), weights("reinforce", "centred"), 1e-11)
