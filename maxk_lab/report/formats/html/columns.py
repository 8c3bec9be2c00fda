"""The columns of the page's table: heading, definition, and whether a reader sees them at first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.report.document import Column, Section, Sheet
from maxk_lab.report.naming import short_names
from maxk_lab.report.view.columns import ABOUT, ENDS, HOW_MUCH, Record, is_axis, names_of
from maxk_lab.statistics.measures import MEASURES

# So many columns of numbers are seen at first where a section does not say which.
_FIRST = 6
_SHARED = {
    "environment": "where the trajectories come from, with the sizes that tell it from others",
    "stage": "the steps of training after which the policy was frozen and measured",
    "estimator": "the way in which a gradient is made of the rewards of a group",
    "baseline": "the number that is subtracted from each reward, which lowers the variance",
    "n": "the trajectories (rollouts) that are sampled for each instance or prompt",
    "k": "Max@K counts the best of K trajectories: K = 1 is the mean reward",
    "seeds": "the seeds that are planned for the row",
    "seeds_finished": "those of them that have a result",
    "complete": "whether all of them have: no mean is made of fewer",
    "instances": "the problems, prompts or states that every seed is measured on",
}
_HEADINGS = {"k": "K", "seeds_finished": "seeds finished"}


def columns(sections: Sequence[Section], chosen: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The columns of sections of one name, of several runs: what `page.js` makes its table of.

    `ends` says that a value has an interval, `first` that the column is seen at first. Of columns
    that are `chosen` all are, in their order.
    """
    records = [record for section in sections for record in section.records]
    known = dict.fromkeys(n for section in sections for n in names_of(section))
    names = [n for n in chosen if n in known and n != "cells"] or _without_beside(known)
    told = _told(sections)
    places = {n for n in names if (is_axis(n) if chosen else _is_place(n, records))}
    first = set(chosen) or _first(sections, names, records)
    short = short_names([name for name in names if "." in name and is_axis(name)])
    return [
        {
            "key": name,
            "heading": _heading(name, told.get(name, ""), short),
            "kind": _kind(record.get(name) for record in records),
            "ends": any(name + ENDS[0] in record for record in records),
            "axis": name in places,
            "first": name in first,
            **(_definition(name, sections) or _setting(name, places)),
        }
        for name in names
    ]


def definitions_of_names(sections: Iterable[Section]) -> dict[str, dict[str, Any]]:
    """The rows of the catalogues behind the estimators and baselines: formula, meaning, source."""
    choose = {"estimator": choose_estimator, "baseline": choose_baseline}
    found: dict[str, dict[str, Any]] = {axis: {} for axis in choose}
    for section in sections:
        for record in section.records:
            for axis in choose:
                name = record.get(axis)
                if isinstance(name, str) and name not in found[axis]:
                    found[axis][name] = _of_name(choose[axis], name)
    return found


def _of_name(choose: Any, name: str) -> dict[str, str]:
    try:
        row = choose(name).row
    except LabError:  # of a package that is not installed here
        return {}
    return {"meaning": row.meaning, "formula": row.formula, "source": row.citation}


def _without_beside(names: Mapping[str, None]) -> list[str]:
    beside = {name + end for name in names for end in (*ENDS, ABOUT)}
    return [name for name in names if name not in beside and name != "cells"]


def _told(sections: Sequence[Section]) -> dict[str, str]:
    """The heading of a value, by its name, as the tables of the report have it."""
    found: dict[str, str] = {}
    for section in sections:
        for sheet in (block for block in section.blocks if isinstance(block, Sheet)):
            for column in sheet.columns:
                name = _name_of(column, sheet.rows)
                found.setdefault(name, column.heading)
    return found


def _name_of(column: Column, rows: Iterable[Any]) -> str:
    """The name of the first value of a column, from the first row that has it."""
    for row in rows:
        with suppress(KeyError, AttributeError):  # of a row in which it was not measured
            if names := tuple(column.values(row)):
                return names[0]
    return ""


def _definition(name: str, sections: Sequence[Section]) -> dict[str, str]:
    """The meaning as the section has it, else as the table of measures, else as all sections."""
    own = next(filter(None, (_fitting(name, section.meanings) for section in sections)), "")
    if own or name not in MEASURES.names():
        return {"meaning": told} if (told := own or _SHARED.get(name, "")) else {}
    row = MEASURES.get(name)
    parts = {
        "formula": row.meaning,
        "unit": "" if row.unit == "1" else row.unit,
        "better": row.better,
        "about": row.question,
        "source": row.citation or row.implementation,
    }
    return {key: value for key, value in parts.items() if value}


def _setting(name: str, places: Collection[str]) -> dict[str, str]:
    """The words for what a sweep varies, which the reader has named."""
    return {"meaning": f"{name}, a setting that the sweep varies"} if name in places else {}


def _fitting(name: str, meanings: Mapping[str, str]) -> str:
    """The meaning of the first pattern that a name fits."""
    return meanings.get(name) or next(
        (words for key, words in meanings.items() if fnmatchcase(name, key)), ""
    )


def _is_place(name: str, records: Sequence[Record]) -> bool:
    """Whether a column says which row it is: an axis of the grid, or what the sweep varies."""
    if is_axis(name):
        return True
    order = list(records[0]) if records else []
    return name in order and "estimator" in order and order.index(name) < order.index("estimator")


def _first(
    sections: Sequence[Section], names: Sequence[str], records: Sequence[Record]
) -> set[str]:
    """The axes on which rows differ, and the numbers that the sections name, or their first."""
    axes = {
        name
        for name in names
        if _is_place(name, records) and len({repr(record.get(name)) for record in records}) > 1
    }
    asked = {name for section in sections for name in section.first if name in names}
    others = [name for name in names if not _is_place(name, records) and name not in HOW_MUCH]
    lacking = any(record.get("complete") is False for record in records)
    return axes | (asked or set(others[:_FIRST])) | ({"seeds_finished"} if lacking else set())


def _kind(values: Iterable[Any]) -> str:
    """`flag`, `whole`, `number` or `text`: what all values are, but for those that are not there.

    Infinite ends are numbers.
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool}:
        return "flag" if kinds else "number"
    if kinds <= {int}:
        return "whole"
    return "number" if kinds <= {int, float} else "text"


def _heading(name: str, told: str, short: Mapping[str, str]) -> str:
    """The heading in a table of the report where it is of this value alone, or its name."""
    words = short.get(name, name).replace("_", " ")
    # Such as `derived`, of which `derived_unbiased` is a yes or no.
    longer = told and words.startswith(f"{told} ")
    return _HEADINGS.get(name) or (words if longer else told) or words
