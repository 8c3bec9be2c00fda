"""Every chart of a report, made where it has something to show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from maxk_lab.errors import first_line
from maxk_lab.report.model import Summary
from maxk_lab.report.parts import ChartsPart
from maxk_lab.sweeps.studies import in_reading_order

if TYPE_CHECKING:
    from maxk_lab.report.charts import Figure


def figures(
    summary: Summary, more: Collection[str] = (), *, failed: Callable[[str], None] | None = None
) -> Iterator[Figure]:
    """Yield the charts that have something to show, each with a name that no other has.

    `more` names those to be made beside the usual ones. One that fails is told to `failed`, in a
    line, and takes no other kind of study with it; without `failed` the error is raised.
    """
    names: list[str] = []
    for kind in in_reading_order():
        part: ChartsPart = kind.part("charts")
        with told(failed, f"the figures of the {kind.name} study"):
            for figure in part.charts(summary.studies[kind.name], summary, more):
                names.append(_unused(figure.name, names))
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


def _unused(name: str, taken: Collection[str]) -> str:
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    numbered = (safe, *(f"{safe}-{number}" for number in range(2, 1000)))
    return next(each for each in numbered if each not in taken)
