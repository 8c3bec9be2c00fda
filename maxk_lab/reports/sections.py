"""The chapter of a kind of study: its answer, its short table, and its numbers as tables.

The answer is the template of the kind, filled with its facts, as lines of plain text: each is a
sentence `Use: subloo: ...`, whose label ends at the first colon. Below a line `---` stand the notes
of the short table. Each format escapes the lines as it does any other text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from importlib import import_module
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from maxk_lab.reports.document import (
    UNDEFINED,
    WITHOUT,
    Block,
    Column,
    breaks_between,
    exact,
    label_of,
    marked,
    number,
    sheet,
)
from maxk_lab.reports.naming import listed, short_names, spelled
from maxk_lab.reports.tables import Estimate, Pooled, PooledRow, axes, grouped, numbers, record
from maxk_lab.reports.view import BESIDE, is_axis
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import described
from maxk_lab.statistics.seeds import SAME
from maxk_lab.sweep_file.studies import StudyRow
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from maxk_lab.reports.model import Summary

_AXES = {"estimator": "estimator", "baseline": "baseline", "n": "n", "k": "K", "stage": "stage"}
# So many lines of a short table, and so many rows without a value, are named.
_LINES, _NAMED = 14, 4
# The most columns beside those that name a row.
_WIDEST = 8
# The end of headings such as `K = 2`, after the K.
_OF_K = re.compile(r"(?<=\w) = \d+$")
# Columns of text.
_WORDS = ("environment", "estimator", "baseline", "cells")


@dataclass(frozen=True)
class Chapter:
    """The answer to one kind of study, its short table, and the notes on what these rest on."""

    answer: tuple[str, ...] = ()
    short: tuple[Block, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A row with its numbers and attributes, and the same as one flat record to compute with."""

    row: PooledRow
    numbers: Mapping[str, Estimate]
    attributes: Mapping[str, Any]
    record: Mapping[str, Any]

    def text(self, name: str) -> str:
        """A column of the row as tables have it; empty where the row has no such column."""
        if name in self.numbers and name not in self.attributes:
            interval = self.numbers[name].interval
            return exact(interval.value) if interval.exact else marked(interval)
        columns = self.attributes if name in self.attributes else self.record
        if name not in columns:
            return ""
        value = columns[name]
        if value is None:
            return UNDEFINED
        if isinstance(value, Mapping):
            return " ".join(map(str, value.values()))
        if isinstance(value, bool):
            return {"best": {True: "★", False: ""}}.get(name, {True: "yes", False: "no"})[value]
        return number(value) if isinstance(value, float) else spelled(value)

    def why_undefined(self, name: str) -> str:
        """Why one of its numbers has no value or no interval."""
        return self.row.unfinished or self.numbers[name].interval.reason or "no interval"


@dataclass(frozen=True)
class Section:
    """Rows of one sort, of which `chosen` columns may be shown alone; without `ruled` no rules."""

    kind: str
    name: str
    lines: tuple[Line, ...]
    chosen: tuple[str, ...] = ()
    ruled: bool = True
    notes: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the section in their order: what CSV has of it."""
        every = {
            name: None
            for line in self.lines
            for name, value in line.record.items()
            if name == "cells" or not isinstance(value, list | dict)
        }
        return tuple(every)

    @cached_property
    def records(self) -> tuple[Mapping[str, Any], ...]:
        """A flat record for each row; of chosen columns with their intervals."""
        if not self.chosen:
            return tuple(line.record for line in self.lines)
        wanted = [name + end for name in self.chosen for end in ("", *BESIDE)]
        return tuple(
            {name: line.record[name] for name in wanted if name in line.record}
            for line in self.lines
        )

    @cached_property
    def undefined(self) -> list[str]:
        """A line for each reason: which numbers of which rows have no value, and why."""
        found: dict[tuple[str, str], list[str]] = {}
        for line in self.lines:
            without = [name for name, one in line.numbers.items() if not one.interval.known]
            for reason, names in grouped(without, line.why_undefined).items():
                headings = dict.fromkeys(told.heading for n in names if (told := described(n)))
                which = ", ".join(filter(None, headings))
                which = "all" if len(names) == len(line.numbers) else which
                if which:
                    found.setdefault((reason, which), []).append(line.row.key.path)
        return [f"{why}: {which} of {listed(on, _NAMED)}" for (why, which), on in found.items()]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The rows as tables to read: one for each place and group of measures, or one chosen."""
        if self.chosen:
            return (self._of_chosen(),)
        places = grouped(
            self.lines,
            lambda line: (line.row.key.environment, getattr(line.row.key, "stage", None)),
        )
        blocks = [one for part in places.values() for one in _sheets(self.kind, part, self.ruled)]
        if self.undefined:
            same = any(line.startswith(SAME) for line in self.undefined)
            what = f" or an interval ({WITHOUT})" if same else ""
            title = f"{self.name.capitalize()} without a value ({UNDEFINED}){what}"
            blocks.append(Block(title, items=tuple(self.undefined)))
        return tuple(blocks)

    def _of_chosen(self) -> Block:
        columns = [Column(one, partial(_chosen, one), one not in _WORDS) for one in self.chosen]
        hidden = [
            name
            for name in filter(is_axis, self.names)
            if name not in self.chosen
            and len({str(line.record.get(name)) for line in self.lines}) > 1
        ]
        more = f"These rows differ in {', '.join(hidden)}, too, which is no column here."
        caption = (*self.notes, *([more] if hidden else []))
        return sheet(f"Chosen columns, {self.name}", columns, self.lines, caption)


def _chosen(name: str, line: Line) -> str:
    value = line.record.get(name)
    return line.text(name) if value is not None and value == value else UNDEFINED


def sections(kind: StudyRow, pooled: Pooled[PooledRow]) -> list[Section]:
    """The rows of a kind of study, and those of other sorts beside them."""
    ordered = getattr(kind.part("pool"), "sorted_rows", tuple)
    found = []
    for name, rows in ((kind.name, ordered(pooled.rows)), *pooled.beside):
        measured = [(row, numbers(kind.name, row)) for row in rows]
        lines = tuple(
            Line(row, its, row.attributes, record(kind.name, row, its)) for row, its in measured
        )
        found.append(Section(kind.name, name, lines))
    return found


def chapter(kind: StudyRow, pooled: Pooled[PooledRow], summary: Summary) -> Chapter:
    """The chapter of a kind whose facts fill its template; without rows, an empty one."""
    if not pooled.rows:
        return Chapter()
    facts = kind.part("facts").facts(pooled, summary)
    answer, notes = answer_of(kind, facts, pooled.rows)
    return Chapter(answer, tuple(_short(facts, notes)), notes)


def _short(facts: Any, notes: Sequence[str]) -> Iterator[Block]:
    """The short table of the facts: a column for each titled field that any of its lines has."""
    if not getattr(facts, "table", ()):
        return
    columns = [
        Column(
            about.title,
            partial(_field, name),
            not all(isinstance(getattr(one, name), str) for one in facts.table),
        )
        for name, about in type(facts.table[0]).model_fields.items()
        if about.title and any(getattr(one, name) not in (None, "", 0) for one in facts.table)
    ]
    more = len(facts.table) - _LINES
    left = (f"{more} more methods stand in the tables further down.",) if more > 0 else ()
    table = sheet(facts.title, columns, facts.table[:_LINES])
    alone = any(text.endswith(WITHOUT) for row in table.rows for text in row)
    same = (f"{WITHOUT} {SAME}.",) if alone else ()
    yield replace(table, caption=(*left, *same, *notes))


def _field(name: str, line: BaseModel) -> str:
    value = getattr(line, name)
    if value is None:
        return ""
    if isinstance(value, Interval):
        return marked(value)
    return number(value) if isinstance(value, float) else spelled(value)


def _sheets(kind: str, lines: Sequence[Line], ruled: bool) -> Iterator[Block]:
    """A table for each group of numbers and attributes that these rows have."""
    names = dict.fromkeys(name for line in lines for name in (*line.attributes, *line.numbers))
    groups = grouped(
        (
            told
            for name in names
            if (told := described(name)) is not None
            and told.heading
            and any(line.text(name).strip(UNDEFINED) for line in lines)
        ),
        lambda told: told.group,
    )
    key, same = _key_columns(kind, lines)
    first = lines[0].row.key
    where = ", ".join([getattr(first, "plain", "") or first.environment, *same])
    for group, several in groups.items():
        having = [line for line in lines if any(line.text(one.name) for one in several)]
        sizes = [
            tuple(getattr(line.row.key, axis, None) for axis in ("setting", "k", "n"))
            for line in having
        ]
        breaks = breaks_between(sizes) if ruled and len(set(sizes)) < len(sizes) else ()
        columns = [
            Column(one.heading, methodcaller("text", one.name), not one.words) for one in several
        ]
        # Neither repeated for every K (`K = 1`, `K = 2`), nor on every part of a wide table.
        captions = dict.fromkeys(f"{_OF_K.sub('', one.heading)}: {one.meaning}." for one in several)
        chunks = -(-len(columns) // _WIDEST)
        size = -(-len(columns) // chunks)
        for part in range(chunks):
            of = f" ({part + 1} of {chunks})" if chunks > 1 else ""
            title = f"{group[:1].upper()}{group[1:]}{of}: {where}"
            of_part = [*key, *columns[part * size : (part + 1) * size]]
            yield sheet(title, of_part, having, () if part else captions, breaks)


def _key_columns(kind: str, lines: Sequence[Line]) -> tuple[list[Column], list[str]]:
    """The columns in which these rows differ, and the words for what is the same in all."""
    places = [axes(kind, line.row.key) for line in lines]
    names = [name for name in places[0] if name not in ("study", "environment")]
    headings = _AXES | short_names([name for name in names if name not in _AXES])
    columns = []
    same = []
    for name in names:
        values = {spelled(place[name]) for place in places}
        if len(values) > 1 or (len(lines) == 1 and name in ("estimator", "baseline")):
            numeric = isinstance(places[0][name], int | float)
            columns.append(Column(headings[name], partial(_axis, name), numeric))
        elif name in ("estimator", "baseline"):
            same.append(values.pop())
        else:
            same.append(f"{headings[name]} = {values.pop()}")
    if any(not line.row.all_finished for line in lines):
        columns.append(Column("seeds", _seeds))
    return columns, same


def _seeds(line: Line) -> str:
    return f"{len(line.row.finished)}/{len(line.row.cells)}"


def _axis(name: str, line: Line) -> str:
    value = line.record.get(name)
    return "" if value is None else spelled(value)


def answer_of(
    kind: StudyRow, facts: BaseModel, rows: Sequence[PooledRow]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of the answer and the notes of the short table.

    Beside the facts a template has the number of `rows` and the names of those `missing` seeds.
    """
    path = Path(str(import_module(kind.implementation).__file__)).with_name("answer.md.j2")
    template = _environment().from_string(path.read_text(encoding="utf-8"))
    fields = {name: getattr(facts, name) for name in type(facts).model_fields}
    missing = [row.key.path for row in rows if not row.all_finished]
    text = template.render(fields, rows=len(rows), missing=missing)
    answer, _, notes = text.partition("\n---")
    return tuple(_lines(answer)), tuple(_lines(notes))


def _lines(text: str) -> Iterator[str]:
    """The sentences: an indented line goes on with the one before; equal labels are said once."""
    sentences = [" ".join(one.split()) for one in re.split(r"\n(?! )", text)]
    by_label = grouped(map(label_of, filter(None, sentences)), lambda one: one[0])
    for label, several in by_label.items():
        rest = [text for _, text in several]
        if label:
            yield f"{label}: {'; '.join(one.removesuffix('.') for one in rest)}."
        else:
            yield from rest


@cache
def _environment() -> Environment:
    found = Environment(
        autoescape=False,  # plain text: each format escapes the lines
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible_line(value) if isinstance(value, str) else value,
    )
    found.filters.update(
        number=number,
        exact=exact,
        times=times,
        names=names,
        count=count,
        counts=counts,
        duration=duration,
    )
    return found


def names(found: Iterable[object], most: int = 3) -> str:
    """`a, b and 2 more`."""
    every = list(map(str, found))
    shown = every if len(every) <= most else [*every[:most], f"{len(every) - most} more"]
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def count(number_of: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number_of} {word}{'' if number_of == 1 else 's'}"


def counts(found: Iterable[Any]) -> str:
    """`subloo in 10, centred in 2`, of things with a name and a count."""
    return names(f"{one.name} in {one.count}" for one in found)


def duration(seconds: float) -> str:
    """`about 20 s`, `about 3 min`, `about 2 h`."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {seconds:.0f} s"


def times(value: float) -> str:
    """`2.4` of a ratio: two significant digits, `26,000` of a large one."""
    digits = 1 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{round(value, digits):,.0f}" if value >= 9.95 else f"{value:.2g}"
