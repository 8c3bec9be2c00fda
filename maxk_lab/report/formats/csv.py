"""A report as CSV: one line per row with every column."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from csv import DictWriter
from typing import Any

from maxk_lab.report.report import Report


def csv(report: Report) -> str:
    """One line per row; cell ids are joined by spaces, undefined is empty.

    The sections stand below each other, told apart by `section`: a column that another section does
    not have is empty.
    """
    lines = [
        {"section": section.name} | _flat(record)
        for section in report.sections
        for record in section.records
    ]
    written = io.StringIO()
    writer = DictWriter(written, _columns(lines), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return written.getvalue()


def _columns(lines: list[dict[str, Any]]) -> list[str]:
    """The columns in the order in which they come first."""
    return list(dict.fromkeys(name for line in lines for name in line))


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without the lists and mappings, which a line cannot hold; JSON has them."""
    return {
        name: " ".join(value.values()) if name == "cells" else _defined(value)
        for name, value in record.items()
        if name == "cells" or not isinstance(value, list | dict)
    }


def _defined(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
