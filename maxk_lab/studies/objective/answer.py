"""The answer of an objective study in sentences: where each objective is largest, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from maxk_lab.report.document import exact
from maxk_lab.report.naming import listed
from maxk_lab.report.rows import grouped
from maxk_lab.studies.objective.rows import ObjectiveRow

_LISTED = 3
# Of the range that is searched: optima nearer to each other, or to an end, are not told apart.
_NEAR = 1e-6


def answer(rows: Sequence[ObjectiveRow]) -> tuple[str, ...]:
    """A sentence for each objective along its parameter; then what has no optimum."""
    families = grouped(
        rows, lambda row: (row.key.environment, row.parameter, row.key.estimator)
    ).values()
    environments = {row.key.environment for row in rows}
    told = []
    for members in families:
        found = [row for row in members if _has_optimum(row)]
        where = f" on {found[0].key.environment}" if found and len(environments) > 1 else ""
        told += [_sentence(found, where), *_at_the_end(found)] if found else []
    return (*told, *_without(rows))


def _has_optimum(row: ObjectiveRow) -> bool:
    return row.all_finished and not any(curve.reason for curve in row.distinct)


def _sentence(rows: Sequence[ObjectiveRow], where: str) -> str:
    """Whether the optimum moves one way as K grows, and between which values."""
    rows = sorted(rows, key=lambda row: row.key.k)
    first, last = rows[0], rows[-1]
    form = first.key.objective.rpartition("@")[0]
    parameter = first.parameter
    if len(rows) == 1:
        return (
            f"The best {parameter} for {first.key.objective}{where} is {_optimum(first)}, exactly."
        )
    ends = (
        f"{_optimum(first)} at K = {first.key.k} to {_optimum(last)} at K = {last.key.k}, exactly"
    )
    way = _way(rows)
    if not way:
        return f"The best {parameter} for {form}@K{where} moves both ways with K: from {ends}."
    if way == "same":
        return (
            f"The best {parameter} for {form}@K{where} is the same at every K: {_optimum(first)}."
        )
    seeds = f", in each of {len(first.curves)} seeds" if len(first.distinct) > 1 else ""
    return f"The larger K, the {way} the best {parameter} for {form}@K{where}{seeds}: from {ends}."


def _way(rows: Sequence[ObjectiveRow]) -> str:
    """`larger` or `smaller` where every seed moves that way at every step; `same`, or empty."""
    steps = []
    for before, after in pairwise(rows):
        for seed in before.curves.keys() & after.curves.keys():
            one, other = before.curves[seed], after.curves[seed]
            difference = other.optimum - one.optimum
            near = _NEAR * (one.points[-1] - one.points[0])
            steps.append((difference > near) - (difference < -near))
    if len(set(steps)) != 1:
        return ""
    return {1: "larger", -1: "smaller", 0: "same"}[steps[0]]


def _optimum(row: ObjectiveRow) -> str:
    """The optimum, or the least and the largest of the seeds."""
    found = sorted(curve.optimum for curve in row.distinct)
    return " to ".join(dict.fromkeys((exact(found[0]), exact(found[-1]))))


def _at_the_end(rows: Sequence[ObjectiveRow]) -> Iterator[str]:
    """The objectives whose optimum is an end of the range, so that a better one may lie beyond."""
    names = [
        row.key.objective
        for row in rows
        for curve in row.distinct[:1]
        if min(curve.optimum - curve.points[0], curve.points[-1] - curve.optimum)
        <= _NEAR * (curve.points[-1] - curve.points[0])
    ]
    if names:
        yield (
            f"At an end of the range that was searched, so that a better value may lie beyond: "
            f"{listed(names, _LISTED)}."
        )


def _without(rows: Sequence[ObjectiveRow]) -> Iterator[str]:
    unfinished = [row.key.path for row in rows if not row.all_finished]
    if unfinished:
        yield (
            f"Missing: {len(unfinished)} of {len(rows)} objectives lack results "
            f"({listed(unfinished, _LISTED)}); nothing is said of them."
        )
    none = [row.key.path for row in rows if row.all_finished and not _has_optimum(row)]
    if none:
        yield f"Without an optimum: {listed(none, _LISTED)}."
