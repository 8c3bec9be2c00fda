"""The unbiased baseline of least variance, where every paired difference excludes zero."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.row.order import is_oracle

# Two ways to write one estimator differ by rounding alone, in the same direction on every instance
# that is like the others.
_ROUNDING = 1e-9


def mark_best(rows: Iterable[GradientRow], *, alpha: float = 0.05) -> list[GradientRow]:
    """`rows` with `best` set on at most one row per (environment, setting, stage, estimator, n, K).

    Candidates are catalogued unbiased, were not found biased and are no oracles. The one of least
    variance is marked when the paired interval of its log-ratio to every other candidate lies below
    0. The level is Bonferroni over all these comparisons of the sweep, so the probability of any
    wrong mark is at most `alpha`. A group with an unfinished candidate gets no mark: the missing
    row could have been better. Nor does one where a ratio is undefined, as of cells that rest on
    different resampling units: `best_note` of the least then says why.
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
            marks[least[0].key] = _judge(*least, level, alpha)
    return [_marked(row, *marks.get(row.key, (False, ""))) for row in rows]


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


def _judge(
    first: GradientRow, others: list[GradientRow], level: float, alpha: float
) -> tuple[bool, str]:
    """Whether `first` is clearly the best, and a note on why it is or cannot be said to be."""
    # The wide interval of the corrected level is costly: ask for it only where the narrow one
    # excludes zero.
    for asked in (1 - alpha, level):
        for other in others:
            ratio = _log_ratio(first, other, asked)
            if math.isnan(ratio.value):
                return False, f"undecided against {other.key.baseline}: {ratio.reason}"
            if not ratio.high < -_ROUNDING:
                return False, ""
    return True, f"least variance of {len(others) + 1} unbiased baselines"


def _log_ratio(first: GradientRow, other: GradientRow, level: float) -> Interval:
    assert first.units is not None
    assert other.units is not None
    return log_ratio(first.units, other.units, level=level)
