"""A report as CSV and as JSON: every value of every row, to compute with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from maxk_lab.reports.report import Report
from maxk_lab.visible import visible_json, visible_line

# A spreadsheet takes a text that begins so for a formula, and runs it.
FORMULA = ("=", "+", "-", "@")


def csv(report: Report) -> str:
    """One line per row; cell ids are joined by spaces, undefined is empty.

    A text that a spreadsheet would take for a formula has a `'` before it, which shows it as text.
    The sections stand below each other, distinguished by `section`: a column that another section
    does not have is empty.
    """
    lines = []
    for section in report.sections:
        for record in section.records:
            lines.append({"section": section.name} | _flat(record))
    return csv_of(lines)


def csv_of(lines: Iterable[Mapping[str, Any]]) -> str:
    """The lines as CSV, each with a column for whatever any of them has."""
    import pandas as pd

    # As objects: else whole numbers become floats where another section leaves the column empty.
    return str(pd.DataFrame(list(lines), dtype=object).to_csv(index=False, lineterminator="\n"))


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


def json(report: Report) -> str:
    """The report as indented JSON; undefined is null, an infinite end the text "inf"."""
    summary, studies = report.summary, report.summary.studies
    content: dict[str, Any] = {
        "header": asdict(summary.header),
        "counts": asdict(summary.counts),
        **({} if report.view.whole else {"view": report.view.as_dict()}),
        "level": summary.level,
        "alpha": summary.alpha,
        "answer": report.answer,
        **{f"{name}_basis": report.chapters[name].notes for name in studies if studies[name].rows},
        "claims": [asdict(claim) for claim in summary.claims],
        **{section.name: section.records for section in report.sections},
        "comparisons": [
            {"study": name} | line.as_dict()
            for name, pooled in studies.items()
            for line in pooled.comparisons
        ],
        "undefined": [line for one in report.sections for line in one.undefined],
        "failed": [asdict(failure) for failure in summary.failed],
        "missing": summary.missing,
        "stale": summary.stale,
        **({"changed_since": summary.changed} if summary.changed else {}),
        **({"figures": [one.name for one in report.pictures]} if report.pictures else {}),
    }
    return visible_json(content, indent=1) + "\n"


def together(reports: Sequence[Report]) -> str:
    """Several reports as a list."""
    return f"[{','.join(map(json, reports))}]"
