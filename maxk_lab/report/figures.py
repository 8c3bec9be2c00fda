"""Every figure of a report, drawn where it has something to show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from maxk_lab.errors import first_line
from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.drawing.style import own_style, save, unused
from maxk_lab.report.model import Summary
from maxk_lab.report.parts import FiguresPart
from maxk_lab.sweeps.studies import in_reading_order

# So many of a kind of study: nobody looks at hundreds, and each takes as long as ten rows.
MOST = 32


def pictures(
    summary: Summary,
    *,
    failed: Callable[[str], None] | None = None,
    left_out: Callable[[str], None] = lambda line: None,
) -> Iterator[Picture]:
    """Yield the figures that have something to show, each with a name that no other has.

    One that cannot be drawn is told to `failed`, in a line, and takes no other with it; without
    `failed` the error is raised. Of a kind of study that has very many the first are drawn, which
    `left_out` is told.
    """
    names: list[str] = []
    with own_style():
        for kind in in_reading_order():
            part: FiguresPart = kind.part("figures")
            found = iter(part.figures(summary.studies[kind.name], summary))
            with _told(failed, f"the figures of the {kind.name} study"):
                for number, picture in enumerate(found):
                    if number == MOST:
                        left_out(_left_out(kind.name))
                        break
                    names.append(unused(picture.name, names))
                    yield replace(picture, name=names[-1])


def save_pictures(
    found: Iterable[Picture], out: Path, *, failed: Callable[[str], None] | None = None
) -> Iterator[tuple[Picture, list[Path]]]:
    """Draw each picture into `out` as PNG and SVG, and yield it with its files.

    One that cannot be drawn is told to `failed`; see `pictures`.
    """
    for picture in found:
        files: list[Path] = []
        with _told(failed, f"figure {picture.name}"), own_style():
            files = save(picture.figure, out, picture.name)
        if files:
            yield picture, files


def figures(
    summary: Summary,
    out: Path,
    *,
    failed: Callable[[str], None] | None = None,
    left_out: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Draw the figures that have something to show into `out`, each as PNG and SVG.

    Returns the files. See `pictures` for those that cannot be drawn or are too many.
    """
    found = pictures(summary, failed=failed, left_out=left_out)
    return [path for _, files in save_pictures(found, out, failed=failed) for path in files]


def _left_out(kind: str) -> str:
    return (
        f"the {kind} study has more than {MOST} figures, and the others are not drawn; "
        "a sweep file can name those that matter under `figures`"
    )


@contextmanager
def _told(failed: Callable[[str], None] | None, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # What the system refuses, such as room on the disk, it refuses the whole report.
        if failed is None or isinstance(error, OSError):
            raise
        failed(f"{what} could not be drawn: {type(error).__name__}: {first_line(error)}")
