"""Records of an objective study → rows: the exact objective along one parameter, its maximum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from maxk_lab.estimators.method import Method
from maxk_lab.reports.naming import environment_label, environment_words
from maxk_lab.reports.tables import ExactRow
from maxk_lab.statistics.intervals import Interval, exactly, undefined
from maxk_lab.studies.objective.record import Metrics


@dataclass(frozen=True)
class ObjectiveKey:
    """The point that the seeds of one row share; `words` are those for the environment."""

    environment: str
    estimator: str
    k: int
    parameter: str
    words: str = field(default="", compare=False)

    @property
    def path(self) -> str:
        """`objective/maxk/k8`."""
        return f"objective/{self.estimator}/k{self.k}"

    @property
    def objective(self) -> str:
        """The objective that the estimator is for: `max@8`."""
        return Method.parse(self.estimator, k=self.k).objective.name


@dataclass(frozen=True, kw_only=True)
class ObjectiveRow(ExactRow):
    """One (environment, estimator, K): the curve of each finished seed along a parameter."""

    key: ObjectiveKey

    @property
    def details(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The curve of each seed."""
        parts = {"points", "values", "optimum", "optimum_value"}
        curves = ((seed, curve.model_dump(include=parts)) for seed, curve in self.by_seed.items())
        return {"curves": [{"seed": seed, **curve} for seed, curve in curves]}

    @cached_property
    def distinct(self) -> tuple[Metrics, ...]:
        """The curves without repeats: one, unless the seed changes the environment."""
        found = {curve.model_dump_json(): curve for curve in self.by_seed.values()}
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
    parameter = str(cell.get("objective", {}).get("parameter", ""))
    along = {**cell, "setting": {parameter: None}}
    label, words = environment_label(along), environment_words(along)
    return ObjectiveKey(label, cell["estimator"], cell["k"], parameter, words)


Row = ObjectiveRow


def estimates(row: ObjectiveRow) -> dict[str, Interval]:
    """The optimum and the value there; undefined where there is not one of all seeds."""
    reason = row.no_optimum
    found = {}
    for at, name in enumerate(("optimum", "optimum_value")):
        found[name] = undefined(1.0, reason) if reason else exactly(row.distinct[0].best[at])
    return found
