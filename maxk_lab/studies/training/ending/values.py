"""The end of a training besides Max@K as one list of named values, for tables, JSON and notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.ending.ways import EXTRAS, SAMPLED, heading
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.told import columns as ends_of


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
    costs = row.measures.trajectories
    for at, found in row.measures.gaps.items():
        name, words = (
            (_name("gap", at, row), heading(at, costs.get(at)))
            if isinstance(at, str)
            else (f"gap@{at}", f"K = {at}")
        )
        yield Value("gap", name, words, found)
    if set(row.measures.ways) != {SAMPLED}:
        for way, found in row.measures.ways.items():
            name = _name("max" if way not in EXTRAS else "extra", way, row)
            yield Value("decoding", name, heading(way, costs.get(way)), found)
        for way, found in row.by_way.items():
            yield Value("by_way", f"difference_{way}", heading(way, costs.get(way)), found)
    for name, found in row.measures.quantiles.items():
        yield Value("sample", f"sample_{name}", name, found)
    if row.robust is not None:
        yield Value("robust", "iqm", "IQM", row.robust.iqm)
        if row.robust.improvement is not None:
            yield Value("robust", "improvement", "P(better)", row.robust.improvement)
        for name, found in row.robust.quantiles.items():
            yield Value("robust", f"instance_{name}", name, found)


def _name(kind: str, way: str, row: TrainingRow) -> str:
    """`gap_greedy`, `extra_greedy`, and with the K of their samples `max@64_T=1.5`."""
    return f"{kind}_{way}" if way in EXTRAS else f"{kind}@{row.ks[-1]}_{way}"


def measured(row: TrainingRow) -> dict[str, Any]:
    """All of them for code: value and ends, the subject of the robust ones, and the optimum."""
    if row.measures is None:
        return {}
    optimum = row.measures.optimum
    flat: dict[str, Any] = {"optimum": optimum.kind, "optimum_exact": optimum.exact}
    flat["robust_of"] = None if row.robust is None else row.robust.of
    for value in values(row):
        flat |= ends_of(value.interval, value.name)
    return flat | _at_its_best(row)


def _at_its_best(row: TrainingRow) -> dict[str, Any]:
    """The row at its own best temperature at every K, and in its own best way."""
    flat: dict[str, Any] = {}
    if (own := row.tempered) is not None:
        for k in own.ks:
            flat[f"own_temperature@{k}"] = {s: each.chosen[k] for s, each in own.by_seed.items()}
            flat |= ends_of(own.curve[k - 1], f"own_temperature_max@{k}")
            if k in own.differences:
                flat |= ends_of(own.differences[k], f"own_temperature_difference@{k}")
    if (own := row.own_way) is not None:
        flat["own_way"] = {s: each.chosen[1] for s, each in own.by_seed.items()}
        flat |= ends_of(own.curve[0], "own_way_reward")
        if own.measures is not None and 1 in own.measures.gaps:
            flat |= ends_of(own.measures.gaps[1], "own_way_gap")
        if 1 in own.differences:
            flat |= ends_of(own.differences[1], "own_way_difference")
    return flat


def without_value(row: TrainingRow) -> Iterator[tuple[str, str]]:
    """(reason, which) of every value or interval that the row should have and has not."""
    if row.measures is None:
        return
    if row.measures.optimum.kind == "none":
        yield row.measures.optimum.reason, "optimality gap"
    words = {
        "gap": "optimality gap, ",
        "by_way": "difference, ",
        "sample": "of the samples, ",
        "robust": "of the instances, ",
    }
    for value in values(row):
        if not value.interval.known:
            yield value.interval.reason or "no interval", words.get(value.group, "") + value.heading
