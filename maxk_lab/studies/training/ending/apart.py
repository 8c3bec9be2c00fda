"""Seeds whose training ended apart from the others: a mean over all of them speaks for none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from maxk_lab.statistics.seeds.apart import FALSE_ALARM, outlying
from maxk_lab.studies.training.row.model import Apart, Trained, TrainingRow


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


def _noise(seeds: Sequence[Trained], k: int) -> float:
    """The spread between seeds that the instances of each explain; 0 where all share them."""
    known = {seed.instances for seed in seeds}
    if len(known) == 1 and known.isdisjoint({None, ""}):
        return 0.0
    from scipy import stats

    errors = [float(stats.sem(seed.per_instance[k])) for seed in seeds]
    return float(np.sqrt(np.mean(np.square(errors))))
