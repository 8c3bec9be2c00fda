"""The training study in a report: final Max@K of every row, its difference to a reference, and what else was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Column, Section, Sheet
from maxk_lab.report.measure_sheets import measure_sheets, rules
from maxk_lab.report.model import Summary
from maxk_lab.report.training_columns import interval_column, key_columns, record, side_by_side
from maxk_lab.report.training_model import TrainingRow
from maxk_lab.report.training_names import place_setting, place_words
from maxk_lab.report.training_notes import training_basis, training_notes


def training_section(summary: Summary) -> Section:
    """Sheets per environment: the final Max@K curve and its differences to a reference, then the rest; then notes."""
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
    where = place_words(rows[0].key.environment, rows[0].key.setting)
    caption = training_basis(rows, summary)
    chunks = side_by_side(sorted({k for row in rows for k in row.ks}))
    blocks: list[Block] = [
        Sheet(
            f"Max@K after training, {_span(chunk)}: {where}",
            (*key_columns(rows), *(_final(k) for k in chunk)),
            rows,
            caption,
            rules(rows),
        )
        for chunk in chunks or [[]]
    ]
    compared = tuple(row for row in rows if row.reference)
    references = ", ".join(dict.fromkeys(row.reference for row in compared))
    blocks += [
        Sheet(
            f"Difference to {references}, {_span(chunk)}: {where}",
            (*key_columns(compared), *(_difference(k) for k in chunk)),
            compared,
            (*caption, *_of_differences(compared)),
            rules(compared),
        )
        for chunk in chunks
        if compared
    ]
    return [*blocks, *measure_sheets(rows, where, caption, summary)]


def _of_differences(rows: Sequence[TrainingRow]) -> Iterator[str]:
    """What the differences are to, by the row where those of one n are not all compared with the same."""
    references = dict.fromkeys((row.key.n, row.reference) for row in rows)
    paired = "seed" if len(rows[0].cells) > 1 else "instance"
    named = ", ".join(dict.fromkeys(reference for _, reference in references))
    yield f"Differences: to {named} of the same n, paired by {paired}; positive is better."
    if len({n for n, _ in references}) < len(references):
        for n, reference in references:
            own = [row.key.path for row in rows if (row.key.n, row.reference) == (n, reference)]
            yield f"To {reference}: {', '.join(own)}."


def _span(ks: Sequence[int]) -> str:
    return f"K = {', '.join(map(str, ks))}" if ks else "no value yet"


def _heading(k: int) -> str:
    return "mean (Max@1)" if k == 1 else f"Max@{k}"


def _final(k: int) -> Column:
    return interval_column(_heading(k), lambda row: row.final(k))


def _difference(k: int) -> Column:
    return interval_column(_heading(k), lambda row: row.differences.get(k))
