"""The laws of one pair: fast against slow, and exact unbiasedness or the catalogued bias."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.check.result import (
    EXACT,
    CheckResult,
    error_of,
    name_of,
    small_groups,
    worst,
)
from maxk_lab.estimators.check.twins import has_twin, inputs, slow_twin
from maxk_lab.estimators.method import Method

BIAS_SEEN = 1e-6
# Rewards below zero with a tie, as tour lengths have; then one rare success, as pass@K has.
BANDITS = (
    (
        TinyBandit((0.3, -0.8, 0.5, 0.1), (-6.25, -5.0, -4.1, -5.0), (2.0, 5.0, 1.0, 3.0)),
        (1, 2, 3, 5, 6),
    ),
    (TinyBandit((0.2, -1.1, 0.7), (0.0, 1.0, 0.0), (4.0, 1.0, 2.0)), (4, 8)),
)
_BINARY = BANDITS[1:]
# The same, drawn from by another policy.
_OFF_POLICY = tuple(
    (replace(bandit, behaviour=behaviour), sizes)
    for (bandit, sizes), behaviour in zip(
        BANDITS, ((-0.1, -0.4, 0.2, 0.6), (-0.3, -0.5, 0.4)), strict=True
    )
)


def check_pair(estimator: str, baseline: str) -> list[CheckResult]:
    """Fast against slow (where there is a twin) and exact unbiasedness, or the catalogued bias."""
    method = Method.parse(estimator, baseline)
    row = f"{method.estimator.name} / {method.baseline.name}"
    biased = "bias seen"
    checks = [("unbiased" if method.is_unbiased else biased, bias(estimator, baseline))]
    if has_twin(method):
        checks.insert(0, ("fast = slow", _twin_errors(estimator, baseline)))
    if not (
        method.is_unbiased or math.isnan(Method.parse(estimator, baseline, 2).expected_scale(4))
    ):
        checks.append(("unbiased but for scale", bias(estimator, baseline, scaled=True)))
    results = []
    for name, errors in checks:
        tolerance = BIAS_SEEN if name == biased else EXACT
        try:
            results.append(worst(name, row, errors, tolerance))
        # Rows of other packages may raise anything: a failed check, not a crash.
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
            results.append(CheckResult(name, row, detail, math.nan, EXACT, ok=False))
    return results


def methods(estimator: str, baseline: str, sizes: Iterable[int]) -> Iterator[tuple[int, Method]]:
    """Every n of the sizes with the pair at every K that makes a difference and can run."""
    for n in sizes:
        # K counts as 1 for some estimators, whatever is asked for.
        for k in sorted({Method.parse(estimator, k=k).k for k in range(1, n + 1)}):
            method = Method.parse(estimator, baseline, k)
            if method.refusal(n) is None:
                yield n, method


def _twin_errors(estimator: str, baseline: str) -> Iterator[tuple[str, float]]:
    for group in small_groups(binary=Method.parse(estimator, baseline).needs_binary_rewards):
        for _, method in methods(estimator, baseline, [group.shape[-1]]):
            given = inputs(method, group)
            fast = method.weights(group, **given)
            yield name_of(group, method.k), error_of(fast, slow_twin(method)(group, **given))


def bias(
    estimator: str, baseline: str, *, scaled: bool = False, **options: Any
) -> Iterator[tuple[str, float]]:
    """The norm of E[estimate] - scale * gradient over that of the gradient.

    Over bandits, n and K.
    """
    pair = Method.parse(estimator, baseline)
    bandits = _BINARY if pair.needs_binary_rewards else BANDITS
    for bandit, sizes in _OFF_POLICY if pair.needs_ratios else bandits:
        for n, method in methods(estimator, baseline, sizes):
            truth = bandit.gradient(method.objective)
            scale = method.expected_scale(n) if scaled else 1.0
            estimate = bandit.mean_estimate(
                n, method.k, estimator=estimator, baseline=baseline, **options
            )
            error = float((estimate - scale * truth).norm() / truth.norm())
            yield f"{len(bandit.logits)} arms, n={n}, K={method.k}", error
