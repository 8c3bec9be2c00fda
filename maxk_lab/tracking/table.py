"""A table of a payload, and what the records that did not finish say in it: nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxk_lab.report.naming import row_path

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

Metrics = dict[str, float | int | str]


@dataclass(frozen=True)
class PayloadTable:
    """One table: the names of its columns and its lines."""

    columns: Sequence[str]
    lines: Sequence[Sequence[Any]]


def finished(record: Record) -> Mapping[str, Any]:
    """The metrics of a record that is done; empty of any other."""
    return (record.metrics if record.status == "done" else None) or {}


def setting_of(record: Record) -> dict[str, Any]:
    """What the sweep varies, with its values in this record."""
    return dict(record.cell.get("setting", {}))


def setting_names(records: Sequence[Record]) -> list[str]:
    """The settings that any of the records has."""
    return list(dict.fromkeys(name for record in records for name in setting_of(record)))


def record_path(record: Record, first: str) -> str:
    """The name of the record's row, as `row_path` has it; its setting as `arms=8,distance=0.3`."""
    setting = setting_of(record)
    words = ",".join(f"{name.rpartition('.')[2]}={value}" for name, value in setting.items())
    axes = ("estimator", "baseline", "n", "k")
    return row_path(first, words, **{axis: record.cell[axis] for axis in axes})
