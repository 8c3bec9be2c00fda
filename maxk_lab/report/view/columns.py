"""The columns that a view chooses: their names, and one table of them for each section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.report.document import UNDEFINED, Column, Section, Sheet, number
from maxk_lab.report.naming import spelled
from maxk_lab.statistics.errors import LIKE_THESE, THESE
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.sweeps.studies import GRID_AXES

Record = Mapping[str, Any]
# What a value with an interval has beside it, under its name with these words.
ENDS = ("_low", "_high")
ABOUT = "_about"
# What tells rows apart besides the axes of a grid, and how much of a row there is: a section is
# not shown for having these.
_PLACE = ("environment", "stage")
HOW_MUCH = ("seeds", "seeds_finished", "complete", "instances", "cells")
# Columns of text.
_WORDS = ("environment", "estimator", "baseline", "cells")
FALLEN_BACK = "†"


def check_names(option: str, names: Iterable[str], sections: Sequence[Section]) -> None:
    """Raise `LabError` for a name that is a column of none of the sections."""
    known = list(dict.fromkeys(name for section in sections for name in names_of(section)))
    for name in names:
        if name not in known:
            told = [each for each in known if not each.endswith((*ENDS, ABOUT))]
            raise LabError(
                f"{option}: the report of this run has no column {shown(name)}"
                f"{did_you_mean(name, known)}; known: {', '.join(told)}"
            )


def has_any(section: Section, columns: Sequence[str]) -> bool:
    """Whether the section has one of the columns that say more than which row it is."""
    own = names_of(section)
    telling = [name for name in columns if not is_axis(name) and name not in HOW_MUCH]
    return any(name in own for name in telling or columns)


def sheet_of(
    section: Section, records: Sequence[Record], columns: Sequence[str], caption: Sequence[str]
) -> Section:
    """The section with these records alone, as one table of the columns that it has."""
    chosen = [name for name in columns if name in names_of(section)]
    sheet = Sheet(
        f"Chosen columns, {section.name}",
        tuple(map(_column, chosen)),
        tuple(records),
        (*caption, *_not_told_apart(records, chosen)),
    )
    kept = tuple(
        {key: one[key] for n in chosen for key in _beside(n) if key in one} for one in records
    )
    return Section(section.name, (sheet,), kept, meanings=section.meanings)


def _not_told_apart(records: Sequence[Record], columns: Sequence[str]) -> Iterator[str]:
    """The line on what tells these rows apart and is none of the columns."""
    names = dict.fromkeys(name for record in records for name in record if is_axis(name))
    differing = [name for name in names if len({str(one.get(name)) for one in records}) > 1]
    hidden = [name for name in differing if name not in columns]
    if hidden:
        yield f"These rows differ in {', '.join(hidden)}, too, which is no column here."


def names_of(section: Section) -> dict[str, None]:
    """The columns of a section in their order: what CSV has of it."""
    return dict.fromkeys(
        name
        for record in section.records
        for name, value in record.items()
        if name == "cells" or not isinstance(value, list | dict)
    )


def is_axis(name: str) -> bool:
    """Whether a column tells a row from others: an axis, or a varied key such as policy.seed."""
    parts = name.split(".")
    varied = len(parts) > 1 and all(part.isidentifier() for part in parts)
    return varied or name in (*GRID_AXES, *_PLACE)


def fell_back(name: str, about: Any) -> bool:
    """Whether a number is about these instances for want of others like them."""
    asked = MEASURES.get(name).question if name in MEASURES.names() else LIKE_THESE
    return bool(about == THESE != asked)


def _beside(name: str) -> tuple[str, ...]:
    """The value with its interval and what that is about, without which it is not printed."""
    return name, *(name + end for end in ENDS), name + ABOUT


def _column(name: str) -> Column:
    return Column(name, partial(_text, name), lambda row: {}, numeric=name not in _WORDS)


def _text(name: str, record: Record) -> str:
    value, low, high, about = (record.get(key) for key in _beside(name))
    if isinstance(value, Mapping):
        return " ".join(map(str, value.values()))
    if value is None or value != value:
        return UNDEFINED
    if isinstance(value, bool) or not isinstance(value, float):
        return spelled(value)
    if name + ENDS[0] not in record:
        return number(value)
    ends = (UNDEFINED if end is None else number(end) for end in (low, high))
    mark = f" {FALLEN_BACK}" if fell_back(name, about) else ""
    return f"{number(value)} [{', '.join(ends)}]{mark}"
