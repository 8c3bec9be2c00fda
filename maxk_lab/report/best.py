"""Which unbiased baseline has the least variance, said only where every paired difference excludes zero."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from maxk_lab.gradients.statistics import log_ratio
from maxk_lab.report.model import SummaryRow


def mark_best(rows: Iterable[SummaryRow], *, alpha: float = 0.05) -> list[SummaryRow]:
    """`rows` with `best` set on at most one row per (environment, stage, estimator, n, K).

    Candidates are catalogued unbiased and were not found biased. The one of least variance is marked when the
    paired interval of its log-ratio to every other candidate lies below 0. The level is Bonferroni over all
    these comparisons of the sweep, so the probability of any wrong mark is at most `alpha`. A group with an
    incomplete candidate gets no mark: the missing row could have been better.
    """
    rows = list(rows)
    groups: dict[tuple[object, ...], list[SummaryRow]] = defaultdict(list)
    for row in rows:
        if row.catalogued_unbiased:
            groups[row.key.group].append(row)
    comparisons = sum(max(0, len(_candidates(group)) - 1) for group in groups.values())
    level = 1 - alpha / max(1, comparisons)
    winners = {}
    for group in groups.values():
        winner = _winner(group, level, alpha)
        if winner is not None:
            winners[winner.key] = f"least variance of {len(_candidates(group))} unbiased baselines"
    return [replace(row, best=row.key in winners, best_note=winners.get(row.key, "")) for row in rows]


def _candidates(group: list[SummaryRow]) -> list[SummaryRow]:
    return [row for row in group if row.bias.verdict not in ("biased", "scale bias")]


def _winner(group: list[SummaryRow], level: float, alpha: float) -> SummaryRow | None:
    candidates = _candidates(group)
    # An incomplete row has no variance either.
    if len(candidates) < 2 or any(math.isnan(row.intervals["variance"].value) for row in candidates):
        return None
    first, *others = sorted(candidates, key=lambda row: row.intervals["variance"].value)
    # The wide interval of the corrected level is costly: ask for it only where the narrow one excludes zero.
    for asked in (1 - alpha, level):
        if not all(_less(first, other, asked) for other in others):
            return None
    return first


def _less(first: SummaryRow, other: SummaryRow, level: float) -> bool:
    assert first.units is not None
    assert other.units is not None
    return log_ratio(first.units, other.units, level=level).high < 0
