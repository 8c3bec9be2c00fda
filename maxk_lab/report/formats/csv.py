"""A report as CSV: one line per row with every column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxk_lab.report.report import Report


def csv(report: Report) -> str:
    """One line per row; cell ids are joined by spaces, undefined is empty.

    The sections stand below each other, told apart by `section`: a column that another section does
    not have is empty.
    """
    import pandas as pd

    lines = [
        {"section": section.name} | _flat(record)
        for section in report.sections
        for record in section.records
    ]
    # As objects: else whole numbers become floats where another section leaves the column empty.
    return str(pd.DataFrame(lines, dtype=object).to_csv(index=False, lineterminator="\n"))


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without the lists and mappings, which a line cannot hold; JSON has them."""
    return {
        name: " ".join(value.values()) if name == "cells" else value
        for name, value in record.items()
        if name == "cells" or not isinstance(value, list | dict)
    }
