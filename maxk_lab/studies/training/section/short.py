"""The one short table of a training study: its methods with their differences and their gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from maxk_lab.report.document import Column, Sheet, breaks_between
from maxk_lab.report.model import Summary
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.columns import (
    difference_column,
    final_column,
    interval_column,
    three,
)
from maxk_lab.studies.training.ending.apart import MARK
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.names import is_pomo
from maxk_lab.studies.training.section.answer.headline import reference_words
from maxk_lab.studies.training.section.answer.place import Place
from maxk_lab.studies.training.section.answer.wording import joined
from maxk_lab.studies.training.section.best import told_at
from maxk_lab.studies.training.section.notes import basis
from maxk_lab.studies.training.told import has_value

# So many rows are seen at one glance.
_MOST = 12


def short_table(places: Sequence[Place], summary: Summary) -> Iterator[Sheet]:
    """The table; none where no row has a value."""
    rows = [row for place in places for row in _of_place(place, len(places))]
    if not rows:
        return
    done = [row for place in places for row in place.known]
    known = {k for place in places for k in place.ks}
    ks = three(sorted(known), done)
    names = {row.key: name for place in places for row, name in _names(place)}
    where = {row.key: place.where for place in places for row in place.rows}
    told = places[0].told
    gaps = any(_gap(row, row.ks[-1]) is not None for row in rows)
    first = [Column("environment", lambda row: where[row.key], lambda row: {})]
    of_differences = (
        *(difference_column(k, f"Δ {places[0].heading(k)}") for k in ks),
        Column("better at K =", partial(told_at, told=told, sign=1), lambda row: {}),
        Column("worse at K =", partial(told_at, told=told, sign=-1), lambda row: {}),
    )
    compared = any(place.compared for place in places)
    columns = (
        *(first if len(places) > 1 else []),
        Column("method", lambda row: names[row.key], lambda row: {}),
        *(of_differences if compared else (final_column(k, done) for k in ks)),
        *([interval_column(_gap_heading(ks), lambda row: _gap(row, row.ks[-1]))] if gaps else []),
    )
    title = "In short" + ("" if len(places) > 1 else f": {places[0].where}")
    breaks = breaks_between([where[row.key] for row in rows])
    caption = tuple(_caption(places, rows, summary))
    yield Sheet(title, columns, tuple(rows), caption, breaks)


def _of_place(place: Place, places: int) -> list[TrainingRow]:
    """The rows of a place that fit: its reference, and those with the highest values."""
    most = max(2, _MOST // places)
    ranked = sorted(place.known, key=lambda row: -row.curve[place.top - 1].value)
    ranked.sort(key=lambda row: row is not place.reference)
    kept = ranked[:most]
    return [row for row in place.known if row in kept]


def _names(place: Place) -> Iterator[tuple[TrainingRow, str]]:
    for row in place.rows:
        reference = " (the reference)" if row is place.reference else ""
        yield row, place.names[row.key] + reference


def _gap_heading(ks: Sequence[int]) -> str:
    return f"gap in %, best of {ks[-1]}"


def _gap(row: TrainingRow, k: int) -> Interval | None:
    found = None if row.measures is None else row.measures.gaps.get(k)
    return found if found is not None and has_value(found) else None


def _meanings(rows: Sequence[TrainingRow]) -> Iterator[str]:
    """The meaning of each estimator, then of each baseline, by the names that the table has."""
    methods = [row.key.method for row in rows if not is_pomo(row)]
    with_baseline = [method for method in methods if method.takes_baseline]
    found = {method.estimator.row.name: method.estimator.row.meaning for method in methods}
    found |= {method.baseline.row.name: method.baseline.row.meaning for method in with_baseline}
    for name, meaning in found.items():
        yield f"{name} ({meaning})"
    if any(map(is_pomo, rows)):
        yield "POMO's loss (reinforce with group_mean)"


def _caption(
    places: Sequence[Place], rows: Sequence[TrainingRow], summary: Summary
) -> Iterator[str]:
    """Lines on what the table rests on, and on intervals beside what is told and beside claims."""
    done = [row for place in places for row in place.known]
    planned = sum(len(place.rows) for place in places)
    first, *others = basis(tuple(done), summary.level)
    yield first
    if len(rows) < len(done):
        yield (
            f"{len(rows)} of {planned} methods: of each environment those with the highest values "
            "at all samples, and the one that they are compared with. The tables below have all."
        )
    references = dict.fromkeys(reference_words(place) for place in places if place.compared)
    if not references:
        lacking = {reference_words(place): place.reference for place in places if place.reference}
        for name, row in lacking.items():
            yield f"Without differences to {name}, which others are compared with: {row.reason}."
        yield f"Intervals: {summary.level:.0%}, each of one value alone."
        yield f"Methods: estimator and baseline: {'; '.join(_meanings(rows))}."
        return
    paired = "instance" if all(row.one_seed for row in done) else "seed"
    yield (
        f"Δ: minus {joined(list(references))}, paired by {paired}; above 0 is better. Intervals: "
        f"{summary.level:.0%}, each of one difference alone."
    )
    if paired == "instance" and any(row.within.bounded for row in done):
        yield (
            "Where too few instances differ to tell a spread, an interval rests on how many they "
            "are and on the range of rewards: it is wide, and can be the same at several K."
        )
    told, asked = places[0].told, sorted({k for place in places for k in place.ks})
    yield (
        f"Better, worse: told of K = {', '.join(map(str, asked))} at a level of {told.alpha:.0%} "
        f"for all {told.comparisons} such differences of the study together (Holm), so an interval "
        "here can leave out 0 where nothing is told."
    )
    yield f"Methods: estimator and baseline: {'; '.join(_meanings(rows))}."
    if summary.claims:
        yield (
            "A claim, which the sweep file states beforehand, is corrected for its own differences "
            "alone: of several its intervals are wider than these, and it can be supported where "
            "this table, which looks at everything, tells nothing."
        )
    if any(row.apart or row.compared_apart for row in rows):
        yield f"{MARK}: rests on a seed that ended far from the others."
    if "Rewards are minus costs: higher is better." in others:
        yield "Rewards are minus costs: higher is better."
