"""The end of a training besides Max@K as one list of named values, for tables, JSON and notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.ending.measures import EXTRAS
from maxk_lab.studies.training.row.model import TrainingRow


@dataclass(frozen=True)
class Value:
    """One value of a row: its `group`, its name in JSON, its heading in tables and notes."""

    group: str
    name: str
    heading: str
    interval: Interval


def values(row: TrainingRow) -> Iterator[Value]:
    """Every such value of the row, in reading order; none unless all seeds finished."""
    if row.measures is None:
        return
    for at, found in row.measures.gaps.items():
        name, heading = (
            (f"gap_{at}", EXTRAS[at]) if isinstance(at, str) else (f"gap@{at}", f"K = {at}")
        )
        yield Value("gap", name, heading, found)
    for name, found in row.measures.extras.items():
        yield Value("extra", f"extra_{name}", EXTRAS[name], found)
    for name, found in row.measures.quantiles.items():
        yield Value("sample", f"sample_{name}", name, found)
    if row.robust is not None:
        yield Value("robust", "iqm", "IQM", row.robust.iqm)
        if row.robust.improvement is not None:
            yield Value("robust", "improvement", "P(better)", row.robust.improvement)
        for name, found in row.robust.quantiles.items():
            yield Value("robust", f"instance_{name}", name, found)


def measured(row: TrainingRow) -> dict[str, Any]:
    """All of them for code: value and ends, the subject of the robust ones, and the optimum."""
    if row.measures is None:
        return {}
    optimum = row.measures.optimum
    flat: dict[str, Any] = {"optimum": optimum.kind, "optimum_exact": optimum.exact}
    flat["robust_of"] = None if row.robust is None else row.robust.of
    for value in values(row):
        flat |= value.interval.columns(value.name)
    return flat


def without_value(row: TrainingRow) -> Iterator[tuple[str, str]]:
    """(reason, which) of every value that the row should have and has not."""
    if row.measures is None:
        return
    if row.measures.optimum.kind == "none":
        yield row.measures.optimum.reason, "optimality gap"
    words = {
        "gap": "optimality gap, ",
        "sample": "of the samples, ",
        "robust": "of the instances, ",
    }
    for value in values(row):
        if not value.interval.known:
            yield value.interval.reason or "no interval", words.get(value.group, "") + value.heading
