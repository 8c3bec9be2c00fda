"""Laws of every method: brute force, ties, shifts, scales, dtypes and extremes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.check.brute_force import brute_force, has_definition
from maxk_lab.estimators.check.run import inputs, methods
from maxk_lab.estimators.method import Method

FORMS = ("top_m[2]", "tail_rl", "cvar_upper[0.3]")
ORDER = "order[0.5 0.0 -1.5]"
ALONE = [row for row in ESTIMATORS if not row.has_objective]
# `test_shrinkage.py` has the laws of rows that use several prompts.
SPELLINGS = [
    spelling
    for row in BASELINES
    if not row.across_prompts
    for spelling in (row.name, *row.examples)
]
ALL = ("maxk", "reinforce", *FORMS, ORDER, *(x for row in ALONE for x in (row.name, *row.examples)))
PAIRS = [
    (estimator, baseline)
    for estimator in ALL
    for baseline in SPELLINGS
    if Method.parse(estimator, baseline).pair_refusal is None
    # Those that the others are sums of.
    and (estimator not in FORMS[1:] or baseline in ("none", "centred", "subloo"))
    and (estimator != "reinforce" or BASELINES.get(baseline.split("[")[0]).objective == "J_1")
]
METHODS = pytest.mark.parametrize(("estimator", "baseline"), PAIRS)
Numbers = dict[str, Any]


def changed(numbers: Numbers, change: Callable[[str, Tensor], Tensor]) -> Numbers:
    """What a method needs beside rewards, with every tensor changed."""
    return {
        name: {kind: change(name, g) for kind, g in value.items()}
        if isinstance(value, dict)
        else change(name, value)
        for name, value in numbers.items()
    }


def assert_near(found: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    """Within `tolerance` of the largest expected weight of the group."""
    scale = expected.abs().amax(-1, keepdim=True)
    error = ((found - expected).abs() / torch.where(scale == 0, 1.0, scale)).amax()
    assert float(error) <= tolerance, (found, expected)


def far_apart(method: Method, x: Tensor, turn: int) -> tuple[Tensor, Numbers]:
    """Rewards with ties and extremes of normal numbers x, with g and ratios of all sizes."""
    rewards = (
        *(x, x.round(), 3.0 * (x == x.max()).double(), 1e-3 * x - 1e4, 1e200 * x),
        *((2.0 * x).round() - 6.0, torch.full_like(x, -2.5), x.exp()),
    )[turn % 8]
    numbers, y = inputs(method, rewards), x.roll(1)
    if method.needed_weight is not None:
        g = 10.0 ** (4.0 * y)
        g[: turn % 3] = 0.0 if turn % 2 else 1e30
        numbers["trajectory_weights"] = {method.needed_weight: 0.0 * g if turn % 7 == 0 else g}
    if method.needs_ratios:
        numbers["ratios"] = ((0.0, 0.5, 5.0, 15.0, 60.0)[turn % 5] * y).exp()
        if turn % 4 == 3:
            numbers["ratios"][len(x) // 2] = 1e-200
    return rewards, numbers


@pytest.mark.parametrize(
    ("estimator", "baseline"), [pair for pair in PAIRS if has_definition(Method.parse(*pair))]
)
def test_weights_are_those_of_brute_force(estimator: str, baseline: str) -> None:
    """Within 1e-13 of the largest weight of the group; off-policy within 1e-14."""
    generator = torch.Generator().manual_seed(len(baseline))
    every = list(methods(estimator, baseline, (1, 2, 3, 4, 5, 6)))
    cases = every[:: 1 if estimator == "off_policy_maxk" or len(every) < 9 else 3]
    for turn, (n, method) in enumerate(cases, start=PAIRS.index((estimator, baseline))):
        x = torch.randn(n, generator=generator, dtype=torch.float64)
        rewards, numbers = far_apart(method, x, turn)
        exact = brute_force(method, rewards, **numbers)
        tolerance = 1e-14 if method.needs_ratios else 1e-13
        assert_near(method.weights(rewards, **numbers), exact, tolerance)


@METHODS
def test_laws(estimator: str, baseline: str) -> None:
    generator = torch.Generator().manual_seed(len(baseline))
    for n, method in methods(estimator, baseline, (1, 3, 5)):
        binary = method.needs_binary_rewards
        rewards = torch.randint(
            0 if binary else -50, 2 if binary else 51, (n,), generator=generator
        )
        rewards[torch.rand(n, generator=generator) < 0.4] = 1
        rewards, order = rewards.double(), torch.randperm(n, generator=generator)
        numbers = inputs(method, rewards)
        before = copy.deepcopy((rewards, numbers))
        found = method.weights(rewards, **numbers)
        assert torch.isfinite(found).all()
        assert repr((rewards, numbers)) == repr(before)  # nothing is written to
        permutes_and_ties(method, rewards, numbers, found, order)
        dtypes(method, rewards, numbers, found)
        if not binary:
            shifts_and_scales(method, rewards, numbers, found)
        if method.is_unbiased and method.estimator.row.has_objective and method.fit is None:
            sees_no_own_reward(method, rewards, numbers)


def permutes_and_ties(
    method: Method, rewards: Tensor, numbers: Numbers, found: Tensor, order: Tensor
) -> None:
    joint = method.baseline.row.name == "joint_optimum"
    turned = changed(numbers, lambda name, x: x if name == "coefficients" else x[order])
    if joint:
        turned["coefficients"] = numbers["coefficients"][order]
    assert_near(method.weights(rewards[order], **turned), found[order])
    if joint:
        return
    even = changed(numbers, lambda name, x: x if name == "coefficients" else torch.ones_like(x))
    alike = method.weights(rewards, **even)
    for reward in rewards.unique():
        same = alike[rewards == reward]
        if numbers.keys() <= {"coefficients"}:
            assert same.unique().numel() == 1
        else:  # summed in the samples' order
            torch.testing.assert_close(same, same[:1].expand_as(same), rtol=1e-12, atol=1e-12)


def dtypes(method: Method, rewards: Tensor, numbers: Numbers, found: Tensor) -> None:
    for dtype in (torch.float16, torch.float32, torch.int64):
        typed = rewards.to(dtype).requires_grad_(dtype.is_floating_point)
        weights = method.weights(typed, **numbers)
        assert weights.dtype == (dtype if dtype.is_floating_point else torch.float64)
        assert not weights.requires_grad
        assert torch.equal(weights, found.to(weights.dtype))
    several = changed(numbers, lambda name, x: x.expand(2, 1, -1))
    stacked = method.weights(rewards.expand(2, 1, -1), **several)
    assert stacked.shape == (2, 1, len(rewards))
    torch.testing.assert_close(stacked, found.expand_as(stacked), rtol=1e-12, atol=1e-14)


def shifts_and_scales(method: Method, rewards: Tensor, numbers: Numbers, found: Tensor) -> None:
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


def sees_no_own_reward(method: Method, rewards: Tensor, numbers: Numbers) -> None:
    """Neither reward nor g of a sample enters its own baseline."""
    plain = Method.parse(method.estimator.name, "none", method.k)
    moved = rewards.clone()
    moved[0] += 31
    other = changed(numbers, lambda name, g: torch.cat([9 * g[:1], g[1:]]))
    levels = [
        (plain.weights(r) - method.weights(r, **given))[0]
        for r, given in ((rewards, numbers), (moved, other))
    ]
    torch.testing.assert_close(*levels, rtol=1e-9, atol=1e-9)


@METHODS
def test_every_method_runs_exactly_where_the_catalogue_says(estimator: str, baseline: str) -> None:
    for n in (1, 2, 5):
        rewards = torch.ones(0, n)
        for k in range(1, n + 2):
            method = Method.parse(estimator, baseline, k)
            numbers = inputs(method, rewards)
            if method.refusal(n) is None:
                assert method.weights(rewards, **numbers).shape == (0, n)
            else:
                with pytest.raises(ValueError, match=r"must (be|have)|needs"):
                    method.weights(rewards, **numbers)


@pytest.mark.parametrize(
    ("estimator", "baseline"),
    [
        *(
            (estimator, row.name)
            for estimator in ("maxk", *FORMS)
            for row in BASELINES
            if row.shift_invariant and row.any_objective
        ),
        *((row.name, "none") for row in ALONE if not (row.takes_baseline or row.binary_rewards)),
    ],
)
def test_float32_agrees_with_float64_for_shifts_scales_and_near_ties(
    estimator: str, baseline: str
) -> None:
    drawn = torch.randn(4, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for moved in (drawn + 1000.0, drawn * 1e-4, 1e-3 * drawn - 1e4):
        rewards = moved.float()
        for k in (16,) if estimator == "grpo_passk" else (2, 8, 15):
            method = Method.parse(estimator, baseline, k)
            exact = method.weights(rewards.double()).float()
            torch.testing.assert_close(method.weights(rewards), exact, rtol=1e-6, atol=0.0)


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", BASELINES.names())
def test_cuda_agrees_and_never_waits(name: str) -> None:
    method = Method.parse("maxk", name, 1 if BASELINES.get(name).objective == "J_1" else 3)
    rewards = torch.randn(8, 16, generator=torch.Generator().manual_seed(8))
    numbers = inputs(method, rewards)
    moved, others = rewards.cuda(), changed(numbers, lambda name, x: x.cuda())
    method.weights(moved, **others)
    torch.cuda.set_sync_debug_mode("error")
    try:
        weights = method.weights(moved, **others)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(weights.cpu(), method.weights(rewards, **numbers))
    moved[0, 0] = float("nan")
    assert method.weights(moved, **others)[0].isnan().any()
