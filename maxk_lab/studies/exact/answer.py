"""The facts of an exact study: signs and zeros of weights, and optima of objectives as K grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from pydantic import BaseModel, Field

from maxk_lab.reports.document import exact
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.statistics.measures import measures_of
from maxk_lab.studies.exact.table import NEAR, Row

# Sums of weights below this size are rounding errors.
_ZERO = 1e-12
Direction = Literal["larger", "smaller", "same", "both"]


class Zeros(BaseModel):
    """The share of the samples with a weight of zero, at the smallest and the largest K."""

    method: str
    ks: tuple[int, int]
    shares: tuple[float, float]


class Line(BaseModel):
    """A line of the short table: the weights of a method, or an objective with its optimum."""

    method: str = Field(default="", title="method")
    zero_share: float | None = Field(default=None, title="zero share")
    weight_sum: float | None = Field(default=None, title="sum")
    weight_min: float | None = Field(default=None, title="min")
    objective: str = Field(default="", title="objective")
    k: int | None = Field(default=None, title="K")
    optimum: str = Field(default="", title="optimum")
    value: str = Field(default="", title="value there")


class Family(BaseModel):
    """The objectives of one form along one parameter, from the smallest K to the largest.

    `direction` is that of the optimum as K grows, in every seed at every step; `both` if steps
    differ.
    """

    parameter: str
    form: str
    environment: str
    direction: Direction
    ks: tuple[int, int]
    optima: tuple[str, str]
    seeds: int


class Facts(BaseModel):
    """The methods with a property at every n and K; the families, and objectives without optimum.

    `block` is weights or objective. Lists of the other block are empty.
    """

    block: str
    title: str
    table: list[Line]
    never_negative: list[str] = []
    sum_to_zero: list[str] = []
    zeros: list[Zeros] = []
    groups: int = 0
    families: list[Family] = []
    without: list[str] = []


def facts(pooled: Pooled[Row], origin: Origin) -> Facts:
    """Return the facts of these rows."""
    parameter = pooled.rows[0].key.parameter
    finished = [row for row in pooled.rows if row.all_finished]
    return _about_optima(pooled.rows, finished) if parameter else _about_weights(finished)


def _about_weights(rows: Sequence[Row]) -> Facts:
    methods = grouped(rows, lambda row: row.key.pair)
    n = max((row.key.n for row in rows), default=0)
    k = max((row.key.k for row in rows if row.key.n == n), default=0)

    def methods_with(condition: Callable[[Row], bool]) -> list[str]:
        return [name for name, members in methods.items() if all(map(condition, members))]

    zeros = (_zeros(name, members) for name, members in methods.items())
    return Facts(
        block="weights",
        never_negative=methods_with(lambda row: row.number("weight_min").value >= -_ZERO),
        sum_to_zero=methods_with(lambda row: abs(row.number("weight_sum").value) <= _ZERO),
        zeros=[each for each in zeros if each],
        groups=max((len(row.groups) for row in rows), default=0),
        title=f"Weights at n = {n}, K = {k}",
        table=[_weight(row) for row in rows if (row.key.n, row.key.k) == (n, k)],
    )


def _zeros(name: str, rows: Sequence[Row]) -> Zeros | None:
    shares = {}
    for k, members in sorted(grouped(rows, lambda row: row.key.k).items()):
        # Rows of one K may have several n: count their samples.
        values = [row.number("zero_share").value for row in members]
        shares[k] = float(np.average(values, weights=[row.key.n for row in members]))
    ks = tuple(shares)
    if not all(share >= 0 for share in shares.values()) or not any(shares.values()):
        return None
    return Zeros(method=name, ks=(ks[0], ks[-1]), shares=(shares[ks[0]], shares[ks[-1]]))


def _weight(row: Row) -> Line:
    values = {measure.name: row.number(measure.name).value for measure in measures_of("weights")}
    rounded = {name: 0.0 if abs(value) <= _ZERO else value for name, value in values.items()}
    return Line.model_validate({"method": row.key.pair, **rounded})


def _about_optima(rows: Sequence[Row], finished: Sequence[Row]) -> Facts:
    several = len({row.key.environment for row in rows}) > 1
    defined = [row for row in finished if not any(curve.reason() for curve in row.distinct)]
    by_k = sorted(defined, key=lambda row: row.key.k)
    families = {
        name: [row for row in by_k if _family_name(row) == name]
        for name in grouped(rows, _family_name)
    }
    table = []
    for members in families.values():
        # A long family has its first, its middle and its last K.
        few = (members[0], members[len(members) // 2], members[-1]) if len(members) > 4 else members
        table += [_optimum(row) for row in few]
    return Facts(
        block="objective",
        families=[_family(members, named=several) for members in families.values() if members],
        without=[row.key.path for row in finished if row not in defined],
        title=f"Optima along {rows[0].key.parameter}",
        table=table,
    )


def _family_name(row: Row) -> tuple[str, str, str]:
    return row.key.environment, row.key.parameter, row.key.estimator


def _family(rows: Sequence[Row], *, named: bool) -> Family:
    first, last = rows[0], rows[-1]
    return Family(
        parameter=first.key.parameter,
        form=first.key.objective.rpartition("@")[0],
        environment=first.key.environment if named else "",
        direction=_direction(rows),
        ks=(first.key.k, last.key.k),
        optima=(_range(first), _range(last)),
        seeds=len(first.by_seed) if len(first.distinct) > 1 else 1,
    )


def _direction(rows: Sequence[Row]) -> Direction:
    steps = set()
    for lower, upper in pairwise(rows):
        for seed in lower.by_seed.keys() & upper.by_seed.keys():
            before, after = lower.by_seed[seed], upper.by_seed[seed]
            near = NEAR * (before.points[-1] - before.points[0])
            difference = after.best[0] - before.best[0]
            steps.add((difference > near) - (difference < -near))
    directions: dict[int, Direction] = {1: "larger", -1: "smaller", 0: "same"}
    return "both" if len(steps) > 1 else directions[next(iter(steps), 0)]


def _range(row: Row, index: int = 0) -> str:
    """Return the optimum, or the value there, or its smallest and its largest over the seeds."""
    values = sorted(curve.best[index] for curve in row.distinct)
    return " to ".join(dict.fromkeys((exact(values[0]), exact(values[-1]))))


def _optimum(row: Row) -> Line:
    optimum, value = _range(row), _range(row, 1)
    return Line(objective=row.key.objective, k=row.key.k, optimum=optimum, value=value)
