"""A report as JSON: every value of every row; undefined is null, an infinite end the text "inf"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from maxk_lab.report.report import Report
from maxk_lab.visible import visible_json


def json(report: Report) -> str:
    """The report as indented JSON."""
    return visible_json(_mapping(report), indent=1) + "\n"


def together(reports: Sequence[Report]) -> str:
    """Several reports as a list."""
    return f"[{','.join(map(json, reports))}]"


def _mapping(report: Report) -> dict[str, Any]:
    summary, chapters = report.summary, report.chapters.values()
    return {
        "header": asdict(summary.header),
        "counts": asdict(summary.counts),
        **({} if report.view.whole else {"view": report.view.as_dict()}),
        "level": summary.level,
        "alpha": summary.alpha,
        "answer": report.answer,
        **{name: lines for chapter in chapters for name, lines in chapter.basis.items()},
        "claims": [asdict(claim) for claim in summary.claims],
        **{section.name: section.records for section in report.sections},
        "comparisons": [
            {"study": name} | line.as_dict()
            for name, pooled in summary.studies.items()
            for line in pooled.comparisons
        ],
        "undefined": [line for chapter in chapters for line in chapter.undefined],
        "failed": [asdict(failure) for failure in summary.failed],
        "missing": summary.missing,
        "damaged": summary.damaged,
        "stale": summary.stale,
        "stale_because": dict(summary.because),
        "problems": summary.problems,
        **({"changed_since": summary.changed} if summary.changed else {}),
    }
