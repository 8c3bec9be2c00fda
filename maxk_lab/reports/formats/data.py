"""A report as CSV and as JSON, with all values for computation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from maxk_lab.reports.report import Report
from maxk_lab.reports.tables import wide
from maxk_lab.visible import visible_json, visible_line

if TYPE_CHECKING:
    import pandas as pd

# A spreadsheet runs a text with such a beginning as a formula.
FORMULA = ("=", "+", "-", "@")


def csv(report: Report) -> str:
    """Return one line for each row with every number and its ends; an undefined number is empty."""
    table = wide(report.tables)
    if report.columns:
        endings = ("", "_low", "_high", "_about")
        names = [name + ending for name in report.columns for ending in endings]
        table = table[[name for name in names if name in table]]
    return csv_of_lines(lines_of(table))


def csv_of_lines(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return the lines as CSV, with a column for each name in any of them.

    A text that a spreadsheet would run as a formula has a `'` before it.
    """
    import pandas as pd

    safe = [{safe_text(name): safe_text(value) for name, value in line.items()} for line in lines]
    # As objects, because missing values would turn whole numbers into floats.
    return str(pd.DataFrame(safe, dtype=object).to_csv(index=False, lineterminator="\n"))


def lines_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the lines of a table as dicts, None where a value is missing."""
    values = table.astype(object)
    lines = values.where(values.notna(), None).to_dict("records")
    return [{str(name): value for name, value in line.items()} for line in lines]


def safe_text(value: Any) -> Any:
    """Return a text on one line that is no formula; any other value unchanged."""
    if not isinstance(value, str):
        return value
    line = visible_line(value)
    return f"'{line}" if line.lstrip().startswith(FORMULA) else line


def json(report: Report) -> str:
    """Return the report as indented JSON; undefined is null, an infinite end the text "inf"."""
    content = {
        "origin": vars(report.origin),
        **({"selection": report.selection} if report.selection else {}),
        "answer": report.answer,
        "notes": [note for answer in report.answers for note in answer.notes],
        "claims": lines_of(report.tables.claims),
        "estimates": lines_of(report.tables.estimates),
        "comparisons": lines_of(report.tables.comparisons),
        "figures": [figure.name for figure in report.charts],
    }
    return visible_json(content, indent=1) + "\n"
