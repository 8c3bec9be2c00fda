"""Rows of golden results set against each other: what a template may compute of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from records import Row
from words import given


def known(rows: Sequence[Row], name: str) -> list[Row]:
    """Return the rows that have a value of this name."""
    return [row for row in rows if row.knows(name)]


def taking(rows: Sequence[Row], name: str, value: str) -> list[Row]:
    """Return the rows of which some seed has a value, such as `T=1`, under this name."""
    return [row for row in rows if value in row[name].values()]


def ratio(row: Row, other: Row, measure: str, among: int = 1) -> Row:
    """Return the paired ratio of two rows of a gradient study, under the name `ratio`.

    Its interval is at a level corrected for `among` comparisons, as that of a claim is.
    """
    from maxk_lab.statistics.log_ratios import log_ratio
    from maxk_lab.studies.gradient.row.model import same_mean

    mine, its = row.measured, other.measured
    same = same_mean(mine, its)
    level = 1 - 0.05 / among
    found = log_ratio(
        mine.units, its.units, measure=measure, level=level, same_mean=same, question=None
    ).mapped(math.exp)
    return Row(row.run, {"ratio": found.value, "ratio_low": found.low, "ratio_high": found.high})


def ratios(rows: Sequence[Row], baseline: str, measure: str) -> list[Row]:
    """Return the paired ratios of rows to those of a baseline at the same points.

    Where a point has no such row it has no ratio; the level is corrected for all of them.
    """
    axes = ("stage", "estimator", "n", "k")
    pairs = [
        (row, other)
        for row in rows
        for other in row.run.rows(baseline=baseline)
        if all(row[axis] == other[axis] for axis in axes)
    ]
    return [ratio(row, other, measure, len(pairs)) for row, other in pairs]


def crossing(row: Row, other: Row) -> str:
    """Return the two neighbouring K between which the Max@K curves of two trainings cross."""
    ahead = [
        mine.value > theirs.value
        for mine, theirs in zip(row.measured.curve, other.measured.curve, strict=True)
    ]
    turns = [k for k in range(1, len(ahead)) if ahead[k] != ahead[k - 1]]
    given(len(turns) == 1, f"the curves of {row} and {other} cross once (they do at {turns})")
    return f"{turns[0]} and {turns[0] + 1}"


def settings(rows: Sequence[Row], name: str) -> str:
    """Return what the seeds of some rows have, each once and in order, as `1, 1.25 or 1.5`.

    Of a text such as `T=1.5` it is the part behind the sign.
    """
    found = {float(one.rpartition("=")[2]) for row in rows for one in row[name].values()}
    *most, last = [f"{value:g}" for value in sorted(found)]
    return f"{', '.join(most)} or {last}" if most else last
