"""The report of a run as a folder of files: Markdown with figures, CSV, JSON and LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from maxk_lab.errors import LabError
from maxk_lab.files import write_atomically
from maxk_lab.report.figures import figures
from maxk_lab.report.formats.catalogue import CATALOGUE
from maxk_lab.report.formats.render import rendered
from maxk_lab.report.model import Summary
from maxk_lab.report.report import Report
from maxk_lab.report.summarise import summarise
from maxk_lab.sweeps.run.records import RunDirectory

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan


def write_report(
    summary: Summary,
    out: Path,
    formats: Sequence[str] | None = None,
    *,
    failed: Callable[[str], None] | None = None,
    left_out: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Write the report to the folder `out` and return the files, figures last.

    A figure that cannot be drawn is missing, as the report says, and told to `failed`; without that
    its error is raised. Of very many figures some are missing, which is said, too, and told to
    `left_out`. `formats` are all that have a file unless given. Raises `LabError` for an unknown
    format and for `terminal`, which is no file; nothing is written then.
    """
    files = {row.name: row.file for row in CATALOGUE if row.file is not None}
    chosen = list(files) if formats is None else [CATALOGUE.get(name).name for name in formats]
    for format in chosen:
        if format not in files:
            raise LabError(
                f"format {format} is not written to a file; choose from {', '.join(files)}"
            )
    undrawn: list[str] = []

    def note(line: str) -> None:
        undrawn.append(line)
        if failed is not None:
            failed(line)

    def note_left_out(line: str) -> None:
        undrawn.append(line)
        left_out(line)

    drawn = figures(
        summary,
        out / "figures",
        failed=None if failed is None else note,
        left_out=note_left_out,
    )
    images = [
        (path.stem.replace("-", " "), f"figures/{path.name}")
        for path in drawn
        if path.suffix == ".png"
    ]
    report = Report(summary, images=images, undrawn=undrawn)
    written = []
    for format in chosen:
        written.append(out / files[format])
        write_atomically(written[-1], rendered(report, format).encode())
    return written + drawn


def write_figures(run: RunDirectory, plan: Plan | None = None) -> list[Path]:
    """Draw the figures of a run into its own report folder, where tracking finds them.

    One that cannot be drawn is left out: nothing is sent in vain for it, and a report tells why.
    """
    out = run.report_path / "figures"
    return figures(summarise(run, plan), out, failed=lambda line: None)
