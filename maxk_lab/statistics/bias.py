"""Verdicts on bias: does E ĝ differ from ∇J?

Proven where every group was enumerated, else tested over all cells together.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from maxk_lab.statistics.design import GROUPS_TO_SEE
from maxk_lab.statistics.deviations import Deviations
from maxk_lab.statistics.errors import THESE, moment_errors, of_deviation, roughness_of
from maxk_lab.statistics.families import Family
from maxk_lab.statistics.intervals import norm_is_known
from maxk_lab.statistics.quotients import of_moments, tangent
from maxk_lab.statistics.spread import Spread
from maxk_lab.statistics.units import Array, Units, stratified_mean

POWER = 0.8
# What is aimed at to have that: aimed at 0.8 directly, biases of that size were found in 77 % of
# simulated reports, since errors of heavy tails are known less well than is allowed for.
AIMED = 0.83
# The tests of a cell: along ∇J and anywhere, each of the sum over instances and of every instance.
TESTS = 4
# An instance has tests of its own where ‖∇J‖ is at least this share of the rms over instances.
# Below it a pool may lack what carries the gradient: at 0.01, 4 of 24 reports on a trained toy LLM
# called an unbiased estimator biased there, at 0.1 one of 60.
LEAST_NORM = 0.1
# The estimator that the others are judged against differs from itself by rounding alone.
_ROUNDING = 1e-9
Key = TypeVar("Key", bound=Hashable)
Verdict = Literal[
    "unbiased", "no bias seen", "scale bias", "biased", "alarm", "reference", "undefined"
]
# A gradient below this share of the size of its estimates is known to their rounding only.
LEAST_SIGNAL = 1e-4


@dataclass(frozen=True)
class BiasVerdict:
    """The verdict on one cell, a statement about the very instances that were measured.

    `p_value` is Holm-adjusted over all cells judged by a test. `relative_bias` is
    √max(0, ‖E ĝ − ∇J‖²)/‖∇J‖ with the squares summed over instances, and `at_most` its one-sided
    upper bound at the level of the verdict, of this cell alone: never below that of an estimate of
    0 with the same error. `detectable` is the smallest
    bias along ∇J, the same share of it on every instance, that the test finds with probability 0.8
    at its corrected level. `found_on` counts the instances whose own test found it, `worst` is the
    largest relative bias among these. Where every group was enumerated, "unbiased" is proven, there
    is no p-value, `detectable` is the tolerance that rounding explains and `at_most` the bias. All
    are NaN where undefined, with the reason: `detectable` with fewer than `GROUPS_TO_SEE` groups an
    instance. The others are judged against a "reference". An "alarm" is a rejection of what is
    unbiased by proof.
    """

    verdict: Verdict
    p_value: float = float("nan")
    relative_bias: float = float("nan")
    at_most: float = float("nan")
    detectable: float = float("nan")
    found_on: int = 0
    worst: float = float("nan")
    reason: str = ""


@dataclass(frozen=True)
class _Tests:
    """The tests of one cell: of the sum over its instances, and of each of them.

    `along` tests the deviation along ∇J, two-sided, `anywhere` the squared deviation, one-sided,
    `beside` what is left of that after the nearest factor.
    """

    along: Spread
    anywhere: Spread
    beside: Spread
    own: NDArray[np.bool_]
    deviations: Deviations
    roughness: tuple[float, float]
    squared: Spread
    truth: Array
    norm: float
    tested_norm: float

    @property
    def p_value(self) -> float:
        """The least of the four p-values, Bonferroni."""
        together = min(self.along.p_apart(), self.anywhere.p_above())
        return min(1.0, TESTS * min(together, float(self.by_instance().min())))

    def by_instance(self) -> Array:
        """The smaller p-value of each instance's own tests times their number: [U]; 1 without."""
        along = self.deviations.along.p_values(two_sided=True)
        anywhere = self.deviations.anywhere.p_values(two_sided=False)
        return self._corrected(np.minimum(along, anywhere))

    def p_beside(self) -> float:
        """The p-value of what the nearest factor leaves."""
        each = self._corrected(self.deviations.beside.p_values(two_sided=False))
        return min(self.beside.p_above(), float(each.min()))

    def _corrected(self, p_values: Array) -> Array:
        found: Array = np.where(self.own, p_values * max(1, self.own.sum()), 1.0)
        return found


def bias_verdicts(
    units_by_key: Mapping[Key, Units], *, alpha: float = 0.05
) -> dict[Key, BiasVerdict]:
    """Judge every cell at family-wise level `alpha` (Holm 1979).

    The instances are fixed and their trajectories random: every error comes from independent blocks
    of trajectories within an instance, so one that carries nearly all of Σ‖∇J‖² needs no other like
    it. Per cell four tests are combined (Bonferroni): whether ⟨E ĝ − ∇J, ∇J⟩ is 0 and whether
    ‖E ĝ − ∇J‖² is, each summed over the instances and on each of them alone, so that a bias on one
    instance of small norm does not drown. A rejected cell in which the nearest multiple s∇J, one s
    for all instances of a seed, leaves nothing is a `scale bias`, any other is `biased`.

    Cells whose groups were all enumerated are judged by their tolerance instead, and take no part
    in the correction.
    """
    verdicts: dict[Key, BiasVerdict] = {}
    tests: dict[Key, _Tests] = {}
    for key, units in units_by_key.items():
        if units.tolerance is not None:
            verdicts[key] = _judge_enumerated(units, units.tolerance)
            continue
        found = _tests_of(units, alpha)
        if isinstance(found, BiasVerdict):
            verdicts[key] = found
        else:
            tests[key] = found
    family = Family("bias", len(tests), alpha, "holm")
    adjusted = family.adjusted({key: test.p_value for key, test in tests.items()})
    for key, test in tests.items():
        verdicts[key] = _judge(test, adjusted[key], alpha, len(tests))
    return {key: verdicts[key] for key in units_by_key}


def _tests_of(units: Units, alpha: float) -> _Tests | BiasVerdict:
    """The tests of a cell, or the verdict without any."""
    if np.isnan(units.truth).any() or np.isnan(units.inner).any():
        return BiasVerdict("undefined", reason="no gradient to judge against")
    if all(
        np.allclose(own, units.truth, rtol=_ROUNDING, atol=0)
        for own in (units.inner, units.mean_square)
    ):
        return BiasVerdict("reference", reason="the others are judged against this estimator")
    found = units.deviations
    if found is None or min(found.along.freedom, found.anywhere.freedom) < 1:
        return BiasVerdict("undefined", reason="fewer than three groups an instance: no test")
    tested, members = found.along.variance > 0, units.members()
    if not tested.any():
        return BiasVerdict("undefined", reason="no instance has an error to test a bias with")
    norm, tested_norm = stratified_mean(np.stack([units.truth, tested * units.truth]), members)
    if not norm_is_known(units):
        return BiasVerdict(
            "undefined",
            reason="the norm of the gradient it is judged against cannot be told from zero",
        )
    errors = moment_errors(units, THESE)
    squared = tangent(of_moments("squared_bias"), errors.means)
    return _Tests(
        along=of_deviation(found.along, members),
        anywhere=of_deviation(found.anywhere, members),
        beside=of_deviation(found.beside, members),
        own=found.trusted & (units.truth >= LEAST_NORM**2 * norm),
        deviations=found,
        roughness=roughness_of(found.along, members),
        squared=replace(errors.spread(squared.slopes), mean=squared.value),
        truth=units.truth,
        norm=float(norm),
        tested_norm=float(tested_norm),
    )


def _judge(test: _Tests, adjusted: float, alpha: float, family: int) -> BiasVerdict:
    corrected = alpha / (TESTS * family)
    verdict: Verdict = "no bias seen"
    if adjusted < alpha:
        verdict = "biased" if test.p_beside() < corrected else "scale bias"
    # With fewer blocks the error is known too roughly to say what it would let see.
    few = test.deviations.along.freedom < GROUPS_TO_SEE - 1
    found_on = (test.by_instance() < corrected) & (adjusted < alpha)
    return BiasVerdict(
        verdict=verdict,
        p_value=adjusted,
        relative_bias=float(np.sqrt(np.maximum(test.squared.mean, 0.0) / test.norm)),
        at_most=float(np.sqrt(_highest(test.squared, alpha) / test.norm)),
        detectable=math.nan if few else _detectable(test, corrected / 2) / test.tested_norm,
        found_on=int(found_on.sum()),
        worst=_worst(test, found_on),
        reason=f"fewer than {GROUPS_TO_SEE} groups an instance: what could be seen is not known"
        if few
        else "",
    )


def _highest(squared: Spread, alpha: float) -> float:
    """The one-sided upper bound of a number that is not negative.

    An estimate below 0 is an unlucky draw: it says no more of the number than one of 0 does.
    """
    high = squared.ends(1 - 2 * alpha)[1]
    return max(high, high - squared.mean)


def _detectable(test: _Tests, tail: float) -> float:
    """The deviation that is found with probability `POWER` where p-values up to `tail` are.

    The error and the skewness were estimated, and are estimated anew where the bias is looked for.
    """
    t, power = test.along.farthest(tail), float(scipy.special.ndtri(AIMED))
    of_error, of_skewness = test.roughness
    # The c that solves (c − t)² = z² (1 + (c² + t²) v/4 + 2 w (t²/3)²), v and w the roughness.
    share = power**2 * of_error / 4
    if share >= 1:
        return math.nan
    rest = t**2 * (1 - share) - power**2 * (1 + 2 * of_skewness * (t**2 / 3) ** 2)
    return test.along.error * (t + math.sqrt(t**2 - (1 - share) * rest)) / (1 - share)


def _worst(test: _Tests, found_on: NDArray[np.bool_]) -> float:
    """The largest relative bias among the instances where one was found, NaN without any."""
    if not found_on.any():
        return float("nan")
    # A bias along ∇J is a bias: its square, less the noise in it, is the least that there is.
    along, truth = test.deviations.along, test.truth[found_on]
    least = np.maximum(along.mean**2 - along.variance, 0.0)[found_on] / truth
    squared = np.maximum(test.deviations.anywhere.mean[found_on], least)
    return float(np.sqrt((squared / truth).max()))


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
        at_most=max(tolerance, float(np.sqrt(squared / truth))),
        detectable=tolerance,
    )
