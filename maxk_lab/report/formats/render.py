"""A summary in one of the report's formats, all from the same columns."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.report.document import Section, document
from maxk_lab.report.formats.latex import latex
from maxk_lab.report.formats.markdown import markdown
from maxk_lab.report.formats.terminal import terminal
from maxk_lab.report.model import Summary
from maxk_lab.studies.gradient.proxies import proxy_section
from maxk_lab.studies.gradient.section import basis, gradient_section, undefined_notes
from maxk_lab.studies.objective.section import objective_notes, objective_section
from maxk_lab.studies.training.notes import training_basis, training_notes
from maxk_lab.studies.training.section import training_section
from maxk_lab.studies.weights.section import weights_notes, weights_section

# Lists within a record, which a line of CSV cannot hold; JSON has them.
_NESTED = ("evaluations", "curves", "groups")
FORMATS = ("terminal", "markdown", "csv", "json", "latex")


def sections(summary: Summary) -> list[Section]:
    """The studies of a summary, in reading order. A new kind of study adds its section here."""
    studies = (
        objective_section(summary),
        weights_section(summary),
        gradient_section(summary),
        proxy_section(summary),
        training_section(summary),
    )
    return [section for section in studies if section.records]


def render(
    summary: Summary,
    format: str,
    *,
    colour: bool = False,
    width: int = 100,
    images: Sequence[tuple[str, str]] = (),
) -> str:
    """`summary` as text in one of `FORMATS`; `colour` and `width` are the terminal's, `images` Markdown's.

    Raises `LabError` for any other format.
    """
    check_format(format)
    title = f"maxk-lab: {summary.header.name}"
    if format == "csv":
        return _csv(summary)
    if format == "json":
        return (
            json.dumps(_json_safe(as_dict(summary)), indent=1, ensure_ascii=False, allow_nan=False)
            + "\n"
        )
    blocks = document(summary, sections(summary))
    if format == "terminal":
        return terminal(title, blocks, colour=colour, width=width)
    if format == "markdown":
        return markdown(title, blocks, images=images)
    return latex(title, blocks)


def check_format(format: str) -> None:
    """Raise `LabError` unless `format` is one of `FORMATS`."""
    if format == "html":
        raise LabError(f"format html is not implemented yet; use one of {', '.join(FORMATS)}")
    if format not in FORMATS:
        also = did_you_mean(format, FORMATS)
        raise LabError(f"unknown format {format!r}{also}; known: {', '.join(FORMATS)}")


def as_dict(summary: Summary) -> dict[str, Any]:
    """The whole summary as plain values; in JSON undefined is null and an infinite end the text "inf"."""
    return {
        "header": asdict(summary.header),
        "level": summary.level,
        "alpha": summary.alpha,
        "basis": basis(summary.rows, summary) if summary.rows else (),
        "training_basis": training_basis(summary.training, summary) if summary.training else (),
        "claims": [asdict(claim) for claim in summary.claims],
        **{section.name: section.records for section in sections(summary)},
        "undefined": [
            *undefined_notes(summary.rows),
            *training_notes(summary.training),
            *objective_notes(summary.objectives),
            *weights_notes(summary.weights),
        ],
        "failed": [asdict(failure) for failure in summary.failed],
        "missing": summary.missing,
        "stale": summary.stale,
        "problems": summary.problems,
    }


def _csv(summary: Summary) -> str:
    """One line per row with every column; cell ids are joined by spaces, undefined is empty.

    The studies stand below each other, told apart by `section`: a column that another study does not have is empty.
    """
    import pandas as pd

    lines = [
        {"section": section.name}
        | {
            name: " ".join(value.values()) if name == "cells" else value
            for name, value in record.items()
            if name not in ("undefined", *_NESTED)
        }
        for section in sections(summary)
        for record in section.records
    ]
    # As objects: else whole numbers become floats where another study leaves the column empty.
    return str(pd.DataFrame(lines, dtype=object).to_csv(index=False, lineterminator="\n"))


def _json_safe(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _json_safe(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_safe(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
