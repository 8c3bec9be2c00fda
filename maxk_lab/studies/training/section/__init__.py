"""The training study in a report: its answer and short table, and all of its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.report.document import (
    UNDEFINED,
    Block,
    Bullets,
    Chapter,
    Column,
    Paragraph,
    Section,
    Sheet,
)
from maxk_lab.report.model import Summary
from maxk_lab.report.tables import Pooled, grouped
from maxk_lab.studies.training.columns import (
    BESIDE_METHODS,
    at,
    difference_column,
    final_column,
    heading,
    method_columns,
    record,
    side_by_side,
    status_columns,
)
from maxk_lab.studies.training.ending.apart import MARK, apart_lines
from maxk_lab.studies.training.ending.sheets import breaks, measure_sheets
from maxk_lab.studies.training.row.comparison import are_compared
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import by_path
from maxk_lab.studies.training.row.settings import place_words
from maxk_lab.studies.training.section.answer import answer
from maxk_lab.studies.training.section.answer.place import Place, environment_of, places_of
from maxk_lab.studies.training.section.best import against, best_lists, difference_title
from maxk_lab.studies.training.section.decoding import own_best_sheets
from maxk_lab.studies.training.section.meanings import MEANINGS, first
from maxk_lab.studies.training.section.notes import basis, undefined_lines
from maxk_lab.studies.training.section.short import short_table


def chapter(found: Pooled[TrainingRow], summary: Summary) -> Chapter:
    """The answer and its table; then final curves, differences and the rest of each environment."""
    rows = found.rows
    places = places_of(rows, summary.level)
    blocks = list(_sheets(rows, places, summary))
    apart = apart_lines(rows)
    if apart:
        blocks.append(Bullets(f"Seeds that ended apart ({MARK})", tuple(apart)))
    undefined = undefined_lines(rows)
    if undefined:
        title = f"Training without a value, or without an interval ({UNDEFINED})"
        blocks.append(Bullets(title, tuple(undefined)))
    return Chapter(
        (Section("training", tuple(blocks), tuple(map(record, rows)), first(rows), MEANINGS),),
        answer=answer(places, summary.level, claims=bool(summary.claims)),
        short=tuple(short_table(places, summary)),
        basis={"training_basis": basis(rows, summary.level) if rows else ()},
        undefined=undefined,
    )


def _sheets(
    rows: tuple[TrainingRow, ...], places: Sequence[Place], summary: Summary
) -> Iterator[Block]:
    """The words that all tables share, once, and the tables of every environment."""
    # Lists and tables are of all n of an environment.
    found = grouped(rows, environment_of)
    shared = {key: basis(tuple(members), summary.level) for key, members in found.items()}
    one = len(set(shared.values())) == 1
    for number, (key, listed) in enumerate(found.items()):
        members = tuple(listed)
        where = place_words(members[0].key.environment, members[0].key.setting)
        if not (one and number):
            title = "Of all tables below" + ("" if one else f": {where}")
            yield Paragraph(shared[key], title)
        yield from best_lists(members, where, summary.level, len(places))
        yield from _curves(members, where)
        if are_compared(members):
            yield against(members, where, places[0].told, summary.level)
            yield from _differences(members, where)
        yield from own_best_sheets(members, where)
        yield from measure_sheets(members, where, summary.level)


def _curves(rows: tuple[TrainingRow, ...], where: str) -> Iterator[Sheet]:
    """The final value at every K that is kept."""
    keys, chunks = _layout(rows)
    for chunk in chunks or [[]]:
        columns = (*keys, *(final_column(k, rows) for k in chunk))
        title = f"{at('K', rows)} after training, {_span(chunk)}: {where}"
        yield Sheet(title, columns, rows, (), breaks(rows))


def _differences(rows: tuple[TrainingRow, ...], where: str) -> Iterator[Sheet]:
    """The differences at the same K, of the rows that are compared with another."""
    compared = tuple(row for row in rows if row.compared_with)
    keys, chunks = _layout(rows)
    for number, chunk in enumerate(chunks):
        columns = (*keys, *(difference_column(k, heading(k, rows)) for k in chunk))
        title = f"{difference_title(rows)}, {_span(chunk)}: {where}"
        caption = () if number else tuple(_of_differences(rows))
        yield Sheet(title, columns, compared, caption, breaks(compared))


def _layout(rows: Sequence[TrainingRow]) -> tuple[tuple[Column, ...], list[list[int]]]:
    """The columns that name the rows, and the K of each table."""
    # The words derived of a row stand in the first table, which is another where rows are compared.
    first = () if are_compared(rows) else status_columns()
    ks = sorted({k for row in rows for k in row.ks})
    return (*method_columns(rows), *first), side_by_side(ks, BESIDE_METHODS - len(first) // 2)


def _of_differences(rows: Sequence[TrainingRow]) -> Iterator[str]:
    """The row that each is compared with, listed where those of one n have not all the same."""
    called = by_path(rows)
    compared = [row for row in rows if row.compared_with]
    pairs = dict.fromkeys((row.key.n, row.compared_with) for row in compared)
    paired = "seed" if len(rows[0].cells) > 1 else "instance"
    named = ", ".join(dict.fromkeys(called[other] for _, other in pairs))
    yield f"Differences: to {named} of the same n, paired by {paired}; positive is better."
    if len({n for n, _ in pairs}) < len(pairs):
        for n, other in pairs:
            own = [
                called[row.key.path]
                for row in compared
                if (row.key.n, row.compared_with) == (n, other)
            ]
            yield f"To {called[other]}: {'; '.join(own)}."


def _span(ks: Sequence[int]) -> str:
    return f"K = {', '.join(map(str, ks))}" if ks else "no value yet"
