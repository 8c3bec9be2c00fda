"""The unbiased baseline of least variance: the distance of the others, and when it has a star."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from maxk_lab.statistics.errors import LIKE_THESE
from maxk_lab.statistics.log_ratios import UNPAIRED, log_ratio, stays_less
from maxk_lab.statistics.typical import typical_ratio
from maxk_lab.studies.gradient.row.model import GradientKey, GradientRow, OverLeast, Rival
from maxk_lab.studies.gradient.row.order import is_oracle

# Two ways to write one estimator differ by rounding alone, in the same direction on every instance
# that is like the others.
_ROUNDING = 1e-9
FOUND_BIASED = ("biased", "scale bias")
UNBIASED = ("unbiased", "no bias seen", "alarm")
# Above, an exponential is more than a number can be.
_MOST = 700.0


def mark_best(rows: Iterable[GradientRow], *, alpha: float = 0.05) -> list[GradientRow]:
    """`rows` with `best` set on at most one row per (environment, setting, stage, estimator, n, K).

    Candidates are catalogued unbiased, were not found biased and are no oracles. The one of least
    variance is marked when, against every other candidate, two paired intervals about instances
    like these agree that it has less: that of the ratio of mean variances, and that of the median
    over instances of their ratio; and when one more instance would not undo it (`stays_less`). The
    level is Bonferroni over all these comparisons of the sweep, so the probability of any wrong
    mark is at most `alpha`. A group with an unfinished candidate gets no mark: the missing row
    could have been better. Nor does one where too few instances carry a mean, or where a ratio is
    undefined: `rivals` of the least has those that it is not told apart from, `best_note` why.
    """
    rows = list(rows)
    groups: dict[tuple[object, ...], list[GradientRow]] = defaultdict(list)
    for row in rows:
        if row.catalogued_unbiased and not is_oracle(row):
            groups[row.key.group].append(row)
    comparisons = sum(max(0, len(candidates(group)) - 1) for group in groups.values())
    level = 1 - alpha / max(1, comparisons)
    marks: dict[GradientKey, tuple[Rival, ...]] = {}
    for group in groups.values():
        least = least_of(group)
        if least is not None:
            first, others = least
            marks[first.key] = rivals_of(first, others, level)
    return [_marked(row, marks[row.key]) if row.key in marks else row for row in rows]


def with_over_least(rows: Iterable[GradientRow], *, level: float) -> list[GradientRow]:
    """`rows` with their paired ratios to the candidate of least variance in their group."""
    rows = list(rows)
    groups: dict[tuple[object, ...], list[GradientRow]] = defaultdict(list)
    for row in rows:
        groups[row.key.group].append(row)
    found: dict[GradientKey, OverLeast | None] = {}
    for group in groups.values():
        unbiased = [row for row in group if row.catalogued_unbiased and not is_oracle(row)]
        least = least_of(unbiased)
        if least is not None:
            found |= {row.key: _over(row, least[0], level) for row in group if row.units}
    return [replace(row, over_least=found.get(row.key)) for row in rows]


def _over(row: GradientRow, least: GradientRow, level: float) -> OverLeast | None:
    if row.key == least.key:
        return None
    assert row.units is not None
    assert least.units is not None
    mean = log_ratio(row.units, least.units, level=level).mapped(_exp)
    try:
        typical = typical_ratio(row.units, least.units, level=level)
    except ValueError:
        typical = None
    return OverLeast(least.key.baseline, mean, typical)


def _exp(value: float) -> float:
    return math.inf if value > _MOST else math.exp(value)


def _marked(row: GradientRow, rivals: tuple[Rival, ...]) -> GradientRow:
    reason = rivals[0].reason if rivals else ""
    note = f"undecided against {rivals[0].baseline}: {reason}" if reason else ""
    return replace(row, best=not rivals, best_note=note, rivals=rivals)


def candidates(group: Sequence[GradientRow]) -> list[GradientRow]:
    """Those of a group that were not found biased."""
    return [row for row in group if row.bias.verdict not in FOUND_BIASED]


def least_of(group: Sequence[GradientRow]) -> tuple[GradientRow, list[GradientRow]] | None:
    """The candidate of least variance and the others; None where there is nothing to compare."""
    competing = candidates(group)
    # An unfinished row has no variance either.
    if len(competing) < 2 or any(math.isnan(row.intervals["variance"].value) for row in competing):
        return None
    first, *others = sorted(competing, key=lambda row: row.intervals["variance"].value)
    return first, others


def tied(group: Sequence[GradientRow]) -> list[GradientRow]:
    """The row of least variance of a contest, and those that tie with it; none without a contest.

    A row ties where no test says that it has more variance: neither the one that is corrected for
    many, nor its own interval. Rows that lie far above are none, however few their instances are.
    """
    compared = least_of(group)
    if compared is None:
        return []
    least, others = compared
    open_to = {rival.baseline for rival in least.rivals}
    return [least, *(row for row in others if row.key.baseline in open_to and _may_be_least(row))]


def _may_be_least(row: GradientRow) -> bool:
    over = row.over_least
    return over is not None and over.mean.known and over.mean.low <= 1 + _ROUNDING


def simplest(rows: Sequence[GradientRow]) -> GradientRow:
    """The row to use of those that tie: the first in the catalogue that needs rewards alone.

    Where none is such, the first of the rows.
    """
    plain = [row for row in rows if row.key.method.needs_rewards_alone]
    return min(plain, key=lambda row: row.key.method.catalogue_order) if plain else rows[0]


def rivals_of(first: GradientRow, others: Iterable[GradientRow], level: float) -> tuple[Rival, ...]:
    """Those of the others that `first`, each at `level`, is not told apart from.

    The one of least variance is `first` or one of them, as surely as all comparisons hold.
    """
    found = (_rival(first, other, level) for other in others)
    return tuple(rival for rival in found if rival is not None)


def _rival(first: GradientRow, other: GradientRow, level: float) -> Rival | None:
    """None where `first` has less beyond doubt."""
    assert first.units is not None
    assert other.units is not None
    name = other.key.baseline
    mean = log_ratio(first.units, other.units, level=level)
    if not mean.known:
        return Rival(name, "unpaired" if mean.reason == UNPAIRED else "no interval", mean.reason)
    typical = typical_ratio(first.units, other.units, level=level)
    if not mean.high < -_ROUNDING:
        return Rival(name, "same" if typical.ties == typical.instances else "both signs")
    if mean.question != LIKE_THESE:
        here = 2 * typical.below > typical.instances
        return Rival(name, "few instances", mean.reason, here=here)
    if not typical.median.high < 1 - _ROUNDING:
        reason = typical.median.reason or "the median over instances does not tell them apart"
        return Rival(name, "median", reason)
    if not stays_less(first.units, other.units):
        reason = "an instance of a kind that was not drawn could undo it"
        return Rival(name, "one instance", reason)
    return None
