"""Catalogues of rows: each name has one meaning and one implementation.

This module does not import torch.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint
from operator import attrgetter
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from maxk_lab.errors import LONGEST, LabError, first_line, shown, warn
from maxk_lab.installed import entry_points, package_of
from maxk_lab.removed import removed_row

# The bounds of a setting without bounds of its own: sums of squares of such numbers are still exact
# to many digits.
MOST = 10**9
# The least letters of an abbreviation: `env` for environment.
SHORTEST_BEGINNING = 3


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a catalogue: a name, its meaning in a line, its implementation and its source."""

    name: str
    meaning: str
    implementation: str
    citation: str = ""


RowType = TypeVar("RowType", bound=Row)


class Catalogue(Generic[RowType]):
    """Rows by name: the project's rows, then those of installed packages.

    A package adds a row by an entry point of the group `entry_point_group` that names the row;
    without a group there are no such rows. A broken row is left out with a warning, and its name
    is refused with the reason. `aliases` are names in other projects; a refusal says ours.
    """

    def __init__(
        self,
        kind: str,
        rows: Iterable[RowType],
        entry_point_group: str = "",
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.kind, self._aliases = kind, aliases or {}
        self.entry_point_group = entry_point_group
        self._own = tuple(rows)
        self._left_out: dict[str, str] = {}
        self._points: dict[str, EntryPoint] = {}

    @cached_property
    def _rows(self) -> dict[str, RowType]:
        rows = {row.name: row for row in self._own}
        self._left_out.clear()
        for point in entry_points(self.entry_point_group) if self.entry_point_group else ():
            try:
                row = self._row_of(point)
                if row.name in rows:
                    raise LabError(f"{self.kind} {row.name!r} is already in the catalogue")
                rows[row.name] = row
                self._points[row.name] = point
            except LabError as error:
                reason = f"{self.kind} {point.name!r} of {package_of(point)} is left out: {error}"
                self._left_out[point.name] = reason
                warn(reason)
        return rows

    def _row_of(self, point: EntryPoint) -> RowType:
        """Return the row that an entry point names. Raises `LabError` if it names no row."""
        row = load(point.value.partition("[")[0].strip())  # without the extras in brackets
        kind = self._row_type
        if not isinstance(row, kind) or not isinstance(row.name, str):
            raise LabError(f"{point.value} must be a {kind.__name__} with a name, got {shown(row)}")
        return row

    @property
    def _row_type(self) -> type[RowType]:
        """The nearest common class of all rows of the project."""
        lineage: Iterable[Any] = type(self._own[0]).__mro__ if self._own else (Row,)
        shared = (kind for kind in lineage if all(isinstance(row, kind) for row in self._own))
        return cast(type[RowType], next(shared))

    def __iter__(self) -> Iterator[RowType]:
        return iter(self._rows.values())

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def names(self) -> tuple[str, ...]:
        """Return every name, in catalogue order."""
        return tuple(self._rows)

    def origin(self, name: str) -> EntryPoint | None:
        """Return the entry point that a row is from; None for our own, and for unknown ones."""
        return self._points.get(name) if name in self._rows else None

    def get(self, name: str) -> RowType:
        """Return the row with this name. Raises `LabError` with the nearest name and all others."""
        if name in self._rows:
            return self._rows[name]
        if name in self._left_out:
            raise LabError(self._left_out[name])
        if (advice := removed_row(self.kind, name)) is not None:
            raise LabError(advice)
        if (ours := self.resolved(name)) != name:
            raise LabError(f"{self.kind} {shown(name)} is called {ours} here")
        also = did_you_mean(name, self._rows)
        raise LabError(f"unknown {self.kind} {shown(name)}{also}; known: {', '.join(self._rows)}")

    def resolved(self, name: str) -> str:
        """Return our name for a name in another project, such as `pass@8`."""
        return self._aliases.get(re.sub(r"@\d+$", "@k", name.lower()), name)


def load(path: str, what: str = "") -> Any:
    """Return the object that `package.module:name` names; `what` describes it in an error.

    Raises `LabError` if it does not exist, or if a module of another package raises any exception
    at import.
    """
    module, _, name = path.partition(":")
    try:
        return attrgetter(name)(imported(module))
    except (ImportError, AttributeError, LabError) as error:
        raise LabError(f"cannot load {what}{shown(path)}: {first_line(error)}") from error


def imported(module: str) -> ModuleType:
    """Return a module. Raises `ImportError` if the module, or a module that it imports, is missing.

    Raises `LabError` for any other exception of another package at import; errors of this package
    keep their tracebacks.
    """
    try:
        return import_module(module)
    except (ImportError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if module.partition(".")[0] == __name__.partition(".")[0]:
            raise
        raise LabError(
            f"importing {module} raised {type(error).__name__}: {first_line(error)}"
        ) from error


def did_you_mean(word: object, words: Iterable[str]) -> str:
    """Return " (did you mean X?)" with the nearest of `words`, or "" if none is near.

    Case does not matter, and the beginning of a single word matches it. A value that is no text, or
    a very long text, matches nothing.
    """
    text = word.lower() if isinstance(word, str) and len(word) <= LONGEST else ""
    spellings = {each.lower(): each for each in words}
    begun = [s for s in spellings if len(text) >= SHORTEST_BEGINNING and s.startswith(text)]
    if text in spellings or len(begun) == 1:
        nearest = [text] if text in spellings else begun
    else:
        nearest = difflib.get_close_matches(text, spellings, n=1, cutoff=0.6)
    return f" (did you mean {spellings[nearest[0]]}?)" if nearest else ""
