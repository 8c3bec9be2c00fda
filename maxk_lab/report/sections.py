"""The chapter of a kind of study: its answer, its short table, and its numbers as tables.

The answer is the template of the kind, filled with its facts, as lines of plain text: each is a
sentence `Use: subloo: ...`, whose label ends at the first colon. Below a line `---` stand the notes
of the short table. Each format escapes the lines as it does any other text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from maxk_lab.catalogue import imported
from maxk_lab.report.document import (
    UNDEFINED,
    Block,
    Bullets,
    Chapter,
    Column,
    Section,
    Sheet,
    breaks_between,
    exact,
    label_of,
    marked,
    number,
)
from maxk_lab.report.naming import listed, short_names, spelled
from maxk_lab.report.tables import Estimate, Pooled, PooledRow, axes, grouped, numbers, record
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import MEASURES, described
from maxk_lab.sweeps.studies import StudyRow
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from maxk_lab.report.model import Summary

_AXES = {"estimator": "estimator", "baseline": "baseline", "n": "n", "k": "K", "stage": "stage"}
# So many lines of a short table, and so many rows without a value, are named.
_LINES, _NAMED = 14, 4
# The most columns beside those that name a row.
_WIDEST = 8


def chapter(kind: StudyRow, pooled: Pooled[PooledRow], summary: Summary) -> Chapter:
    """The chapter of a kind whose facts fill its template; without rows, an empty one."""
    ordered = getattr(kind.part("pool"), "sorted_rows", tuple)
    sections = [_section(kind.name, kind.name, ordered(pooled.rows))]
    sections += [_section(kind.name, name, rows) for name, rows in pooled.beside]
    if not pooled.rows:
        return Chapter(tuple(sections))
    facts = kind.part("facts").facts(pooled, summary)
    answer, notes = answer_of(kind, facts)
    undefined = _undefined(kind.name, pooled.rows)
    return Chapter(
        tuple(sections),
        {f"{kind.name}_basis": notes},
        undefined,
        answer=answer,
        short=tuple(_short(facts, notes)),
    )


def _short(facts: Any, notes: Sequence[str]) -> Iterator[Sheet]:
    """The short table of the facts: a column for each field of its lines that any line has."""
    if not facts.table:
        return
    fields = type(facts.table[0]).model_fields
    names = [
        name
        for name in fields
        if any(getattr(line, name) not in (None, "", 0) for line in facts.table)
    ]
    columns = tuple(
        Column(
            fields[name].title or name,
            partial(_field, name),
            lambda line: {},
            numeric=not all(isinstance(getattr(one, name), str) for one in facts.table),
        )
        for name in names
    )
    more = len(facts.table) - _LINES
    left = (f"{more} more methods stand in the tables further down.",) if more > 0 else ()
    yield Sheet(facts.title, columns, tuple(facts.table[:_LINES]), (*left, *notes))


def _field(name: str, line: BaseModel) -> str:
    value = getattr(line, name)
    if value is None:
        return ""
    if isinstance(value, Interval):
        return marked(value)
    return number(value) if isinstance(value, float) else spelled(value)


def _section(kind: str, name: str, rows: Sequence[PooledRow]) -> Section:
    """The rows as tables to read, one for each group of measures, and as records."""
    found = {row.key: numbers(kind, row) for row in rows}
    blocks: list[Block] = []
    for members in grouped(rows, _place).values():
        blocks += _sheets(kind, members, found)
    undefined = _undefined(kind, rows)
    if undefined:
        title = f"{name.capitalize()} without a value ({UNDEFINED})"
        blocks.append(Bullets(title, tuple(undefined)))
    records = tuple(record(kind, row) for row in rows)
    names = dict.fromkeys(column for one in records for column in one)
    known = {column: told for column in names if (told := described(column)) is not None}
    return Section(
        name,
        tuple(blocks),
        records,
        tuple(column for column, told in known.items() if told.first),
        {
            column: told.meaning
            for column, told in known.items()
            if column not in MEASURES.names()  # which say more of themselves
        },
    )


def _place(row: PooledRow) -> tuple[str, Any]:
    return row.key.environment, getattr(row.key, "stage", None)


def _sheets(
    kind: str, rows: Sequence[PooledRow], found: Mapping[Any, Mapping[str, Estimate]]
) -> Iterator[Sheet]:
    """A table for each group of numbers and attributes that these rows have."""
    of_rows = dict.fromkeys(name for row in rows for name in (*row.attributes, *found[row.key]))
    shown = (told for name in of_rows if (told := described(name)) is not None and told.heading)
    groups = grouped(
        (
            told
            for told in shown
            if any(_text(told.name, found, row).strip(UNDEFINED) for row in rows)
        ),
        lambda told: told.group,
    )
    key, same = _key_columns(kind, rows)
    first = rows[0].key
    where = ", ".join([getattr(first, "plain", "") or first.environment, *same])
    shown = (told for name in of_rows if (told := described(name)) is not None and told.heading)
    groups = grouped(
        (
            told
            for told in shown
            if any(_text(told.name, found, row).strip(UNDEFINED) for row in rows)
        ),
        lambda told: told.group,
    )
    key, same = _key_columns(kind, rows)
    first = rows[0].key
    where = ", ".join([getattr(first, "plain", "") or first.environment, *same])
    for group, several in groups.items():
        columns = [
            Column(
                told.heading,
                partial(_text, told.name, found),
                partial(_value, told.name, found),
                numeric=not told.words,
            )
            for told in several
        ]
        having = [row for row in rows if any(column.text(row) for column in columns)]
        sizes = [
            tuple(getattr(row.key, axis, None) for axis in ("setting", "k", "n")) for row in having
        ]
        # Neither repeated for every K, nor on every part of a wide table.
        captions = dict.fromkeys(f"{_pattern(told.heading)}: {told.meaning}." for told in several)
        chunks = -(-len(columns) // _WIDEST)
        size = -(-len(columns) // chunks)
        for first_column in range(0, len(columns), size):
            part = f" ({first_column // size + 1} of {chunks})" if chunks > 1 else ""
            yield Sheet(
                f"{group[:1].upper()}{group[1:]}{part}: {where}",
                (*key, *columns[first_column : first_column + size]),
                tuple(having),
                tuple(captions) if first_column == 0 else (),
                breaks_between(sizes) if len(set(sizes)) < len(sizes) else (),
            )


def _pattern(heading: str) -> str:
    """`K`, of the headings `K = 1` and `K = 2`."""
    return re.sub(r"(\w+) = \d+$", r"\1", heading)


def _key_columns(kind: str, rows: Sequence[PooledRow]) -> tuple[tuple[Column, ...], list[str]]:
    """The columns in which these rows differ, and the words for what is the same in all."""
    places = [axes(kind, row.key) for row in rows]
    names = [name for name in places[0] if name not in ("study", "environment")]
    headings = _AXES | short_names([name for name in names if name not in _AXES])
    columns, same = [], []
    for name in names:
        values = {spelled(place[name]) for place in places}
        if len(values) > 1 or (len(rows) == 1 and name in ("estimator", "baseline")):
            columns.append(
                Column(
                    headings[name],
                    partial(_axis, kind, name),
                    partial(_axis_value, kind, name),
                    numeric=isinstance(places[0][name], int | float),
                )
            )
        elif name in ("estimator", "baseline"):
            same.append(values.pop())
        else:
            same.append(f"{headings[name]} = {values.pop()}")
    if any(not row.all_finished for row in rows):
        columns.append(Column("seeds", _seeds, lambda row: {}))
    return tuple(columns), same


def _seeds(row: PooledRow) -> str:
    return f"{len(row.finished)}/{len(row.cells)}"


def _axis(kind: str, name: str, row: PooledRow) -> str:
    value = axes(kind, row.key)[name]
    return "" if value is None else spelled(value)


def _axis_value(kind: str, name: str, row: PooledRow) -> dict[str, Any]:
    return {name: axes(kind, row.key)[name]}


def _text(name: str, found: Mapping[Any, Mapping[str, Estimate]], row: PooledRow) -> str:
    if name in row.attributes:
        value = row.attributes[name]
        if value is None:
            return UNDEFINED
        if isinstance(value, bool):
            return {"best": {True: "★", False: ""}}.get(name, {True: "yes", False: "no"})[value]
        return number(value) if isinstance(value, float) else spelled(value)
    if name not in found[row.key]:
        return ""
    interval = found[row.key][name].interval
    return exact(interval.value) if interval.exact else marked(interval)


def _value(
    name: str, found: Mapping[Any, Mapping[str, Estimate]], row: PooledRow
) -> dict[str, Any]:
    if name in row.attributes:
        return {name: row.attributes[name]}
    return {name: found[row.key][name].interval.value} if name in found[row.key] else {}


def _undefined(kind: str, rows: Iterable[PooledRow]) -> list[str]:
    """A line for each reason: which numbers of which rows have no value, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        reasons: dict[str, list[str]] = {}
        measured = numbers(kind, row)
        for name, one in measured.items():
            if not one.interval.known:
                reason = row.unfinished or one.interval.reason or "no interval"
                reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            headings = dict.fromkeys(told.heading for n in names if (told := described(n)))
            which = "all" if len(names) == len(measured) else ", ".join(filter(None, headings))
            if which:
                found.setdefault((reason, which), []).append(row.key.path)
    return [
        f"{reason}: {which} of {listed(paths, _NAMED)}" for (reason, which), paths in found.items()
    ]


def answer_of(kind: StudyRow, facts: BaseModel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of the answer and the notes of the short table."""
    path = Path(str(imported(kind.implementation).__file__)).with_name("answer.md.j2")
    template = _environment().from_string(path.read_text(encoding="utf-8"))
    fields = {name: getattr(facts, name) for name in type(facts).model_fields}
    text = template.render(fields)
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


def names(found: Iterable[object], most: int = 3, last: str = "and") -> str:
    """`a, b and 2 more`."""
    every = list(map(str, found))
    shown = every if len(every) <= most else [*every[:most], f"{len(every) - most} more"]
    return f" {last} ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def count(number_of: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number_of} {word}{'' if number_of == 1 else 's'}"


def counts(found: Iterable[Any], most: int = 3) -> str:
    """`subloo in 10, centred in 2`, of things with a name and a count."""
    return names([f"{one.name} in {one.count}" for one in found], most)


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
