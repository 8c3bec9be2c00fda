"""The answer of a kind of study: its template with its facts, and its short table.

A template has one sentence per line; an indented line continues the sentence before it. A sentence
may begin with a label, as in `Use: subloo`. The notes of the short table follow a line `---`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, StrictUndefined, Template
from pydantic import BaseModel, ConfigDict

from maxk_lab.errors import count
from maxk_lab.reports.document import WITHOUT, Block, compact, exact, marked, number, sheet
from maxk_lab.reports.naming import spelled
from maxk_lab.reports.tables import Pooled, PooledRow, row_estimates
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds import SAME
from maxk_lab.sweep_file.studies import StudyRow
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.reports.report import Origin

# The most lines of a short table.
_LINES = 14


class Answer(NamedTuple):
    """The sentences on a kind of study, its short table, and the notes of the table."""

    sentences: tuple[str, ...] = ()
    table: Block = Block()
    notes: tuple[str, ...] = ()


class Numbers(BaseModel):
    """The facts of a kind without an `answer`: the numbers of each row by name."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    estimates: dict[str, Mapping[str, Interval]]


def answer_of_study(kind: StudyRow, pooled: Pooled[PooledRow], origin: Origin) -> Answer:
    """Return the answer from the facts of the rows; empty without rows."""
    if not pooled.rows:
        return Answer()
    if kind.has("answer"):
        facts = kind.load_module("answer").facts(pooled, origin)
    else:
        done = (row for row in pooled.rows if row.all_finished)
        facts = Numbers(estimates={row.key.path: row_estimates(kind.name, row) for row in done})
    sentences, notes = filled(kind, facts, pooled.rows)
    return Answer(sentences, _short_table(facts, notes), notes)


def filled(
    kind: StudyRow, facts: BaseModel, rows: Sequence[PooledRow]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sentences of the answer, and the notes of the short table.

    The template sees the facts, the number of `rows`, and the names of `missing` rows.
    """
    path = Path(str(kind.load_module("table").__file__)).with_name("answer.md.j2")
    fields = {name: getattr(facts, name) for name in type(facts).model_fields}
    missing = [row.key.path for row in rows if not row.all_finished]
    text = _template(path).render(fields, rows=len(rows), missing=missing)
    answer, _, notes = text.partition("\n---")
    return _sentences(answer), _sentences(notes)


def _sentences(text: str) -> tuple[str, ...]:
    lines = (" ".join(line.split()) for line in re.split(r"\n(?! )", text))
    return tuple(dict.fromkeys(filter(None, lines)))


def _short_table(facts: Any, notes: Sequence[str]) -> Block:
    """Return the short table: a column for each titled field that any line has."""
    import pandas as pd

    lines = getattr(facts, "table", ())
    if not lines:
        return Block()
    fields = {
        field.title: [getattr(line, name) for line in lines]
        for name, field in type(lines[0]).model_fields.items()
        if field.title and any(getattr(line, name) not in (None, "", 0) for line in lines)
    }
    numeric = [name for name, values in fields.items() if not isinstance(values[0], str)]
    texts = pd.DataFrame({name: list(map(_text, values)) for name, values in fields.items()})
    caption = list(notes)
    if texts.map(lambda text: text.endswith(WITHOUT)).to_numpy().any():
        caption.insert(0, f"{WITHOUT}: {SAME}.")
    if len(lines) > _LINES:
        caption.insert(0, f"{len(lines) - _LINES} more methods are in the tables further down.")
    return sheet(facts.title, texts[:_LINES], numeric, caption)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Interval):
        return exact(value.value) if value.exact else marked(value)
    return number(value) if isinstance(value, float) else spelled(value)


@cache
def _template(path: Path) -> Template:
    """Return a compiled template: compiling takes longer than the rest of a small report."""
    return _environment().from_string(path.read_text(encoding="utf-8"))


@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=False,  # Each format escapes the lines.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible_line(value) if isinstance(value, str) else value,
    )
    filters = (number, exact, compact, times, names, count, counts, duration)
    environment.filters |= {function.__name__: function for function in filters}
    return environment


def names(items: Iterable[object], most: int = 3) -> str:
    """Return `a, b and 2 more`."""
    every = list(map(str, items))
    listed = every if len(every) <= most else [*every[:most], f"{len(every) - most} more"]
    return " and ".join(filter(None, (", ".join(listed[:-1]), *listed[-1:])))


def counts(items: Iterable[Any]) -> str:
    """Return `subloo in 10, centred in 2` for items with a name and a count."""
    return names(f"{item.name} in {item.count}" for item in items)


def duration(seconds: float) -> str:
    """Return `about 20 s`, `about 3 min`, `about 2 h`."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {seconds:.0f} s"


def times(ratio: float) -> str:
    """Return `2.40`: three significant digits as in tables; a large ratio is `26,000`."""
    if not 999.5 <= ratio < math.inf:
        return number(ratio)
    return f"{round(ratio, 2 - math.floor(math.log10(ratio))):,.0f}"
