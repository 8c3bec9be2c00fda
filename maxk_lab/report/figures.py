"""Every figure of a report, drawn where it has something to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from maxk_lab.errors import first_line
from maxk_lab.report.drawing.style import own_style, save, unused
from maxk_lab.report.model import Summary
from maxk_lab.report.parts import FiguresPart
from maxk_lab.sweeps.studies import in_reading_order

# So many of a kind of study: nobody looks at hundreds, and each takes as long as ten rows.
MOST = 32


def figures(
    summary: Summary,
    out: Path,
    *,
    failed: Callable[[str], None] | None = None,
    left_out: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Draw the figures that have something to show into `out`, each as PNG and SVG.

    Returns the files. One that cannot be drawn is told to `failed`, in a line, and takes no other
    with it; without `failed` the error is raised. Of a kind of study that has very many the first
    are drawn, which `left_out` is told.
    """
    drawn: list[Path] = []
    with own_style():
        for kind in in_reading_order():
            part: FiguresPart = kind.part("figures")
            found = iter(part.figures(summary.studies[kind.name], summary))
            with _told(failed, f"the figures of the {kind.name} study"):
                for number, (name, figure) in enumerate(found):
                    if number == MOST:
                        left_out(_left_out(kind.name))
                        break
                    with _told(failed, f"figure {name}"):
                        drawn += save(figure, out, unused(name, drawn))
    return drawn


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
