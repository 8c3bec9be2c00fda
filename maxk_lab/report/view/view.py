"""A view of a report: the rows with some cells, in an order, of the columns that are asked for.

It leaves out and moves what a report shows and computes nothing anew: a verdict, a star or a
difference is that of the whole run, whichever rows are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

from maxk_lab.report.document import Block, Section, Sheet
from maxk_lab.report.view.columns import Record, check_names, has_any, sheet_of

Item = TypeVar("Item")
# The cells of a row, which no other row has.
_Ids = tuple[str, ...]


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

    def of(
        self, sections: Sequence[Section], captions: Mapping[str, Sequence[str]]
    ) -> list[Section]:
        """The sections as they are to be shown, those without a row left out.

        `captions` are lines below a table of chosen columns, by the name of the section. Raises
        `LabError` for a column that no section has.
        """
        if self.whole:
            return list(sections)
        check_names(f"{self.dashes}sort", [self.sort] if self.sort else [], sections)
        check_names(f"{self.dashes}columns", self.columns, sections)
        found = [one for one in sections if not self.columns or has_any(one, self.columns)]
        kept = [self._section(one, captions.get(one.name, ())) for one in found]
        return [section for section in kept if section.records]

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

    def _section(self, section: Section, caption: Sequence[str]) -> Section:
        records = tuple(self._sorted(filter(self._holds, section.records), lambda one: one))
        if self.columns:
            return sheet_of(section, records, self.columns, caption)
        of_cells = {_ids(record): record for record in section.records}
        blocks = (self._block(block, of_cells) for block in section.blocks)
        return replace(section, records=records, blocks=tuple(filter(None, blocks)))

    def _block(self, block: Block, of_cells: Mapping[_Ids, Record]) -> Block | None:
        """The block with the rows to show; None for a table without any.

        A table whose rows are not those of the report, as one that names the best of several, is
        left as it is, or out where only some rows are to be shown.
        """
        if not isinstance(block, Sheet):
            return block
        records = [of_cells.get(_ids({"cells": getattr(row, "cells", {})})) for row in block.rows]
        if None in records:
            return block if self.cells is None else None
        numbered = [(i, record) for i, record in enumerate(records) if record is not None]
        kept = [(i, record) for i, record in numbered if self._holds(record)]
        numbers = [i for i, _ in self._sorted(kept, lambda one: one[1])]
        breaks = () if self.sort else tuple(_breaks(numbers, block.breaks))
        rows = tuple(block.rows[i] for i in numbers)
        return replace(block, rows=rows, breaks=breaks) if rows else None

    def _holds(self, record: Record) -> bool:
        return self.cells is None or not self.cells.isdisjoint(_ids(record))

    def _sorted(self, items: Iterable[Item], record: Callable[[Item], Record]) -> list[Item]:
        pairs = [(record(item).get(self.sort), item) for item in items]
        if not self.sort:
            return [item for _, item in pairs]
        known = [pair for pair in pairs if pair[0] is not None and pair[0] == pair[0]]
        unknown = [item for value, item in pairs if value is None or value != value]
        numbers = all(isinstance(value, int | float) for value, _ in known)
        rank: Callable[[Any], Any] = float if numbers else str
        known.sort(key=lambda pair: rank(pair[0]), reverse=self.descending)
        return [*(item for _, item in known), *unknown]


def _ids(record: Record) -> _Ids:
    return tuple(record.get("cells", {}).values())


def _breaks(kept: Sequence[int], breaks: Sequence[int]) -> Iterator[int]:
    """The rules between the rows that are kept, where there was one between these two."""
    for place, (before, here) in enumerate(pairwise(kept), 1):
        if any(before < one <= here for one in breaks):
            yield place


WHOLE = View()
