"""Records of an objective study → rows: the exact objective along one parameter, its maximum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maxk_lab.estimators.method import Method
from maxk_lab.report.naming import environment_label, environment_words, row_path
from maxk_lab.report.tables import Estimate, Pooled, PooledRow, grouped
from maxk_lab.statistics.intervals import exactly, undefined
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.statistics.seeds import floats
from maxk_lab.studies.objective.record import Metrics

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record


@dataclass(frozen=True)
class ObjectiveKey:
    """The point that the seeds of one row share; `plain` are words for the environment."""

    environment: str
    estimator: str
    k: int
    plain: str = field(default="", compare=False)

    @property
    def path(self) -> str:
        """`objective/maxk/k8`; see `row_path`."""
        return row_path("objective", "", estimator=self.estimator, k=self.k)

    @property
    def objective(self) -> str:
        """The objective that the estimator is for: `max@8`."""
        return Method.parse(self.estimator, k=self.k).objective.name


@dataclass(frozen=True)
class Curve:
    """The objective of one seed: its exact `values` at the `points`, NaN where undefined.

    `optimum` is the parameter at the maximum and `best` the objective there; both NaN, with the
    `reason`, where there is none.
    """

    points: tuple[float, ...]
    values: tuple[float, ...]
    optimum: float
    best: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ObjectiveRow(PooledRow):
    """One (environment, estimator, K): the curve of each finished seed along `parameter`."""

    key: ObjectiveKey
    parameter: str
    curves: Mapping[int, Curve] = field(default_factory=dict, repr=False)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The parameter along the curve, and the name of the objective."""
        return {"parameter": self.parameter, "objective": self.key.objective}

    @property
    def details(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The curve of each seed."""
        return {
            "curves": [
                {
                    "seed": seed,
                    "points": curve.points,
                    "values": curve.values,
                    "optimum": curve.optimum,
                    "optimum_value": curve.best,
                }
                for seed, curve in self.curves.items()
            ]
        }

    @property
    def distinct(self) -> tuple[Curve, ...]:
        """The curves without repeats: one, unless the seed changes the environment."""
        # As tuples: since Python 3.13 a dataclass that holds NaN is not equal to its like.
        found = {tuple(vars(curve).values()): curve for curve in self.curves.values()}
        return tuple(found.values())

    @property
    def no_optimum(self) -> str:
        """The reason why the row has no one optimum; empty where it has."""
        if self.unfinished:
            return self.unfinished
        reasons = dict.fromkeys(curve.reason for curve in self.distinct if curve.reason)
        return "; ".join(reasons) or ("the seeds differ" if len(self.distinct) > 1 else "")


def key(cell: Mapping[str, Any]) -> ObjectiveKey:
    """The row that a cell belongs to; its label leaves out the parameter along the curve."""
    along = {**cell, "setting": {_parameter(cell): None}}
    label, plain = environment_label(along), environment_words(along)
    return ObjectiveKey(label, cell["estimator"], cell["k"], plain)


def pool(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], *, level: float, alpha: float
) -> Pooled[ObjectiveRow]:
    """One row per key of the planned cells, in their order. Exact: without a level."""
    rows = []
    for found, members in grouped(cells, key).items():
        members.sort(key=lambda cell: int(cell["seed"]))
        finished = [cell for cell in members if cell["id"] in done]
        curves = {cell["seed"]: _curve(Metrics.of(done[cell["id"]])) for cell in finished}
        rows.append(
            ObjectiveRow(
                key=found,
                parameter=_parameter(members[0]),
                cells={cell["seed"]: cell["id"] for cell in members},
                finished=tuple(curves),
                curves=curves,
            )
        )
    return Pooled(tuple(rows))


def estimates(row: ObjectiveRow) -> dict[str, Estimate]:
    """The optimum and the value there; undefined where there is not one of all seeds."""
    reason = row.no_optimum
    found = {}
    for name, part in (("optimum", "optimum"), ("optimum_value", "best")):
        known = undefined(1.0, reason) if reason else exactly(getattr(row.distinct[0], part))
        found[name] = Estimate(known, MEASURES.get(name).unit, MEASURES.get(name).better)
    return found


def _parameter(cell: Mapping[str, Any]) -> str:
    return str(cell.get("objective", {}).get("parameter", ""))


def _curve(metrics: Metrics) -> Curve:
    points, values = tuple(metrics.points), tuple(floats(metrics.values))
    if metrics.optimum is None or metrics.optimum_value is None:
        reason = metrics.undefined.get("optimum", "no optimum")
        return Curve(points, values, math.nan, math.nan, reason)
    return Curve(points, values, metrics.optimum, metrics.optimum_value)
