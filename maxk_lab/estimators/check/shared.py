"""The checks that all rows share: functions against their twins, and identities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators import reference
from maxk_lab.estimators import value as rewards
from maxk_lab.estimators.baselines import leave_one_out as baselines
from maxk_lab.estimators.check.result import (
    EXACT,
    CheckResult,
    error_of,
    name_of,
    small_groups,
    worst,
)
from maxk_lab.estimators.methods import maxk as weights
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.ranks import combinatorics

LARGE_N = 65_536
FORMS = ("top_m[2]", "cvar_upper[0.3]", "cvar_lower[0.3]", "median", "trimmed_mean[0.2]")


def check_functions() -> list[CheckResult]:
    """The functions that every row shares, against their twins."""
    groups = [(name_of(g, 0), (g,)) for g in small_groups()]
    at_k = [(name_of(g, k), (g, k)) for (_, (g,)) in groups for k in range(1, g.shape[-1] + 1)]
    below_n = [(setting, (g, k)) for setting, (g, k) in at_k if k < g.shape[-1]]
    cases: dict[str, Iterable[tuple[str, float]]] = {
        "maxk_reward_weights": _errors(
            combinatorics.maxk_reward_weights,
            reference.maxk_reward_weights,
            [
                (f"n={n}, K={k}", (n, k))
                for n, k in ((1, 1), (7, 3), *((200, k) for k in (1, 2, 100, 199, 200)))
            ],
        ),
        "maxk_reward_estimate": _errors(
            rewards.maxk_reward_estimate, reference.maxk_reward_estimate, at_k
        ),
        "objective_estimate": _errors(
            rewards.objective_estimate,
            reference.objective_estimate,
            [
                (f"{setting}, {form}", (g, Objective(form, k)))
                for setting, (g, k) in at_k
                for form in FORMS
                if k > 1
            ],
        ),
        "maxk_curve": _errors(rewards.maxk_curve, reference.maxk_curve, groups),
        "sample_loo_baseline": _errors(
            rewards.sample_loo_baseline, reference.sample_loo_baseline, below_n
        ),
        "apply_sample_loo": _errors(
            lambda g, k: baselines.apply_sample_loo(weights.maxk_gradient_weights(g, k), g, k),
            reference.sample_loo_weights,
            below_n,
        ),
    }
    return [worst("fast = slow", function, errors, EXACT) for function, errors in cases.items()]


def _errors(
    fast: Callable[..., Tensor],
    slow: Callable[..., Tensor],
    cases: Iterable[tuple[str, tuple[Any, ...]]],
) -> Iterator[tuple[str, float]]:
    for setting, given in cases:
        yield setting, error_of(fast(*given), slow(*given))


def check_identities() -> list[CheckResult]:
    """I1: sum s = K value.

    I2: value = s_i + (n-K)/n left-out value. I3: that left-out value, computed afresh.
    """
    found: dict[str, list[tuple[str, float]]] = {"I1": [], "I2": [], "I3": []}
    for n in (2, 9, 1_000, LARGE_N):
        group = _normal(n)
        for k in sorted({1, 2, min(17, n), max(1, n // 2), n - 1, n} - {0}):
            value = rewards.maxk_reward_estimate(group, k)
            s = weights.maxk_gradient_weights(group, k)
            setting = f"n={n}, K={k}"
            found["I1"].append((setting, error_of(s.sum(), k * value)))
            if k == n:
                continue
            left_out = rewards.sample_loo_baseline(group, k)
            found["I2"].append((setting, error_of(s + (n - k) / n * left_out, value.expand(n))))
            for i in {0, n // 3, int(group.argmax()), int(group.argmin())}:
                afresh = rewards.maxk_reward_estimate(torch.cat([group[:i], group[i + 1 :]]), k)
                found["I3"].append((f"{setting}, i={i}", error_of(left_out[i], afresh)))
    for n, k, form in (
        (9, 4, "median"),
        (1_000, 17, "top_m[2]"),
        (1_000, 500, "trimmed_mean[0.2]"),
    ):
        group = _normal(n)
        own = Objective(form, k)
        value = rewards.objective_estimate(group, own)
        s = weights.maxk_gradient_weights(group, k, objective=own)
        left_out = s - baselines.sample_loo_weights(group, k, objective=own)
        setting = f"n={n}, {own.name}"
        found["I1"].append((setting, error_of(s.sum(), k * value)))
        found["I2"].append((setting, error_of(s + (n - k) / n * left_out, value.expand(n))))
        for i in (0, int(group.argmax())):
            afresh = rewards.objective_estimate(torch.cat([group[:i], group[i + 1 :]]), own)
            found["I3"].append((f"{setting}, i={i}", error_of(left_out[i], afresh)))
    names = {
        "I1": "sum s = K value",
        "I2": "value = s + (n-K)/n left-out value",
        "I3": "left-out value afresh",
    }
    return [worst(f"identity {key}", names[key], errors, 1e-10) for key, errors in found.items()]


def _normal(n: int) -> Tensor:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, generator=generator, dtype=torch.float64) - 6.0
