"""The panels of a figure: a family of methods in colour in each, all others in grey behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from maxk_lab.report.tables import grouped
from maxk_lab.studies.training.figures.lines import Looks
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import spoken_method
from maxk_lab.studies.training.section.answer.place import Place

# More lines than this in one panel hide each other.
MOST_LINES = 6
# Panels of environments in one figure.
_MOST_PANELS = 6


@dataclass(frozen=True)
class Panel:
    """The rows of a panel, and those that stand grey `behind` them.

    `of` is its place, and `title` says which of its rows these are.
    """

    of: Place
    title: str
    rows: tuple[TrainingRow, ...]
    behind: tuple[TrainingRow, ...] = ()


@dataclass(frozen=True)
class Board:
    """The panels of every figure of some places, and how their lines look.

    `where` is the name of the one place that it is of, empty where each panel has one of its own;
    `suffix` tells its files from those of other boards.
    """

    panels: tuple[Panel, ...]
    looks: Looks
    where: str = ""
    suffix: str = ""

    @property
    def rows(self) -> tuple[TrainingRow, ...]:
        """The rows that some panel has in colour."""
        return tuple(row for panel in self.panels for row in panel.rows)

    def of(self, rows: Sequence[TrainingRow]) -> Board | None:
        """The board with these rows alone; None where no panel has any of them."""
        keys = {row.key for row in rows}
        kept = (
            replace(
                panel,
                rows=tuple(row for row in panel.rows if row.key in keys),
                behind=tuple(row for row in panel.behind if row.key in keys),
            )
            for panel in self.panels
        )
        panels = tuple(panel for panel in kept if panel.rows)
        return replace(self, panels=panels) if panels else None


def boards(places: Sequence[Place]) -> Iterator[Board]:
    """The boards of a study: one of all environments where each is one panel, else one of each."""
    able = [place for place in places if place.known]
    known = [row for place in able for row in place.known]
    references = [place.reference.key for place in able if place.reference is not None]
    looks = Looks(known, references, with_k=all(_fits(place.known) for place in able))
    if len(able) > 1 and all(_fits(place.known) for place in able):
        for first in range(0, len(able), _MOST_PANELS):
            several = able[first : first + _MOST_PANELS]
            panels = tuple(Panel(place, _short(place), place.known) for place in several)
            suffix = f"-{first // _MOST_PANELS + 1}" if len(able) > _MOST_PANELS else ""
            yield Board(panels, looks, suffix=suffix)
        return
    for number, place in enumerate(able, start=1):
        suffix = f"-{number}" if len(able) > 1 else ""
        yield Board(tuple(_families(place)), looks, place.where, suffix)


def _short(place: Place) -> str:
    """The name of a place in at most two short lines."""
    import textwrap

    return "\n".join(textwrap.wrap(place.where, 26, break_long_words=False))


def _fits(rows: Sequence[TrainingRow]) -> bool:
    """Whether these rows are few enough for one panel, and no two of them are of one method."""
    return len(rows) <= MOST_LINES and len(set(map(spoken_method, rows))) == len(rows)


def _families(place: Place) -> Iterator[Panel]:
    """The rows of a place by the K that they are trained for, or by estimator where that is one."""
    rows = place.known
    if _fits(rows):
        yield Panel(place, "", rows)
        return
    several_k = len({row.key.k for row in rows}) > 1
    families = grouped(
        rows, lambda row: f"trained for K = {row.key.k}" if several_k else row.key.estimator
    )
    for title, family in families.items():
        parts = -(-len(family) // MOST_LINES)
        size = -(-len(family) // parts)
        for part in range(parts):
            own = tuple(family[part * size : (part + 1) * size])
            counted = f" ({part + 1} of {parts})" if parts > 1 else ""
            others = tuple(row for row in rows if row not in own)
            yield Panel(place, title + counted, own, others)
