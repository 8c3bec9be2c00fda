"""Parts of a payload that every kind of study has: tables, names of rows and of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from maxk_lab.fields import Recorded
from maxk_lab.report.naming import row_path

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

Metrics = dict[str, float | int | str]
Kind = TypeVar("Kind", bound=Recorded)
# The names of a mean and of the ends of its interval.
ENDS = ("value", "low", "high")


@dataclass(frozen=True)
class PayloadTable:
    """One table: the names of its columns and its lines."""

    columns: Sequence[str]
    lines: Sequence[Sequence[Any]]


def finished(record: Record, kind: type[Kind]) -> Kind | None:
    """The content of a record that is done; None for any other."""
    return kind.of(record) if record.status == "done" else None


def told(path: str, record: Record, values: Mapping[str, Any]) -> Metrics:
    """The status of the record and every value that is there, each under its path."""
    return {f"{path}/status": record.status} | {
        f"{path}/{name}": value for name, value in values.items() if value is not None
    }


def setting_of(record: Record) -> dict[str, Any]:
    """The settings that the sweep varies, with their values in this record."""
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
