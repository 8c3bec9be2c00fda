"""The facts of an objective study: where each objective is largest, and which way that moves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from pydantic import BaseModel, Field

from maxk_lab.reports.document import exact
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.studies.objective.pool import ObjectiveRow

# Of the range that is searched: optima nearer to each other, or to an end, are the same.
_NEAR = 1e-6
Way = Literal["larger", "smaller", "same", "both"]


class Family(BaseModel):
    """The objectives of one form along one parameter, from the smallest K to the largest.

    `way` is that of the optimum as K grows, in every seed at every step.
    """

    parameter: str
    form: str
    environment: str
    way: Way
    ks: tuple[int, int]
    optima: tuple[str, str]
    seeds: int
    at_an_end: list[str]


class Line(BaseModel):
    """A line of the short table; the optimum is a range where it is another in each seed."""

    objective: str = Field(title="objective")
    k: int = Field(title="K")
    optimum: str = Field(title="optimum")
    value: str = Field(title="value there")


class Facts(BaseModel):
    """The families of objectives, and those without an optimum."""

    families: list[Family]
    without: list[str]
    title: str
    table: list[Line]


def facts(pooled: Pooled[ObjectiveRow], origin: Origin) -> Facts:
    """The facts of these rows."""
    rows = pooled.rows
    named = len({row.key.environment for row in rows}) > 1
    # The rows whose seeds all have an optimum, by their K.
    whole = [row for row in rows if row.all_finished]
    known = [row for row in whole if not any(curve.reason for curve in row.distinct)]
    known.sort(key=lambda row: row.key.k)
    families = grouped(rows, _family_of)
    members = {family: [row for row in known if _family_of(row) == family] for family in families}
    table = []
    for several in members.values():
        # The first, the middle and the last K, where there are many.
        few = (several[0], several[len(several) // 2], several[-1]) if len(several) > 4 else several
        table += [_line(row) for row in few]
    return Facts(
        families=[_family(several, named=named) for several in members.values() if several],
        without=[row.key.path for row in whole if row not in known],
        title=f"Optima along {rows[0].key.parameter}",
        table=table,
    )


def _family_of(row: ObjectiveRow) -> tuple[str, str, str]:
    return row.key.environment, row.key.parameter, row.key.estimator


def _family(rows: Sequence[ObjectiveRow], *, named: bool) -> Family:
    first, last = rows[0], rows[-1]
    return Family(
        parameter=first.key.parameter,
        form=first.key.objective.rpartition("@")[0],
        environment=first.key.environment if named else "",
        way=_way(rows),
        ks=(first.key.k, last.key.k),
        optima=(_spread(first), _spread(last)),
        seeds=len(first.by_seed) if len(first.distinct) > 1 else 1,
        at_an_end=[row.key.objective for row in rows if _at_an_end(row)],
    )


def _way(rows: Sequence[ObjectiveRow]) -> Way:
    steps = set()
    for before, after in pairwise(rows):
        for seed in before.by_seed.keys() & after.by_seed.keys():
            one, other = before.by_seed[seed], after.by_seed[seed]
            difference, near = other.best[0] - one.best[0], _NEAR * (one.points[-1] - one.points[0])
            steps.add((difference > near) - (difference < -near))
    ways: dict[int, Way] = {1: "larger", -1: "smaller", 0: "same"}
    return "both" if len(steps) > 1 else ways[next(iter(steps), 0)]


def _spread(row: ObjectiveRow, at: int = 0) -> str:
    """The optimum, or the value there, or its smallest and its largest over the seeds."""
    found = sorted(curve.best[at] for curve in row.distinct)
    return " to ".join(dict.fromkeys((exact(found[0]), exact(found[-1]))))


def _at_an_end(row: ObjectiveRow) -> bool:
    curve = row.distinct[0]
    near = min(curve.best[0] - curve.points[0], curve.points[-1] - curve.best[0])
    return near <= _NEAR * (curve.points[-1] - curve.points[0])


def _line(row: ObjectiveRow) -> Line:
    optimum, value = _spread(row), _spread(row, 1)
    return Line(objective=row.key.objective, k=row.key.k, optimum=optimum, value=value)
