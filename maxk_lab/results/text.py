"""A comparison of two runs as text: at most 25 lines, or every number as CSV or JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import MistakeError, count, shown
from maxk_lab.reports.document import Block, number, sheet
from maxk_lab.reports.formats.data import csv_of_lines, lines_of
from maxk_lab.reports.formats.markdown import written
from maxk_lab.reports.formats.terminal import printed
from maxk_lab.results.compare import VERDICTS, Comparison
from maxk_lab.visible import visible_json

FORMATS = ("terminal", "markdown", "csv", "json")
# The most lines of each part; CSV and JSON have all.
_CHANGES, _NUMBERS, _FINDINGS = 6, 8, 5
_IN_JSON = ("changes", "verdicts", "worse", "missing", "changed", "tests", "alpha")


def comparison_text(
    comparison: Comparison, format: str, *, width: int = 100, colour: bool = False
) -> str:
    """Return the comparison in a format. Raises `LabError` for an unknown format."""
    a, b = comparison.names
    title, numbers = f"maxk-lab: {b} compared with {a}", comparison.numbers
    if format == "terminal":
        return printed(title, _blocks(comparison), width=width, colour=colour)
    if format == "markdown":
        return written(title, list(_blocks(comparison)))
    if format == "csv":
        return csv_of_lines(lines_of(numbers))
    if format == "json":
        parts = {"a": a, "b": b, **{name: getattr(comparison, name) for name in _IN_JSON}}
        parts |= {"findings": lines_of(comparison.findings), "numbers": lines_of(numbers)}
        return visible_json(parts, indent=1) + "\n"
    also = did_you_mean(format, FORMATS)
    raise MistakeError(f"unknown format {shown(format)}{also}; known: {', '.join(FORMATS)}")


def _blocks(comparison: Comparison) -> Iterator[Block]:
    """The differences between the runs, the significant differences of numbers, and counts."""
    numbers, findings = comparison.numbers, lines_of(comparison.findings)
    changes = "; ".join(_first(comparison.changes, _CHANGES)) or "nothing in sweep and versions"
    yield Block(lines=(f"Changed: {changes}.",))
    chosen = numbers[numbers.verdict.isin(VERDICTS[:3])]
    chosen = chosen.sort_values("verdict", key=lambda names: names.map(VERDICTS.index))
    if len(chosen):
        more = len(chosen) - _NUMBERS
        caption = [f"and {more} more: --format csv has every number"] if more > 0 else []
        texts = pd.DataFrame([_texts(line) for line in lines_of(chosen[:_NUMBERS])])
        yield sheet("Significant differences", texts, ("A", "B"), caption)
    if findings:
        states = ("worse", "lost", "redefined", "changed")
        findings.sort(key=lambda line: states.index(line["state"]))
        lines = ["{kind} {name}: {a} -> {b} ({state})".format(**line) for line in findings]
        yield Block("Claims, verdicts and rows", items=tuple(_first(lines, _FINDINGS)))
    yield Block("Counts", lines=tuple(_counts(comparison)))


def _first(lines: Sequence[str], most: int) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], *([f"and {more} more"] if more > 0 else [])]


def _texts(line: dict[str, Any]) -> dict[str, str]:
    ends = {
        run.upper(): "{} [{}, {}]".format(
            *(_number(line[f"{run}{end}"]) for end in ("", "_low", "_high"))
        )
        for run in "ab"
    }
    return {name: str(line[name]) for name in ("verdict", "row", "measure")} | ends


def _number(value: float | None) -> str:
    return number(math.nan if value is None else value)


def _counts(comparison: Comparison) -> Iterator[str]:
    """Yield how many numbers have each verdict, and the correction of the verdicts."""
    counts = [f"{number} {verdict}" for verdict, number in comparison.verdicts.items() if number]
    yield f"Numbers: {', '.join(counts) or 'none, as no row has all results in both runs'}."
    if comparison.tests:
        words = count(comparison.tests, "number")
        yield f"Verdicts are corrected for {words} (Bonferroni, {comparison.alpha:g})."
    reasons = comparison.numbers.reason.value_counts().drop("", errors="ignore")
    for reason, lines in reasons[:2].items():
        yield f"No verdict on {count(lines, 'number')}: {reason}."
