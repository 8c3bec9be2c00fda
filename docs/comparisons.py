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
    from maxk_lab.studies.gradient.row import same_mean

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
    """Return the two K between which the Max@K curves of two trainings cross, as far as is told.

    At the first and all K below it the paired 95 % interval of the difference, each alone, lies on
    one side of 0, at the second and all above it on the other; between them it is not told.
    """
    from maxk_lab.studies.training.table import with_differences_to

    found = with_differences_to(row.measured, other.measured, 0.95).differences
    signs = [(found[k].low > 0) - (found[k].high < 0) for k in sorted(found)]
    told = [sign for sign in signs if sign]
    behind = signs.count(signs[0])
    once = told == [signs[0]] * behind + [-signs[0]] * (len(told) - behind)
    given(told and once and len(told) > behind, f"the curves of {row} and {other} cross once")
    return f"{sorted(found)[behind - 1]} and {sorted(found)[signs.index(-signs[0])]}"


def correlation(row: Row, other: Row) -> float:
    """Return the correlation of the weights of two rows of a weights study, mean over groups."""
    import numpy as np

    pairs = list(zip(row["groups"], other["groups"], strict=True))
    given(all(a["rewards"] == b["rewards"] for a, b in pairs), f"{row} and {other} share groups")
    of_groups = [np.corrcoef(a["weights"], b["weights"])[0, 1] for a, b in pairs]
    return float(np.mean(of_groups))


def decoded(row: Row, other: Row, way: str, k: int = 1) -> Row:
    """Return the paired difference of two trainings, both decoded in a way, as `difference`.

    It is that of Max@k where the way has a curve.
    """
    from maxk_lab.studies.training.table import difference

    both = all(way in each.measured.decoded for each in (row, other))
    given(both, f"{row} and {other} were decoded by {way}")
    found = difference(row.measured, other.measured, k, 0.95, way)
    ends = {"difference_low": found.low, "difference_high": found.high}
    return Row(row.run, {"difference": found.value} | ends)


def doubts(rows: Sequence[Row]) -> list[str]:
    """Return for each point without a star why: of all that may be as low as the lowest."""
    from maxk_lab.reports.tables import grouped

    points = grouped(rows, lambda row: row.measured.key.group).values()
    over = ([row.measured.over_least for row in several] for several in points)
    found = [{one.line.reason for one in several if one and one.line.reason} for several in over]
    return ["; ".join(sorted(whys)) for whys in found if whys]


def settings(rows: Sequence[Row], name: str) -> str:
    """Return what the seeds of some rows have, each once and in order, as `1, 1.25 or 1.5`.

    Of a text such as `T=1.5` it is the part behind the sign.
    """
    found = {float(one.rpartition("=")[2]) for row in rows for one in row[name].values()}
    *most, last = [f"{value:g}" for value in sorted(found)]
    return f"{', '.join(most)} or {last}" if most else last


COMPARISONS = (correlation, crossing, decoded, doubts, known, ratio, ratios, settings, taking)
