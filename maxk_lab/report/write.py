"""The report of a run as a folder of files: Markdown with figures, CSV, JSON and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maxk_lab.errors import LabError
from maxk_lab.files import write_atomically
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
        write_atomically(path, render(summary, format, images=images).encode())
        written.append(path)
    return written + drawn


def write_figures(run: RunDirectory) -> list[Path]:
    """Draw the figures of a run into its own report folder, where tracking finds them."""
    return figures(summarise(run), run.report_path / "figures")
