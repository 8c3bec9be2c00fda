"""The unbiased baseline of least variance: the distance of the others, and when it has a star."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from maxk_lab.statistics.errors import LIKE_THESE
from maxk_lab.statistics.log_ratios import log_ratio, stays_less
from maxk_lab.statistics.typical import typical_ratio
from maxk_lab.studies.gradient.row.model import GradientKey, GradientRow, OverLeast
from maxk_lab.studies.gradient.row.order import is_oracle

# Two ways to write one estimator differ by rounding alone, in the same direction on every instance
# that is like the others.
_ROUNDING = 1e-9
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
    undefined: `best_note` of the least then says why.
    """
    rows = list(rows)
    groups: dict[tuple[object, ...], list[GradientRow]] = defaultdict(list)
    for row in rows:
        if row.catalogued_unbiased and not is_oracle(row):
            groups[row.key.group].append(row)
    comparisons = sum(max(0, len(_candidates(group)) - 1) for group in groups.values())
    level = 1 - alpha / max(1, comparisons)
    marks = {}
    for group in groups.values():
        least = _least(group)
        if least is not None:
            marks[least[0].key] = _judge(*least, level)
    return [_marked(row, *marks.get(row.key, (False, ""))) for row in rows]


def with_over_least(rows: Iterable[GradientRow], *, level: float) -> list[GradientRow]:
    """`rows` with their paired ratios to the candidate of least variance in their group."""
    rows = list(rows)
    groups: dict[tuple[object, ...], list[GradientRow]] = defaultdict(list)
    for row in rows:
        groups[row.key.group].append(row)
    found: dict[GradientKey, OverLeast | None] = {}
    for group in groups.values():
        unbiased = [row for row in group if row.catalogued_unbiased and not is_oracle(row)]
        least = _least(unbiased)
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


def _marked(row: GradientRow, best: bool, note: str) -> GradientRow:
    return replace(row, best=best, best_note=note)


def _candidates(group: list[GradientRow]) -> list[GradientRow]:
    return [row for row in group if row.bias.verdict not in ("biased", "scale bias")]


def _least(group: list[GradientRow]) -> tuple[GradientRow, list[GradientRow]] | None:
    """The candidate of least variance and the others; None where there is nothing to compare."""
    candidates = _candidates(group)
    # An unfinished row has no variance either.
    if len(candidates) < 2 or any(
        math.isnan(row.intervals["variance"].value) for row in candidates
    ):
        return None
    first, *others = sorted(candidates, key=lambda row: row.intervals["variance"].value)
    return first, others


def _judge(first: GradientRow, others: list[GradientRow], level: float) -> tuple[bool, str]:
    """Whether `first` is clearly the best, and a note on why it is or cannot be said to be."""
    assert first.units is not None
    for other in others:
        assert other.units is not None
        mean = log_ratio(first.units, other.units, level=level)
        if not mean.known:
            return False, f"undecided against {other.key.baseline}: {mean.reason}"
        if not mean.high < -_ROUNDING:
            return False, ""
        if mean.question != LIKE_THESE:
            return False, f"undecided against {other.key.baseline}: {mean.reason}"
        median = typical_ratio(first.units, other.units, level=level).median
        if not median.high < 1 - _ROUNDING:
            why = median.reason or "the median over instances does not tell them apart"
            return False, f"undecided against {other.key.baseline}: {why}"
        if not stays_less(first.units, other.units):
            why = "one instance more, that differs as much the other way, would undo it"
            return False, f"undecided against {other.key.baseline}: {why}"
    return True, f"least variance of {len(others) + 1} unbiased baselines"
