"""The rows of the page's table, and the cells behind each: their seeds, settings and origins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxk_lab.report.document import Section
from maxk_lab.report.formats.html.pack import packed
from maxk_lab.report.model import Origin, Summary
from maxk_lab.report.view.columns import ABOUT, ENDS, Record, fell_back

# Of a longer error its end is shown: the last call and what was raised.
_LETTERS = 4000
# The parts of a cell that are told beside its settings, or for each seed.
_TOLD_ELSEWHERE = ("id", "seed", "setting", "identity_version", "record_version")


def table(section: Section, summary: Summary, columns: Sequence[Mapping[str, Any]]) -> Any:
    """The rows of a section, packed: their values by column, and the cells of each by seed."""
    records = section.records
    names = [name for column in columns for name in _beside(column) if _has(records, name)]
    return {
        "rows": len(records),
        "values": {name: packed([record.get(name) for record in records]) for name in names},
        "fallen": dict(_fallen(records, columns)),
        "undefined": packed([dict(record.get("undefined") or {}) for record in records]),
        "seeds": packed([list(record.get("cells") or ()) for record in records]),
        "cells": [" ".join((record.get("cells") or {}).values()) for record in records],
        "spec": _settings(records, summary.origins),
    }


def cells(sections: Sequence[Section], summary: Summary) -> Any:
    """The records behind all rows, in the order of the cells in the tables."""
    ids = [
        identity
        for section in sections
        for record in section.records
        for identity in (record.get("cells") or {}).values()
    ]
    found = [summary.origins.get(identity) for identity in ids]
    origins = {id(one.provenance): one.provenance for one in found if one is not None}
    places = {key: place for place, key in enumerate(origins)}
    states = _states(summary)
    status = [
        states.get(identity, "missing") if one is None else one.status
        for identity, one in zip(ids, found, strict=True)
    ]
    return {
        "status": packed(status),
        "seconds": packed([_timing(one, "seconds") for one in found]),
        "finished": packed([_timing(one, "finished") for one in found]),
        "error": packed(["" if one is None else one.error[-_LETTERS:] for one in found]),
        "origin": packed([None if one is None else places[id(one.provenance)] for one in found]),
        "origins": list(origins.values()),
    }


def _states(summary: Summary) -> dict[str, str]:
    """The words for cells without a record to use, by their ids."""
    return {
        **{one: f"stale: {summary.because.get(one, '')}".rstrip(": ") for one in summary.stale},
        **dict.fromkeys(summary.missing, "missing"),
        **dict.fromkeys(summary.damaged, "damaged"),
    }


def _timing(origin: Origin | None, name: str) -> float | None:
    value = None if origin is None else origin.timings.get(name)
    if not isinstance(value, int | float):
        return None
    return int(value) if name == "finished" else float(value)


def _settings(records: Sequence[Record], origins: Mapping[str, Origin]) -> dict[str, Any]:
    """The settings of the cells of each row but for their seeds, packed by their keys."""
    found = [_cell(record, origins) for record in records]
    keys = dict.fromkeys(key for cell in found for key in cell if key not in _TOLD_ELSEWHERE)
    return {key: packed([cell.get(key) for cell in found]) for key in keys}


def _cell(record: Record, origins: Mapping[str, Origin]) -> Mapping[str, Any]:
    """Any cell of a row that has a record."""
    ids = (record.get("cells") or {}).values()
    return next((origins[one].cell for one in ids if one in origins), {})


def _beside(column: Mapping[str, Any]) -> Iterator[str]:
    yield column["key"]
    if column["ends"]:
        yield from (column["key"] + end for end in ENDS)


def _has(records: Sequence[Record], name: str) -> bool:
    return any(name in record for record in records)


def _fallen(
    records: Sequence[Record], columns: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, list[int]]]:
    """The rows whose value of a column is about these instances for want of others like them."""
    for column in columns:
        about = column["key"] + ABOUT
        rows = [
            i for i, record in enumerate(records) if fell_back(column["key"], record.get(about))
        ]
        if rows:
            yield column["key"], rows
