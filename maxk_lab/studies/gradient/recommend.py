"""Which (n, baseline) gives the most signal for a budget of rollouts: candidates ranked by SNR per rollout, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from maxk_lab.report.rows import method_of
from maxk_lab.statistics.intervals import Interval, interval, undefined
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.row.model import GradientRow

_FOUND_BIASED = ("biased", "scale bias")


@dataclass(frozen=True)
class Candidate:
    """One (estimator, baseline, n, K) at a budget of B rollouts a step.

    `step_snr` is the SNR of the mean of `groups` = B/n independent estimates: B/n times that of one. `against_best` is the
    candidate's SNR per rollout over that of the best, paired over instances; None for the best itself.
    """

    row: GradientRow
    groups: int
    step_snr: Interval
    against_best: Interval | None = None

    @property
    def told_apart(self) -> bool:
        """Its interval says that it is worse than the best."""
        return self.against_best is not None and self.against_best.high < 1


@dataclass(frozen=True)
class Recommendation:
    """The candidates of one environment and stage, best first, and the rows that could not be ranked, with why."""

    objective: str
    budget: int
    candidates: tuple[Candidate, ...]
    left_out: tuple[tuple[GradientRow, str], ...]

    @property
    def best(self) -> Candidate:
        """The candidate of the highest SNR per rollout."""
        return self.candidates[0]

    @property
    def ties(self) -> tuple[Candidate, ...]:
        """Candidates that the intervals do not tell apart from the best."""
        return tuple(c for c in self.candidates[1:] if not c.told_apart)


def recommend(
    rows: Sequence[GradientRow],
    *,
    objective_name: str,
    budget: int,
    level: float = 0.95,
    alpha: float = 0.05,
    biased: bool = False,
) -> Recommendation:
    """Rank the rows, all of one environment, setting and stage, that estimate the gradient of `objective_name` (as `max@8`).

    With B rollouts a step, n of each of B/n groups, the step's estimate has B/n times the SNR of one group: what is compared is the
    SNR divided by n. Only unbiased rows are candidates unless `biased`; oracle baselines, which no training script can have, never
    are. The comparisons with the best are at `alpha`, Bonferroni over all of them.
    """
    fitting = [row for row in rows if method_of(row).objective.name == objective_name]
    left_out = [(row, reason) for row in fitting if (reason := _unfit(row, budget, biased))]
    refused = {row.key for row, _ in left_out}
    ranked = sorted(
        (_candidate(row, budget, level) for row in fitting if row.key not in refused),
        key=lambda candidate: -candidate.step_snr.value,
    )
    if ranked:
        corrected = 1 - alpha / max(1, len(ranked) - 1)
        ranked[1:] = [_compared(one, ranked[0], corrected) for one in ranked[1:]]
    return Recommendation(objective_name, budget, tuple(ranked), tuple(left_out))


def _unfit(row: GradientRow, budget: int, biased: bool) -> str:
    fit = method_of(row).fit
    if fit == "oracle":
        return "an oracle: it knows every trajectory"
    if not row.catalogued_unbiased and not biased:
        return "derived biased"
    if row.bias.verdict in _FOUND_BIASED and not biased:
        return (
            f"found to have a {row.bias.verdict}"
            if row.bias.verdict == "scale bias"
            else "found biased"
        )
    if budget % row.key.n:
        return f"n = {row.key.n} does not divide {budget}"
    if fit == "cross_fit" and budget < 2 * row.key.n:
        return f"its coefficients come from other groups, and {budget} rollouts make one of n = {row.key.n}"
    if row.units is None:
        return row.bias.reason or "not measured"
    snr = row.intervals["snr"]
    if not snr.known:
        return snr.reason or "its SNR has no interval"
    if not snr.value > 0:
        return "its signal cannot be told from zero"
    return ""


def _candidate(row: GradientRow, budget: int, level: float) -> Candidate:
    assert row.units is not None
    groups = budget // row.key.n
    one = interval(row.units, "snr", level=level)
    return Candidate(
        row, groups, Interval(groups * one.value, groups * one.low, groups * one.high, level)
    )


def _compared(one: Candidate, best: Candidate, level: float) -> Candidate:
    """With its ratio to the best: paired, or from the two intervals where a paired one does not exist."""
    assert one.row.units is not None
    assert best.row.units is not None
    share = one.groups / best.groups
    logs = log_ratio(one.row.units, best.row.units, measure="snr", level=level)
    ratio = _unpaired(one.row.units, best.row.units, share, level, logs.reason)
    if logs.known:
        value, low, high = (share * math.exp(end) for end in (logs.value, logs.low, logs.high))
        ratio = Interval(value, low, high, level)
    return replace(one, against_best=ratio)


def _unpaired(one: Units, best: Units, share: float, level: float, why: str) -> Interval:
    """The ratio from two intervals that hold together at `level`, whatever their dependence (Bonferroni): wide, and never wrong."""
    each = 1 - (1 - level) / 2
    top, bottom = interval(one, "snr", level=each), interval(best, "snr", level=each)
    if not (top.known and bottom.known and bottom.low > 0):
        return undefined(level, why)
    low, high = max(0.0, top.low) / bottom.high, top.high / bottom.low
    return Interval(
        share * top.value / bottom.value, share * low, share * high, level, f"unpaired: {why}"
    )
