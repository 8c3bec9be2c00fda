"""A table of a payload, and what the records that did not finish say in it: nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


def setting_path(record: Record) -> str:
    """`arms=8,distance=0.3/`, empty where nothing varies."""
    short = (f"{name.rpartition('.')[2]}={value}" for name, value in setting_of(record).items())
    return f"{','.join(short)}/" if setting_of(record) else ""
