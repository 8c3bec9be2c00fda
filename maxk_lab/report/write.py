"""The report of a run as a folder of files: Markdown with figures, CSV, JSON and LaTeX."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from maxk_lab.errors import LabError
from maxk_lab.report.figures import figures
from maxk_lab.report.formats.render import check_format, render
from maxk_lab.report.model import Summary
from maxk_lab.report.summarise import summarise
from maxk_lab.sweeps.run.records import RunDirectory

FILES = {"markdown": "report.md", "csv": "table.csv", "json": "report.json", "latex": "table.tex"}


def write_report(summary: Summary, out: Path, formats: Sequence[str] = tuple(FILES)) -> list[Path]:
    """Write the report to the folder `out` in the given formats and return the files, figures last.

    Raises `LabError` for an unknown format and for `terminal`, which is no file; nothing is written then.
    """
    for format in formats:
        check_format(format)
        if format not in FILES:
            raise LabError(
                f"format {format} is not written to a file; choose from {', '.join(FILES)}"
            )
    drawn = figures(summary, out / "figures")
    images = [
        (path.stem.replace("-", " "), f"figures/{path.name}")
        for path in drawn
        if path.suffix == ".png"
    ]
    written = []
    for format in formats:
        path = out / FILES[format]
        _replace(path, render(summary, format, images=images))
        written.append(path)
    return written + drawn


def write_figures(run: RunDirectory) -> list[Path]:
    """Draw the figures of a run into its own report folder, where tracking finds them."""
    return figures(summarise(run), run.report_path / "figures")


def _replace(path: Path, text: str) -> None:
    """Write whole or not at all, so that a reader never sees half a report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
