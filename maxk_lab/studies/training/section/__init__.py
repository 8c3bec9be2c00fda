"""The training study in a report: the final Max@K of every row, its differences, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Chapter, Column, Section, Sheet
from maxk_lab.report.model import Summary
from maxk_lab.report.rows import Rows, grouped
from maxk_lab.studies.training.columns import (
    BESIDE_METHODS,
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
from maxk_lab.studies.training.row.settings import place_setting, place_words
from maxk_lab.studies.training.section.answer import answers, difference_title
from maxk_lab.studies.training.section.decoding import own_best_sheets
from maxk_lab.studies.training.section.notes import basis, undefined_lines


def chapter(found: Rows[TrainingRow], summary: Summary) -> Chapter:
    """The best rows, final curves, differences and the rest of each environment; then notes."""
    rows = found.rows
    places = grouped(rows, lambda row: (row.key.environment, place_setting(row.key.setting)))
    blocks = [block for members in places.values() for block in _sheets(tuple(members), summary)]
    apart = apart_lines(rows)
    if apart:
        blocks.append(Bullets(f"Seeds that ended apart ({MARK})", tuple(apart)))
    undefined = undefined_lines(rows)
    if undefined:
        title = f"Training without a value, or without an interval ({UNDEFINED})"
        blocks.append(Bullets(title, tuple(undefined)))
    return Chapter(
        (Section("training", tuple(blocks), tuple(map(record, rows))),),
        {"training_basis": basis(rows, summary.level) if rows else ()},
        undefined,
    )


def _sheets(rows: tuple[TrainingRow, ...], summary: Summary) -> Iterator[Block]:
    """All sheets of the rows of one environment."""
    where = place_words(rows[0].key.environment, rows[0].key.setting)
    caption = basis(rows, summary.level)
    compared = are_compared(rows)
    said = (*caption, *_of_differences(rows)) if compared else caption
    yield from answers(rows, where, said, summary.level)
    yield from _curves(rows, where, caption)
    if compared:
        yield from _differences(rows, where, said)
    yield from own_best_sheets(rows, where, said)
    yield from measure_sheets(rows, where, caption, summary.level)


def _curves(rows: tuple[TrainingRow, ...], where: str, caption: tuple[str, ...]) -> Iterator[Sheet]:
    """The final value at every K that is kept."""
    keys, chunks = _layout(rows)
    for chunk in chunks or [[]]:
        columns = (
            *keys,
            *map(final_column, chunk),
        )
        title = f"Max@K after training, {_span(chunk)}: {where}"
        yield Sheet(title, columns, rows, caption, breaks(rows))


def _differences(
    rows: tuple[TrainingRow, ...], where: str, caption: tuple[str, ...]
) -> Iterator[Sheet]:
    """The differences at the same K, of the rows that are compared with another."""
    compared = tuple(row for row in rows if row.compared_with)
    keys, chunks = _layout(rows)
    for chunk in chunks:
        columns = (
            *keys,
            *(difference_column(k, heading(k)) for k in chunk),
        )
        title = f"{difference_title(rows)}, {_span(chunk)}: {where}"
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
