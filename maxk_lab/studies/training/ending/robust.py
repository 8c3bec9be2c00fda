"""What the rows of a training study are worth without their means: IQM, quantiles and the probability of an improvement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.two_level import (
    QUANTILES,
    improvement,
    iqm,
    probability_interval,
    quantile_interval,
    two_level,
)
from maxk_lab.statistics.units import Array
from maxk_lab.studies.training.ending.measures import ROUNDING, gap
from maxk_lab.studies.training.rows.comparison import seed_pairs, why_not_paired
from maxk_lab.studies.training.rows.model import Robust, Trained, TrainingRow


def robustly(row: TrainingRow, rows: Sequence[TrainingRow], level: float) -> TrainingRow:
    """The row with its robust summary, where its records have what it takes."""
    if row.measures is None or not row.ks:
        return row
    k = row.ks[-1]
    known = row.measures.optimum.kind != "none" and all(
        np.all(np.array(seed.optima) != 0) for seed in row.by_seed.values()
    )
    values = np.array([_worth(row.by_seed[seed], k, known) for seed in sorted(row.by_seed)])
    quantiles = {name: quantile_interval(values, q, level=level) for name, q in QUANTILES.items()}
    found = Robust("gap" if known else f"max@{k}", two_level(values, iqm, level=level), quantiles)
    if row.reference:
        other = next(
            each for each in rows if each.key.path == row.reference and _shares_place(each, row)
        )
        found = replace(found, improvement=improvement_over(row, other, k, level))
    return replace(row, robust=found)


def improvement_over(row: TrainingRow, other: TrainingRow, k: int, level: float) -> Interval:
    """P(Max@k of `row` on an instance of a seed is higher than that of `other`), ties half, paired by both.

    Every optimum is that of both rows, so of gaps it is the same. Values within rounding of each other are ties: else of two rows
    that both found the optimum, that which found it in more ways would win.
    """
    reason = why_not_paired(row, other, k)
    if not reason and any(
        k not in each.per_instance for pair in seed_pairs(row, other) for each in pair
    ):
        reason = f"no values per instance at K = {k}"
    if reason:
        return undefined(level, reason)
    pairs = [
        (np.array(mine.per_instance[k]), np.array(theirs.per_instance[k]))
        for mine, theirs in seed_pairs(row, other)
    ]
    wins = [
        improvement(np.where(np.isclose(mine, theirs, rtol=ROUNDING, atol=0), theirs, mine), theirs)
        for mine, theirs in pairs
    ]
    return probability_interval(np.array(wins), level=level)


def _worth(seed: Trained, k: int, known: bool) -> Array:
    values: Array = np.array(seed.per_instance[k])
    return gap(values, seed.optima) if known else values


def _shares_place(row: TrainingRow, other: TrainingRow) -> bool:
    return (row.key.environment, row.key.n) == (other.key.environment, other.key.n)
