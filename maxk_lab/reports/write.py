"""The charts of a report, and the report as a folder of files in every format."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from maxk_lab.errors import LabError, first_line
from maxk_lab.files import write_atomically
from maxk_lab.reports.formats.render import (
    FILES,
    FOLDER,
    TOGETHER,
    check_format,
    rendered,
    rendered_together,
)
from maxk_lab.reports.model import Summary
from maxk_lab.reports.report import Report
from maxk_lab.reports.view import WHOLE, View
from maxk_lab.sweep_file.studies import in_reading_order

if TYPE_CHECKING:
    from maxk_lab.reports.charts import Figure


def figures(
    summary: Summary, more: Collection[str] = (), *, failed: Callable[[str], None] | None = None
) -> Iterator[Figure]:
    """Yield the charts that have something to show, each with a name that no other has.

    `more` names those to be made beside the usual ones. One that fails is told to `failed`, in a
    line, and takes no other kind of study with it; without `failed` the error is raised.
    """
    names: list[str] = []
    for kind in in_reading_order():
        part = kind.part("charts")
        with told(failed, f"the figures of the {kind.name} study"):
            for figure in part.charts(summary.studies[kind.name], summary, more):
                safe = re.sub(r"[^\w.-]", "-", figure.name)
                numbered = (f"{safe}-{number}" for number in count(2))
                names.append(next(one for one in chain([safe], numbered) if one not in names))
                yield replace(figure, name=names[-1])


@contextmanager
def told(failed: Callable[[str], None] | None, what: str) -> Iterator[None]:
    """Tell `failed` of an error within, or raise it where there is none to tell."""
    try:
        yield
    except Exception as error:
        # What the system refuses, such as room on the disk, it refuses the whole report.
        if failed is None or isinstance(error, OSError):
            raise
        failed(f"{what} could not be drawn: {type(error).__name__}: {first_line(error)}")


def write_report(
    summary: Summary,
    out: Path,
    formats: Sequence[str] | None = None,
    *,
    view: View = WHOLE,
    failed: Callable[[str], None] = lambda line: None,
    more: Collection[str] = (),
    shown: Callable[[Figure, Sequence[Path]], None] = lambda picture, files: None,
) -> list[Path]:
    """Write the report to the folder `out` and return the files, figures last.

    A figure that cannot be drawn is missing, as the report says, and told to `failed`. `more` names
    charts that are made on request. A `view` of a part has no figures: they are of the whole run.
    `formats` are all that have a file unless given. Raises `LabError` for an unknown format and for
    `terminal`, which is no file, and for a column of the view that there is not; nothing is written
    then.
    """
    chosen = list(FILES if formats is None else formats)
    for format in chosen:
        check_format(format)
        if format not in FILES:
            choices = ", ".join(FILES)
            raise LabError(f"format {format} is not written to a file; choose from {choices}")
    undrawn: list[str] = []

    def note(line: str) -> None:
        undrawn.append(line)
        failed(line)

    drawn: list[tuple[Figure, list[Path]]] = []
    if view.whole:
        for figure in figures(summary, more, failed=note):
            with told(note, f"figure {figure.name}"):
                drawn.append((figure, figure.write(out / FOLDER)))
                shown(*drawn[-1])
    else:
        undrawn.append("Without figures, which are of the whole run.")
    report = Report(summary, pictures=[figure for figure, _ in drawn], undrawn=undrawn, view=view)
    texts = {out / FILES[format]: rendered(report, format) for format in chosen}
    return [*_written(texts), *(path for _, files in drawn for path in files)]


def write_together(reports: Sequence[Report], out: Path) -> list[Path]:
    """Write the formats that can show several runs side by side to `out`; return the files."""
    texts = {out / FILES[format]: rendered_together(reports, format) for format in TOGETHER}
    return _written(texts)


def _written(texts: Mapping[Path, str]) -> list[Path]:
    for path, text in texts.items():
        write_atomically(path, text.encode())
    return list(texts)


def report_files(summary: Summary, formats: Sequence[str]) -> dict[str, bytes]:
    """Return the report in these formats without its figures, by the names of the files."""
    report = Report(summary)
    return {FILES[format]: rendered(report, format).encode() for format in formats}
