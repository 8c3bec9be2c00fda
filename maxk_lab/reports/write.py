"""The report as a folder of files in every format, with its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from maxk_lab.errors import LabError
from maxk_lab.files import write_atomically
from maxk_lab.reports.drawing import catching, with_charts
from maxk_lab.reports.formats.render import FILES, FOLDER, check_format, rendered
from maxk_lab.reports.report import Report

if TYPE_CHECKING:
    from maxk_lab.reports.charts import Figure


def write_report(
    report: Report,
    out: Path,
    formats: Sequence[str] | None = None,
    *,
    failed: Callable[[str], None] = lambda line: None,
    shown: Callable[[Figure, Sequence[Path]], None] = lambda picture, files: None,
) -> list[Path]:
    """Write the report to the folder `out` and return the files, figures last.

    `formats` are all formats with a file by default. A chart that cannot be drawn is left out;
    `failed` gets a line, which the report has, too. `shown` gets each chart with its files. Raises
    `LabError` for formats without a file; nothing is written then.
    """
    chosen = list(FILES if formats is None else formats)
    for format in chosen:
        check_format(format)
        if format not in FILES:
            choices = ", ".join(FILES)
            raise LabError(f"format {format} is not written to a file; choose from {choices}")
    drawing = with_charts(report)
    undrawn = list(drawing.undrawn)
    drawn: list[tuple[Figure, list[Path]]] = []
    for figure in drawing.charts:
        with catching(undrawn.append, f"figure {figure.name}"):
            drawn.append((figure, figure.write(out / FOLDER)))
            shown(*drawn[-1])
    for line in undrawn:
        failed(line)
    if report.selection:
        undrawn.append("Without figures, which are of the whole run.")
    charts = tuple(figure for figure, _ in drawn)
    report = replace(report, charts=charts, undrawn=tuple(undrawn))
    texts = {out / FILES[format]: rendered(report, format) for format in chosen}
    return [*_written(texts), *(path for _, files in drawn for path in files)]


def _written(texts: Mapping[Path, str]) -> list[Path]:
    for path, text in texts.items():
        write_atomically(path, text.encode())
    return list(texts)


def report_files(report: Report, formats: Sequence[str]) -> dict[str, bytes]:
    """Return the report in these formats without its figures, by the names of the files."""
    return {FILES[format]: rendered(report, format).encode() for format in formats}
