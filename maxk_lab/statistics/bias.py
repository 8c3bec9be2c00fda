"""Verdicts on bias: does E ĝ differ from ∇J?

Proven where every group was enumerated, else tested over all cells together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from scipy import stats

from maxk_lab.statistics.intervals import stratified_mean
from maxk_lab.statistics.units import Array, Units

POWER = 0.8
Key = TypeVar("Key", bound=Hashable)
Verdict = Literal["unbiased", "no bias seen", "scale bias", "biased", "reference", "undefined"]
# A gradient below this share of the size of its estimates is known to their rounding only.
LEAST_SIGNAL = 1e-4


@dataclass(frozen=True)
class BiasVerdict:
    """The verdict on one cell.

    `p_value` is Holm-adjusted over all cells judged by a test. `relative_bias` is
    √max(0, ‖E ĝ − ∇J‖²)/‖∇J‖. `detectable` is the smallest relative bias, in any direction, that
    the test would have found with probability 0.8 at its corrected level; `detectable_scale` the
    same for a bias along ∇J. Where every group was enumerated, "unbiased" is proven, there is no
    p-value and both are the tolerance that rounding explains. All are NaN where undefined, with the
    reason. A "reference" is the estimator that the others are judged against.
    """

    verdict: Verdict
    p_value: float = float("nan")
    relative_bias: float = float("nan")
    detectable: float = float("nan")
    detectable_scale: float = float("nan")
    reason: str = ""


@dataclass(frozen=True)
class _Tests:
    """Stratified t-tests of one cell, relative to ‖∇J‖².

    Its scale is tested against 1 (two-sided), its squared bias off ∇J against 0 (one-sided).
    """

    p_scale: float
    p_direction: float
    scale_error: float
    direction_error: float
    relative_squared_bias: float
    freedom: int


def bias_verdicts(
    units_by_key: Mapping[Key, Units], *, alpha: float = 0.05
) -> dict[Key, BiasVerdict]:
    """Judge every cell at family-wise level `alpha` (Holm 1979).

    Per cell two tests are combined (Bonferroni). The first asks whether the scale
    s = ⟨E ĝ, ∇J⟩/‖∇J‖² is 1: a ratio of means whose error comes from the residuals
    ⟨ĝ, ∇J⟩ − s‖∇J‖², so that instances of very different ‖∇J‖ do not hide a common shrinkage. The
    second asks whether ‖E ĝ‖² − 2s⟨E ĝ, ∇J⟩ + s²‖∇J‖² is positive, which any bias off ∇J makes it.
    A rejected cell whose second test is not significant is a `scale bias`, any other is `biased`.

    Cells whose groups were all enumerated are judged by their tolerance instead, and take no part
    in the correction.
    """
    verdicts: dict[Key, BiasVerdict] = {}
    tests: dict[Key, _Tests] = {}
    for key, units in units_by_key.items():
        if units.tolerance is not None:
            verdicts[key] = _judge_enumerated(units, units.tolerance)
            continue
        reason = _why_untestable(units)
        if reason:
            verdicts[key] = BiasVerdict("undefined", reason=reason)
        elif np.array_equal(units.inner, units.truth) and np.array_equal(
            units.mean_square, units.truth
        ):
            verdicts[key] = BiasVerdict(
                "reference", reason="the others are judged against this estimator"
            )
        else:
            tests[key] = _run_tests(units)
    raw = {key: min(1.0, 2 * min(test.p_scale, test.p_direction)) for key, test in tests.items()}
    adjusted = holm(raw)
    for key, test in tests.items():
        verdicts[key] = _judge(test, adjusted[key], alpha, len(tests))
    return {key: verdicts[key] for key in units_by_key}


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Holm's step-down adjusted p-values."""
    ordered = sorted(p_values, key=lambda key: p_values[key])
    adjusted: dict[Key, float] = {}
    largest = 0.0
    for position, key in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - position) * p_values[key]))
        adjusted[key] = largest
    return adjusted


def _why_untestable(units: Units) -> str:
    if np.isnan(units.truth).any() or np.isnan(units.inner).any():
        return "no gradient to judge against"
    if min(len(member) for member in units.members()) < 2:
        return "one resampling unit in a stratum: no test"
    if not stratified_mean(units.columns(), units.members())[3] > 0:
        return "the norm of the gradient it is judged against cannot be told from zero"
    return ""


def _run_tests(units: Units) -> _Tests:
    _, mean_square, inner, truth = units.columns()
    members = units.members()
    freedom = len(units.stratum) - len(members)
    _, mean_of_square, mean_of_inner, norm = stratified_mean(units.columns(), members)
    scale = mean_of_inner / norm
    _, residual_error = _mean_and_error(inner - scale * truth, members)
    off, off_error = _mean_and_error(mean_square - 2 * scale * inner + scale**2 * truth, members)
    return _Tests(
        p_scale=2 * _tail(abs(scale - 1), residual_error / norm, freedom),
        p_direction=_tail(off / norm, off_error / norm, freedom),
        scale_error=residual_error / norm,
        direction_error=off_error / norm,
        relative_squared_bias=float((mean_of_square - 2 * mean_of_inner + norm) / norm),
        freedom=freedom,
    )


def _judge(test: _Tests, adjusted: float, alpha: float, family: int) -> BiasVerdict:
    corrected = alpha / (2 * family)
    to_find = stats.norm.ppf(POWER)
    verdict: Verdict = "no bias seen"
    if adjusted < alpha:
        verdict = "biased" if test.p_direction < corrected else "scale bias"
    along = float((stats.t.isf(corrected / 2, test.freedom) + to_find) * test.scale_error)
    squared_off = float((stats.t.isf(corrected, test.freedom) + to_find) * test.direction_error)
    return BiasVerdict(
        verdict=verdict,
        p_value=adjusted,
        relative_bias=float(np.sqrt(max(0.0, test.relative_squared_bias))),
        # A bias that both tests miss is below `along` along ∇J and below √squared_off off it.
        detectable=float(np.sqrt(along**2 + squared_off)),
        detectable_scale=along,
    )


def _judge_enumerated(units: Units, tolerance: float) -> BiasVerdict:
    """Judge the largest bias of any instance; a scale bias is one that a single factor mends."""
    assert units.squared_bias is not None
    assert units.off_direction is not None
    size = np.maximum(units.truth, LEAST_SIGNAL**2 * units.m2)
    members = units.members()
    squared, inner, truth = stratified_mean(
        np.stack([units.squared_bias, units.inner, units.truth]), members
    )
    if not truth > 0:
        return BiasVerdict("undefined", reason="the gradient is zero on every instance")

    def worst(squared: Array) -> float:
        return float(
            np.sqrt(np.divide(squared, size, out=np.zeros_like(size), where=size > 0).max())
        )

    # ‖E ĝ_i − s ∇J_i‖² with the same s for all instances, split so that nothing cancels.
    scales = np.divide(units.inner, units.truth, out=np.zeros_like(size), where=units.truth > 0)
    after_scaling = units.off_direction + (scales - inner / truth) ** 2 * units.truth
    verdict: Verdict = "biased"
    if worst(units.squared_bias) <= tolerance:
        verdict = "unbiased"
    elif worst(after_scaling) <= tolerance:
        verdict = "scale bias"
    return BiasVerdict(
        verdict=verdict,
        relative_bias=float(np.sqrt(squared / truth)),
        detectable=tolerance,
        detectable_scale=tolerance,
    )


def _mean_and_error(values: Array, members: list[np.ndarray]) -> tuple[float, float]:
    """Mean over strata of the stratum means, and its standard error with strata held fixed."""
    means = [values[m].mean() for m in members]
    error = np.sqrt(sum(values[m].var(ddof=1) / len(m) for m in members)) / len(members)
    return float(np.mean(means)), float(error)


def _tail(mean: float, error: float, freedom: int) -> float:
    """P(T ≥ mean/error); 1 or 0 when the values do not vary at all (below rounding of the mean)."""
    if error <= 1e-14 * abs(mean) or error == 0.0:
        return 0.0 if mean > 1e-12 else 1.0
    return float(stats.t.sf(mean / error, freedom))
