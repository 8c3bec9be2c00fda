"""Seeds whose training ended apart from the others: a mean over all of them speaks for none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from maxk_lab.report.document import number
from maxk_lab.statistics.seeds.apart import FALSE_ALARM, level_of_the_range, outlying
from maxk_lab.studies.training.row.model import Apart, Trained, TrainingRow

# What stands at the values of a row with such a seed.
MARK = "‡"


def with_seeds_apart(row: TrainingRow) -> TrainingRow:
    """The row with the seeds that ended apart at K = 1 or at all samples, the two ends of a curve.

    Each end has half of the rate of false alarms.
    """
    ends = sorted({*row.ks[:1], *row.ks[-1:]})
    seeds = sorted(row.by_seed)
    found = []
    for k in ends:
        values = [row.by_seed[seed].curve[k - 1] for seed in seeds]
        which = outlying(values, _noise(list(row.by_seed.values()), k), FALSE_ALARM / len(ends))
        if which is not None:
            others = values[:which] + values[which + 1 :]
            found.append(Apart(seeds[which], k, values[which], min(others), max(others)))
    return replace(row, apart=tuple(found))


def apart_lines(rows: Sequence[TrainingRow]) -> list[str]:
    """A line for each such seed, and what may be said all the same."""
    lines = [
        f"seed {each.seed} of {row.key.path} ended at Max@{each.k} = {number(each.value)}, the "
        f"others within {number(each.low)} to {number(each.high)}: the intervals of this row take "
        "it for no exception"
        for row in rows
        for each in row.apart
    ]
    if lines:
        seeds = max(len(row.cells) for row in rows)
        lines.append(
            f"The range of {seeds} seeds holds the median over all seeds, exceptions included, at "
            f"a level of {level_of_the_range(seeds):.1%}, whatever their distribution. Named by "
            f"Grubbs' test at {FALSE_ALARM:.0%} a row: of five seeds it finds one 8 standard "
            "deviations off in three of four studies, of three in one of seven"
        )
    return lines


def _noise(seeds: Sequence[Trained], k: int) -> float:
    """The spread between seeds that the instances of each explain; 0 where all share them."""
    known = {seed.instances for seed in seeds}
    if len(known) == 1 and known.isdisjoint({None, ""}):
        return 0.0
    from scipy import stats

    errors = [float(stats.sem(seed.per_instance[k])) for seed in seeds]
    return float(np.sqrt(np.mean(np.square(errors))))
