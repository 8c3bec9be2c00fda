"""Rows of a training study without their means: IQM, quantiles, the probability of improvement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds.two_level import (
    QUANTILES,
    improvement,
    iqm_interval,
    probability_interval,
    quantile_interval,
)
from maxk_lab.statistics.units import Array
from maxk_lab.studies.training.ending.gap import ROUNDING, gap
from maxk_lab.studies.training.ending.measures import gap_range
from maxk_lab.studies.training.row.comparison import seed_pairs, why_not_paired
from maxk_lab.studies.training.row.model import Robust, Trained, TrainingRow


def with_robust(row: TrainingRow, rows: Sequence[TrainingRow], level: float) -> TrainingRow:
    """The row with its robust summary, where all seeds finished."""
    if row.measures is None or not row.ks:
        return row
    k = row.ks[-1]
    known = row.measures.optimum.kind != "none" and all(
        np.all(np.array(seed.optima) != 0) for seed in row.by_seed.values()
    )
    values = np.array([_worth(row.by_seed[seed], k, known) for seed in sorted(row.by_seed)])
    within = gap_range(row.measures.optimum, row.within) if known else row.within
    found = Robust(
        "gap" if known else f"max@{k}",
        iqm_interval(values, level=level, within=within),
        {
            name: quantile_interval(values, q, level=level, within=within)
            for name, q in QUANTILES.items()
        },
    )
    if row.compared_with:
        other = next(
            each for each in rows if each.key.path == row.compared_with and _shares_place(each, row)
        )
        found = replace(found, improvement=improvement_over(row, other, k, level))
    return replace(row, robust=found)


def improvement_over(row: TrainingRow, other: TrainingRow, k: int, level: float) -> Interval:
    """P(Max@k of `row` on an instance of a seed is higher than that of `other`), ties half.

    Paired by instance and seed. Every optimum is that of both rows, so for gaps it is the same.
    Values within rounding of each other are ties: else of two rows that both found the optimum,
    that which found it in more ways would win.
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
