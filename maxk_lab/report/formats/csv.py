"""A report as CSV: one line per row with every column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maxk_lab.report.model import Summary
from maxk_lab.report.report import Report
from maxk_lab.visible import visible_line

# A spreadsheet takes a text that begins so for a formula, and runs it.
FORMULA = ("=", "+", "-", "@")


def csv(report: Report) -> str:
    """One line per row; cell ids are joined by spaces, undefined is empty.

    A text that a spreadsheet would take for a formula has a `'` before it, which shows it as text.

    The sections stand below each other, told apart by `section`: a column that another section does
    not have is empty.
    """
    return csv_of(
        {"section": section.name}
        | _flat(record)
        | _damaged(record, report.summary)
        | _changed(report.summary)
        for section in report.sections
        for record in section.records
    )


def csv_of(lines: Iterable[Mapping[str, Any]]) -> str:
    """The lines as CSV, each with a column for whatever any of them has."""
    import pandas as pd

    # As objects: else whole numbers become floats where another section leaves the column empty.
    return str(pd.DataFrame(list(lines), dtype=object).to_csv(index=False, lineterminator="\n"))


def _damaged(record: Mapping[str, Any], summary: Summary) -> dict[str, str]:
    """The damaged ones among the cells of a row; nothing in a report without any."""
    if not summary.problems:
        return {}
    return {
        "damaged": " ".join(set(record.get("cells", {}).values()).intersection(summary.damaged))
    }


def _changed(summary: Summary) -> dict[str, str]:
    """The column for what is no more as it was measured; none where all is."""
    return {"changed_since": safe_text("; ".join(summary.changed))} if summary.changed else {}


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without the lists and mappings, which a line cannot hold; JSON has them.

    Of what is undefined the reasons stay.
    """
    flat = {}
    for name, value in record.items():
        if name == "cells":
            flat[name] = " ".join(value.values())
        elif name == "undefined" and value:
            flat[name] = "; ".join(f"{number}: {reason}" for number, reason in value.items())
        elif not isinstance(value, list | dict):
            flat[name] = value
    return {safe_text(name): safe_text(value) for name, value in flat.items()}


def safe_text(value: Any) -> Any:
    """A text on one line that is no formula; anything else as it is."""
    if not isinstance(value, str):
        return value
    line = visible_line(value)
    return f"'{line}" if line.lstrip().startswith(FORMULA) else line
