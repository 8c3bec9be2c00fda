"""Records of the objective study → rows: the exact objective along one parameter, and where it is largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maxk_lab.estimators.method import Method
from maxk_lab.report.naming import environment_label, row_path

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record


@dataclass(frozen=True)
class ObjectiveKey:
    """What the seeds of one row share."""

    environment: str
    estimator: str
    k: int

    @property
    def path(self) -> str:
        """`objective/maxk/k8`; see `row_path`."""
        return row_path("objective", "", estimator=self.estimator, k=self.k)

    @property
    def objective(self) -> str:
        """What the estimator is for: `max@8`."""
        return Method.parse(self.estimator, k=self.k).objective.name


@dataclass(frozen=True)
class Curve:
    """The objective of one seed: its exact `values` at the `points`, NaN where undefined, and its maximum.

    `optimum` is the parameter at the maximum and `best` the objective there; both NaN, with the `reason`, where there is none.
    """

    points: tuple[float, ...]
    values: tuple[float, ...]
    optimum: float
    best: float
    reason: str = ""


@dataclass(frozen=True)
class ObjectiveRow:
    """One (environment, estimator, K): the curve of each finished seed; `parameter` is what runs along it."""

    key: ObjectiveKey
    parameter: str
    cells: Mapping[int, str]
    curves: Mapping[int, Curve] = field(default_factory=dict, repr=False)

    @property
    def finished(self) -> tuple[int, ...]:
        """The seeds that have a result."""
        return tuple(self.curves)

    @property
    def complete(self) -> bool:
        """Every planned seed finished."""
        return len(self.curves) == len(self.cells)

    @property
    def distinct(self) -> tuple[Curve, ...]:
        """The curves without repeats: one, unless the seed changes the environment."""
        return tuple(dict.fromkeys(self.curves.values()))


def objective_key(cell: Mapping[str, Any]) -> ObjectiveKey:
    """The row that a cell of the objective study belongs to; its label leaves out what runs along the curve."""
    along = cell.get("objective", {}).get("parameter", "")
    return ObjectiveKey(
        environment_label({**cell, "setting": {along: None}}), cell["estimator"], cell["k"]
    )


def objective_rows(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record]
) -> list[ObjectiveRow]:
    """One row per (environment, estimator, K) of the planned cells, in their order."""
    grouped: dict[ObjectiveKey, list[Mapping[str, Any]]] = {}
    for cell in cells:
        grouped.setdefault(objective_key(cell), []).append(cell)
    return [
        _row(key, sorted(members, key=lambda cell: int(cell["seed"])), done)
        for key, members in grouped.items()
    ]


def _row(
    key: ObjectiveKey, cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record]
) -> ObjectiveRow:
    return ObjectiveRow(
        key=key,
        parameter=cells[0].get("objective", {}).get("parameter", ""),
        cells={cell["seed"]: cell["id"] for cell in cells},
        curves={
            cell["seed"]: _curve(done[cell["id"]].metrics or {})
            for cell in cells
            if cell["id"] in done
        },
    )


def _curve(metrics: Mapping[str, Any]) -> Curve:
    optimum, best = metrics["optimum"], metrics["optimum_value"]
    missing = optimum is None or best is None
    undefined: Mapping[str, str] = metrics.get("undefined", {})
    return Curve(
        points=tuple(metrics["points"]),
        values=tuple(float("nan") if value is None else value for value in metrics["values"]),
        optimum=float("nan") if missing else optimum,
        best=float("nan") if missing else best,
        reason=undefined.get("optimum", "no optimum") if missing else "",
    )
