"""Baselines that do harm: those with more variance than no baseline at all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from maxk_lab.report.document import compact
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.studies.gradient.row.best import rivals_of
from maxk_lab.studies.gradient.row.contests import Contest
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.section.focus import Focus
from maxk_lab.studies.gradient.section.words import Words, axes, joined

_NAMED = 3
# Pairs that are compared; of more, those at the size of the short table, for the time it takes.
_MOST = 2000
_Pair = tuple[GradientRow, GradientRow]


def worse_than_none(
    found: Sequence[Contest], at: Focus, words: Words, *, level: float, alpha: float
) -> str:
    """The baselines that are told apart from none as worse, with an example; empty without any.

    Corrected at `alpha` over all pairs; the interval of the example is of one comparison.
    """
    pairs = [
        (none, row)
        for one in found
        if (none := one.of("none")) is not None and none.units is not None
        for row in one.rows
        if row.key.baseline in one.competing and row is not none and row.units is not None
    ]
    scope = ""
    if len(pairs) > _MOST:
        pairs = [pair for pair in pairs if (pair[1].key.n, pair[1].key.k) == (at.n, at.k)]
        scope = f", at n = {at.n} and K = {at.k} alone"
    corrected = 1 - alpha / max(1, len(pairs))
    worse = [
        (none, row)
        for none, row in pairs
        # Of most the mean alone says that they are not, which takes no interval.
        if _variance(row) > _variance(none) and not rivals_of(none, [row], corrected)
    ]
    if not worse:
        return ""
    counts = Counter(row.key.baseline for _, row in worse)
    asked = Counter(row.key.baseline for _, row in pairs)
    ranked = counts.most_common()
    most = ranked[0][0]
    each = [f"{name} in {count} of {asked[name]}" for name, count in ranked[:_NAMED]]
    more = ranked[_NAMED:]
    if more:
        each.append(f"{len(more)} more in at most {more[0][1]}")
    none, row = _example([pair for pair in worse if pair[1].key.baseline == most], at)
    assert none.units is not None
    assert row.units is not None
    ratio = log_ratio(row.units, none.units, level=level).mapped(math.exp)
    return (
        f"More variance than no baseline at all: {joined(each)} {axes(row for _, row in pairs)}"
        f"{scope}; "
        f"{most} has {compact(ratio)} times it {words.point(row)}."
    )


def _variance(row: GradientRow) -> float:
    return row.intervals["variance"].value


def _example(worse: Sequence[_Pair], at: Focus) -> _Pair:
    """The first at the size of the short table, or the first of all."""
    return next((pair for pair in worse if at.has(pair[1])), worse[0])
