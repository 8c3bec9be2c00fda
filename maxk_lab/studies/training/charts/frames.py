"""The rows of a training study as the table that its charts are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from maxk_lab.report.charts import Table
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds.over_seeds import over_seeds
from maxk_lab.studies.training.pairs import seed_pairs, spoken_method, trained_for
from maxk_lab.studies.training.places import Place, places_of
from maxk_lab.studies.training.row import UNBIASED, TrainingRow

LOG = "log/"


def estimates(rows: Sequence[TrainingRow], level: float) -> Table:
    """One line per row, measure, K and step that has a value, in the order of the report.

    The measures are `max` and `gap` (in per cent) at the end of training, `difference` of `max` to
    the reference, paired by seed, and all of them by K; with a step `max` and `difference` during
    training; and those of the training batches by their names below `log/`.
    """
    return pd.DataFrame(
        [
            _line(place, row) | told | {"level": level}
            for place in places_of(rows, level)
            for row in place.known
            for told in _measures(row, place.rows, level)
        ]
    )


def _line(place: Place, row: TrainingRow) -> dict[str, Any]:
    reference = row is place.reference
    return {
        "place": place.where,
        "row": row.key.path,
        "reference": reference,
        "against": "" if place.reference is None else place.names[place.reference.key],
        "method": spoken_method(row),
        "k_train": row.key.k,
        "named": f"{spoken_method(row)}{trained_for(row)}",
        "estimator": row.key.estimator,
        "broken": row.derived != UNBIASED,
        "passes": row.passes,
        "costs": all(value.value < 0 for value in row.curve),
        "seeds": len(row.cells),
    }


def _measures(
    row: TrainingRow, rows: Sequence[TrainingRow], level: float
) -> Iterator[dict[str, Any]]:
    gaps = {} if row.measures is None else row.measures.gaps
    ends = {
        "max": dict(enumerate(row.curve, start=1)),
        "difference": row.differences,
        "gap": {k: gap for k, gap in gaps.items() if isinstance(k, int)},
    }
    for name, by_k in ends.items():
        for k, found in by_k.items():
            yield from _told(name, found, at_k=k)
    other = next((other for other in rows if other.key.path == row.compared_with), None)
    for number, evaluation in enumerate(row.evaluations):
        when = {name: getattr(evaluation, name) for name in ("step", "rollouts", "seconds")}
        for k, found in evaluation.values.items():
            yield from _told("max", found, at_k=k, **when)
            if other is not None:
                yield from _told("difference", _apart(row, other, number, k, level), at_k=k, **when)
    for name, log in row.log.items():
        for rollouts, value, low, high in zip(*vars(log).values(), strict=True):
            yield from _told(LOG + name, Interval(value, low, high, level), rollouts=rollouts)


def _apart(row: TrainingRow, other: TrainingRow, number: int, k: int, level: float) -> Interval:
    """The difference during training, paired by seed; without an interval where there is one."""
    nothing = Interval(math.nan, math.nan, math.nan, level)
    same = [evaluation.rollouts for evaluation in row.evaluations] == [
        evaluation.rollouts for evaluation in other.evaluations
    ]
    if not same or set(row.by_seed) != set(other.by_seed):
        return nothing
    pairs = [
        (mine.during[number].get(k), theirs.during[number].get(k))
        for mine, theirs in seed_pairs(row, other)
    ]
    values = [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]
    if len(values) < len(pairs):
        return nothing
    if len(values) == 1:
        return Interval(values[0], math.nan, math.nan, level)
    return over_seeds(values, level, row.within.of_differences)


def _told(name: str, found: Interval, **when: Any) -> Iterator[dict[str, Any]]:
    if math.isfinite(found.value):
        ends = {"low": found.low, "high": found.high}
        yield {"measure": name, **when, "value": found.value, **ends}
