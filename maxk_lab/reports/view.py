"""A view of a report: the rows with some cells, in an order, of the columns that are asked for.

It leaves out and moves what a report shows and computes nothing anew: a verdict, a star or a
difference is that of the whole run, whichever rows are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.planning.plan import AXES, select
from maxk_lab.sweep_file.studies import GRID_AXES

if TYPE_CHECKING:
    from maxk_lab.planning.plan import Plan
    from maxk_lab.reports.sections import Section

# What a value with an interval has beside it, under its name with these words.
BESIDE = ("_low", "_high", "_about")
# How much of a row there is: a section is not shown for having these.
HOW_MUCH = ("seeds", "seeds_finished", "complete", "instances", "cells")
# A row has all seeds of its point.
_POOLED = "seed"


@dataclass(frozen=True)
class View:
    """The rows with one of the `cells`, which `where` says in words; of None, all rows.

    They are sorted by a column, the largest first where `descending`; rows without a value come
    last. Of no `columns`, all are shown. A message names these with `dashes` before them.
    """

    where: str = ""
    cells: frozenset[str] | None = None
    sort: str = ""
    descending: bool = False
    columns: tuple[str, ...] = ()
    dashes: str = "--"

    @property
    def whole(self) -> bool:
        """Whether it is all that there is, as it stands."""
        return self.cells is None and not self.sort and not self.columns

    def of(self, sections: Sequence[Section]) -> list[Section]:
        """The sections as they are to be shown, those without a row left out.

        Raises `LabError` for a column that no section has.
        """
        self._check("sort", [self.sort] if self.sort else [], sections)
        self._check("columns", self.columns, sections)
        telling = [name for name in self.columns if not (is_axis(name) or name in HOW_MUCH)]
        wanted = telling or self.columns
        shown_here = [
            self._part(section)
            for section in sections
            if not wanted or any(name in section.names for name in wanted)
        ]
        return [section for section in shown_here if section.lines]

    def _check(self, option: str, names: Iterable[str], sections: Sequence[Section]) -> None:
        columns = list(dict.fromkeys(name for section in sections for name in section.names))
        for name in names:
            if name not in columns:
                raise LabError(
                    f"{self.dashes}{option}: the report of this run has no column {shown(name)}"
                    f"{did_you_mean(name, columns)}; known: "
                    f"{', '.join(each for each in columns if not each.endswith(BESIDE))}"
                )

    def _part(self, section: Section) -> Section:
        lines = [
            line
            for line in section.lines
            if self.cells is None or not self.cells.isdisjoint(line.row.cells.values())
        ]
        if self.sort:
            values = [line.record.get(self.sort) for line in lines]
            pairs = list(zip(values, lines, strict=True))
            there = [pair for pair in pairs if pair[0] is not None and pair[0] == pair[0]]
            numbers = all(isinstance(value, int | float) for value, _ in there)
            rank: Callable[[Any], Any] = float if numbers else str
            there.sort(key=lambda pair: rank(pair[0]), reverse=self.descending)
            without = [pair for pair in pairs if pair[0] is None or pair[0] != pair[0]]
            lines = [line for _, line in (*there, *without)]
        chosen = tuple(name for name in self.columns if name in section.names)
        return replace(section, lines=tuple(lines), chosen=chosen, ruled=not self.sort)

    def lines(self, shown: int, planned: int) -> list[str]:
        """The lines that say how many of the planned rows are shown, and what is of all of them."""
        if self.whole:
            return []
        parts = [f"{shown} of {planned} rows{f', where {self.where}' if self.where else ''}"]
        if self.sort:
            parts.append(f"sorted by {self.sort}{', descending' if self.descending else ''}")
        if self.columns:
            parts.append(f"columns {', '.join(self.columns)}")
        return [
            f"Shown: {'; '.join(parts)}.",
            "Claims, verdicts, stars and corrections are those of the whole run, not of the rows "
            "shown.",
        ]

    def as_dict(self) -> dict[str, Any]:
        """The words that it was asked for with, as JSON has them."""
        return {
            "where": self.where or None,
            "sort": f"{'-' if self.descending else ''}{self.sort}" or None,
            "columns": list(self.columns) or None,
        }


WHOLE = View()


def is_axis(name: str) -> bool:
    """Whether a column tells a row from others: an axis, or a varied key such as policy.seed."""
    parts = name.split(".")
    varied = len(parts) > 1 and all(part.isidentifier() for part in parts)
    return varied or name in (*GRID_AXES, "environment", "stage")


def asked_view(
    plan: Plan,
    *,
    where: str | None = None,
    sort: str | None = None,
    columns: str | None = None,
    dashes: str = "--",
) -> View:
    """The view of a run's report that is asked for; nothing is left out of what is not named.

    `where` is in the language of `run --only`, `sort` a column, the largest first with a `-` before
    it, `columns` are joined by commas. A message names them with these `dashes`. Raises `LabError`
    for what cannot be read, or is no row of this plan. Columns are known with the rows: `View.of`
    looks at them.
    """
    if where is not None and any(
        part.partition("=")[0].strip() == _POOLED for part in where.split(",")
    ):
        raise LabError(
            f"{dashes}where: a row of a report has all its seeds together, and none can be left "
            "out; maxk-lab show has the numbers of one cell"
        )
    axes = tuple(axis for axis in AXES if axis != _POOLED)
    names = () if columns is None else tuple(name.strip() for name in columns.split(","))
    column = "" if sort is None else sort.strip().removeprefix("-")
    if not all(names) or (sort is not None and not column):
        option = "columns" if not all(names) else "sort"
        raise LabError(f"{dashes}{option} must name columns, as in baseline,n,variance")
    return View(
        where=where or "",
        cells=None if where is None else select(plan, where, option=f"{dashes}where", axes=axes),
        sort=column,
        descending=(sort or "").strip().startswith("-"),
        columns=tuple(dict.fromkeys(names)),
        dashes=dashes,
    )
