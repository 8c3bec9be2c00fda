"""The training study in a report: final Max@K of every row, its difference to a reference, and what else was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Column, Section, Sheet
from maxk_lab.report.model import Summary
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.answer import answers, reference_words
from maxk_lab.studies.training.columns import (
    BESIDE_METHODS,
    heading,
    interval_column,
    key_columns,
    method_columns,
    record,
    side_by_side,
    status_columns,
)
from maxk_lab.studies.training.ending.sheets import measure_sheets, rules
from maxk_lab.studies.training.notes import training_basis, training_notes
from maxk_lab.studies.training.rows.model import TrainingRow
from maxk_lab.studies.training.rows.names import methods, place_setting, place_words


def training_section(summary: Summary) -> Section:
    """Per environment which row is best at which K, the final Max@K curves and their differences, then the rest; then notes."""
    blocks: list[Block] = []
    for _, found in groupby(
        summary.training, key=lambda row: (row.key.environment, place_setting(row.key.setting))
    ):
        blocks += _sheets(tuple(found), summary)
    notes = training_notes(summary.training)
    if notes:
        blocks.append(Bullets(f"Training without a value ({UNDEFINED})", tuple(notes)))
    return Section("training", tuple(blocks), tuple(record(row) for row in summary.training))


def _sheets(rows: tuple[TrainingRow, ...], summary: Summary) -> list[Block]:
    """Of one environment. Records from before there were other measures have the curves alone, by the columns of every study."""
    where = place_words(rows[0].key.environment, rows[0].key.setting)
    caption = training_basis(rows, summary)
    if not any(row.measures for row in rows):
        return [*_curves(rows, where, caption), *_differences(rows, where, caption)]
    said = tuple(_of_differences(rows)) if any(row.reference for row in rows) else ()
    return [
        *answers(rows, where, caption, said, summary.level),
        *_curves(rows, where, caption),
        *_differences(rows, where, caption),
        *measure_sheets(rows, where, caption, summary),
    ]


def _curves(rows: tuple[TrainingRow, ...], where: str, caption: tuple[str, ...]) -> Iterator[Sheet]:
    """The final value at every K that is kept."""
    keys, chunks = _layout(rows)
    for chunk in chunks or [[]]:
        columns = (*keys, *(interval_column(heading(k), partial(_final, k=k)) for k in chunk))
        yield Sheet(
            f"Max@K after training, {_span(chunk)}: {where}", columns, rows, caption, rules(rows)
        )


def _differences(
    rows: tuple[TrainingRow, ...], where: str, caption: tuple[str, ...]
) -> Iterator[Sheet]:
    """Its difference to the reference at the same K, of the rows that have one."""
    compared = tuple(row for row in rows if row.reference)
    if not compared:
        return
    keys, chunks = _layout(rows, compared)
    measured = any(row.measures for row in rows)
    references = ", ".join(dict.fromkeys(row.reference for row in compared))
    what = reference_words(rows) if measured else f"Difference to {references}"
    for chunk in chunks:
        columns = (*keys, *(interval_column(heading(k), partial(_difference, k=k)) for k in chunk))
        said = (*caption, *_of_differences(rows))
        yield Sheet(f"{what}, {_span(chunk)}: {where}", columns, compared, said, rules(compared))


def _layout(
    rows: Sequence[TrainingRow], shown: Sequence[TrainingRow] = ()
) -> tuple[tuple[Column, ...], list[list[int]]]:
    """The columns that name the rows, `shown` of which are in the table, and the K of each table."""
    ks = sorted({k for row in rows for k in row.ks})
    if any(row.measures for row in rows):
        # What is derived of a row stands in the first table, which is another where rows are compared.
        first = () if any(row.reference for row in rows) else status_columns()
        return (*method_columns(rows), *first), side_by_side(ks, BESIDE_METHODS - len(first) // 2)
    return key_columns(shown or rows), side_by_side(ks)


def _of_differences(rows: Sequence[TrainingRow]) -> Iterator[str]:
    """What the differences are to, by the row where those of one n are not all compared with the same."""
    called = dict(zip((row.key.path for row in rows), methods(rows), strict=True))
    between = "; "
    if not any(row.measures for row in rows):
        called, between = {path: path for path in called}, ", "
    compared = [row for row in rows if row.reference]
    references = dict.fromkeys((row.key.n, row.reference) for row in compared)
    paired = "seed" if len(rows[0].cells) > 1 else "instance"
    named = ", ".join(dict.fromkeys(called[reference] for _, reference in references))
    yield f"Differences: to {named} of the same n, paired by {paired}; positive is better."
    if len({n for n, _ in references}) < len(references):
        for n, reference in references:
            own = [
                called[row.key.path]
                for row in compared
                if (row.key.n, row.reference) == (n, reference)
            ]
            yield f"To {called[reference]}: {between.join(own)}."


def _span(ks: Sequence[int]) -> str:
    return f"K = {', '.join(map(str, ks))}" if ks else "no value yet"


def _final(row: TrainingRow, k: int) -> Interval | None:
    return row.final(k)


def _difference(row: TrainingRow, k: int) -> Interval | None:
    return row.differences.get(k)
