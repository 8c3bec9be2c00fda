"""Catalogues: a name, its meaning, its parameters and its code, once. Imports no torch."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from maxk_lab.errors import LONGEST, LabError, shortened, shown

# The largest number, and minus the smallest, that a setting may have where it says nothing else:
# sums of squares of such numbers are still exact to many digits.
MOST = 10**9


@dataclass(frozen=True)
class Parameter:
    """A named parameter of a row: its type, default and allowed range or choices.

    A number without `low` or `high` is within `MOST` of zero.

    With `many` its value is a list of such values. An `optional` one came later than the identity
    of cells: at its default a resolved sweep file leaves it out, so that older cells keep their
    ids and seeds, and its reader falls back to the default.
    """

    name: str
    kind: type
    default: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] = ()
    meaning: str = ""
    many: bool = False
    optional: bool = False

    @property
    def type_name(self) -> str:
        """Return the type as a sweep's writer knows it, e.g. `int` or `list of str`."""
        return f"list of {self.kind.__name__}" if self.many else self.kind.__name__

    def parse(self, value: Any) -> Any:
        """Return `value` in this parameter's type. Raises `LabError` that names what is allowed."""
        if not self.many:
            return self._parse_one(value)
        if not isinstance(value, list | tuple):
            one = shortened(str(value), LONGEST)
            hint = f"; write [{one}]" if isinstance(value, self.kind) else ""
            raise LabError(f"{self.name} must be a {self.type_name}, got {shown(value)}{hint}")
        return [self._parse_one(entry) for entry in value]

    def _parse_one(self, value: Any) -> Any:
        if self.kind is bool and not isinstance(value, bool):
            raise LabError(f"{self.name} must be true or false, got {shown(value)}")
        if isinstance(value, bool) and self.kind is not bool:
            raise LabError(f"{self.name} must be of type {self.kind.__name__}, got {shown(value)}")
        try:
            parsed = self.kind(value)
        except (TypeError, ValueError, OverflowError):
            raise LabError(
                f"{self.name} must be of type {self.kind.__name__}, got {shown(value)}"
            ) from None
        if self.kind is int and parsed != value and not isinstance(value, str):
            raise LabError(f"{self.name} must be a whole number, got {shown(value)}")
        if self.kind is str and not isinstance(value, str):
            raise LabError(f"{self.name} must be a text, got {shown(value)}")
        if self.kind is float and not math.isfinite(parsed):
            raise LabError(f"{self.name} must be finite, got {shown(value)}")
        if self.choices and parsed not in self.choices:
            choices = [str(choice) for choice in self.choices]
            also = did_you_mean(str(parsed), choices)
            raise LabError(
                f"{self.name} must be one of {', '.join(choices)}, got {shown(value)}{also}"
            )
        if self.kind in (int, float):
            low = -MOST if self.low is None else self.low
            high = MOST if self.high is None else self.high
            if parsed < low:
                raise LabError(f"{self.name} must be at least {low}, got {shown(value)}")
            if parsed > high:
                raise LabError(f"{self.name} must be at most {high}, got {shown(value)}")
        return parsed


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a catalogue: a name, its meaning in a line, the code behind it and its source."""

    name: str
    meaning: str
    implementation: str
    citation: str = ""


RowType = TypeVar("RowType", bound=Row)


class Catalogue(Generic[RowType]):
    """Rows by name: the project's own, then those of installed packages.

    A package adds a row by an entry point of the group `entry_point_group` that names the row.
    """

    def __init__(self, kind: str, rows: Iterable[RowType], entry_point_group: str) -> None:
        self.kind = kind
        self.entry_point_group = entry_point_group
        self._own = tuple(rows)

    @cached_property
    def _rows(self) -> dict[str, RowType]:
        rows = {row.name: row for row in self._own}
        for point in entry_points(group=self.entry_point_group):
            row = point.load()
            if row.name in rows:
                raise LabError(
                    f"{self.kind} {row.name!r} of {point.value} is already in the catalogue"
                )
            rows[row.name] = row
        return rows

    def __iter__(self) -> Iterator[RowType]:
        return iter(self._rows.values())

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def names(self) -> tuple[str, ...]:
        """Return every name, in catalogue order."""
        return tuple(self._rows)

    def get(self, name: str) -> RowType:
        """Return the row called `name`. Raises `LabError` with the nearest name and all others."""
        if name in self._rows:
            return self._rows[name]
        also = did_you_mean(name, self._rows)
        raise LabError(f"unknown {self.kind} {shown(name)}{also}; known: {', '.join(self._rows)}")


def load(path: str) -> Any:
    """Return the object that `package.module:name` names. Raises `LabError` when there is none."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise LabError(f"cannot load {path!r}: {error}") from error


def did_you_mean(word: object, words: Iterable[str]) -> str:
    """Return " (did you mean X?)" with the one of `words` most like `word`; "" when none is near.

    Nothing is like a value that is no text, or a very long one.
    """
    text = word if isinstance(word, str) and len(word) <= LONGEST else ""
    found = difflib.get_close_matches(text, list(words), n=1, cutoff=0.6)
    return f" (did you mean {found[0]}?)" if found else ""
