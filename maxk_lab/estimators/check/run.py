"""The checks of `maxk-lab check`: brute force, and exact unbiasedness of every row.

Nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators import catalogue
from maxk_lab.estimators.catalogue import BASELINES, choose_baseline, choose_estimator
from maxk_lab.estimators.check.bandit import TinyBandit, some_coefficients
from maxk_lab.estimators.check.brute_force import brute_force, has_definition
from maxk_lab.estimators.method import Method

EXACT, BIAS_SEEN = 1e-12, 1e-6
# Rewards and numbers of samples: negative rewards with a tie, like tour lengths; a rare success,
# like pass@K; and the same rewards with samples of another policy.
BANDITS = (
    (
        TinyBandit((0.3, -0.8, 0.5, 0.1), (-6.25, -5.0, -4.1, -5.0), (2.0, 5.0, 1.0, 3.0)),
        (1, 2, 3, 5, 6),
    ),
    (TinyBandit((0.2, -1.1, 0.7), (0.0, 1.0, 0.0), (4.0, 1.0, 2.0)), (4, 8)),
)
_BEHAVIOURS = (-0.1, -0.4, 0.2, 0.6), (-0.3, -0.5, 0.4)
# Forced starts and numbers of samples: two of four or five samples may share a start.
_STARTS = (
    ((0.4, -1.0, 0.2, 0.9), (-0.7, 0.5, 1.1, -0.2), (0.0, 0.8, -0.9, 0.3)),
    ((0.5, -0.3, 0.1), (-1.0, 0.4, 0.7)),
)
_FEW = ((2, 5), (4,))


@dataclass(frozen=True)
class CheckResult:
    """One check of one row: the largest error over all settings, and its tolerance."""

    name: str
    row: str
    detail: str
    error: float
    tolerance: float
    ok: bool


def run_checks(estimator: str | None = None, baseline: str | None = None) -> list[CheckResult]:
    """Run every check, or the checks of one estimator, baseline or pair."""
    chosen = None if baseline is None else choose_baseline(baseline).name
    if estimator is None:
        estimators = [name for row in catalogue.ESTIMATORS for name in (row.name, *row.examples)]
    else:
        estimators = [estimator]
    results = []
    for name in (choose_estimator(spelling).name for spelling in estimators):
        for base in _baselines(name) if chosen is None else [chosen]:
            pair = Method.parse(name, base)
            alone = not pair.takes_baseline and base != "none"
            # `reinforce / subloo` needs both K = 1 and K >= 2, so it has no weights at any (n, K).
            if not alone and any(methods(name, base, range(1, 33))):
                results += check_pair(name, base)
    return results


def _baselines(estimator: str) -> Iterator[str]:
    """Return the baselines to check the estimator with.

    A form of objective is checked in one spelling. A form with other parameters is checked only
    with the baselines that the remaining baselines are sums of.
    """
    chosen = choose_estimator(estimator)
    form = chosen.row.objective == "L_K"
    basic = form and chosen.name != choose_estimator(chosen.row.name).name
    for row in BASELINES:
        if not basic or row.name in ("none", "centred", "subloo"):
            yield from (choose_baseline(row.name).name, *(() if form else row.examples))


def check_pair(estimator: str, baseline: str) -> list[CheckResult]:
    """Check a pair by brute force, if the rows define its weights, and for its exact bias."""
    method = Method.parse(estimator, baseline)
    row = f"{method.estimator.name} / {method.baseline.name}"
    checks = [("unbiased" if method.is_unbiased else "bias seen", _bias(method))]
    if method.is_unbiased:
        checks.append(("unbiased with forced starts", _bias(method, forced=True)))
    if has_definition(method):
        checks.insert(0, ("brute force", _differences(method)))
    # The last setting has the largest n and K: there a scale is undefined if it is at any n and K.
    scales = [each.expected_scale(n) for n, each in methods(estimator, baseline, range(1, 9))]
    if not method.is_unbiased and scales and not math.isnan(scales[-1]):
        name = "unbiased up to scale"
        checks.append((name, _bias(method, scaled=True)))
        checks.append((f"{name} with forced starts", _bias(method, scaled=True, forced=True)))
    results = []
    for name, errors in checks:
        try:
            results.append(_worst(name, row, errors))
        # A row of another package may raise any exception, which is a failed check.
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
            results.append(CheckResult(name, row, detail, math.nan, EXACT, ok=False))
    return results


def methods(estimator: str, baseline: str, sizes: Iterable[int]) -> Iterator[tuple[int, Method]]:
    """Yield the pair at every n of the sizes and every distinct K at which it can run."""
    for n in sizes:
        # Some estimators have K = 1 for any given k.
        for k in sorted({Method.parse(estimator, k=k).k for k in range(1, n + 1)}):
            method = Method.parse(estimator, baseline, k)
            if method.refusal(n) is None:
                yield n, method


def _differences(pair: Method) -> Iterator[tuple[str, float]]:
    """Yield the errors of the weights, relative to the group's largest weight, unless that is 0."""
    generator = torch.Generator().manual_seed(0)
    for n, method in methods(pair.estimator.name, pair.baseline.name, (1, 2, 3, 5)):
        normal = torch.randn(n, generator=generator, dtype=torch.float64)
        single = (normal == normal.max()).double()
        groups = torch.stack([normal, single, normal.round(), 1e-3 * normal - 1e4, 1e200 * normal])
        numbers = inputs(method, groups)
        exact = brute_force(method, groups, **numbers)
        scale = exact.abs().amax(dim=-1, keepdim=True)
        difference = (method.weights(groups, **numbers) - exact).abs()
        error = (difference / torch.where(scale == 0, 1.0, scale)).max()
        yield f"n={n}, K={method.k}", float(error)


def inputs(method: Method, rewards: Tensor) -> dict[str, Any]:
    """Return the arguments of `Method.weights` that the method needs beside rewards `[..., n]`."""
    generator = torch.Generator().manual_seed(rewards.shape[-1])
    normal = torch.randn(rewards.shape, generator=generator, dtype=torch.float64)
    numbers: dict[str, Any] = {}
    if method.needed_weight is not None:
        numbers["trajectory_weights"] = {method.needed_weight: 10.0 ** (4.0 * normal)}
    if method.needs_ratios:
        numbers["ratios"] = (0.5 * normal).exp()
    if method.fit is not None:
        count = method.baseline.row.coefficients(rewards.shape[-1], method.k)
        numbers["coefficients"] = some_coefficients(count)
    return numbers


def _bias(
    pair: Method, *, scaled: bool = False, forced: bool = False
) -> Iterator[tuple[str, float]]:
    """Yield |E[estimate] - scale * gradient| / |gradient|, by bandit, n and K.

    The gradient is that of J_K, or with `forced` starts that of J_K^starts.
    """
    for i, (bandit, sizes) in enumerate(BANDITS):
        if pair.needs_binary_rewards and i == 0:
            continue
        if pair.needs_ratios:
            bandit = replace(bandit, behaviour=_BEHAVIOURS[i])
        if forced:
            bandit, sizes = replace(bandit, starts=_STARTS[i]), _FEW[i]
        for n, method in methods(pair.estimator.name, pair.baseline.name, sizes):
            truth = bandit.gradient(method.objective_at(n), n)
            scale = method.expected_scale(n) if scaled else 1.0
            error = float((bandit.mean_estimate(n, method) - scale * truth).norm() / truth.norm())
            yield f"{len(bandit.logits)} arms, n={n}, K={method.k}", error


def _worst(name: str, row: str, errors: Iterable[tuple[str, float]]) -> CheckResult:
    """Return the largest error of all settings; NaN is largest.

    An error of `bias seen` must exceed its tolerance.
    """
    seen = name.startswith("bias seen")
    tolerance = BIAS_SEEN if seen else EXACT
    every = list(errors)
    if not every:
        detail = "no setting of this check can run the row"
        return CheckResult(name, row, detail, math.nan, tolerance, ok=False)
    setting, error = max(every, key=lambda pair: math.inf if math.isnan(pair[1]) else pair[1])
    ok = error > tolerance if seen else error <= tolerance
    detail = f"{len(every)} settings, largest at {setting}"
    return CheckResult(name, row, detail, error, tolerance, ok)
