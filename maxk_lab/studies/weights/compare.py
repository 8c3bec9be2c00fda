"""Verdicts on claims about the weights of given rewards, whose measures are known exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maxk_lab.report.claims import Judged, judge_exact
from maxk_lab.studies.weights.pool import WeightsRow
from maxk_lab.sweeps.spec.claims import EqualsClaim


def judge(claim: EqualsClaim, met: Sequence[tuple[WeightsRow]], alpha: float) -> Judged:
    """Supported where the measure lies within the tolerance in every row and seed, else refuted."""

    def by_seed(row: WeightsRow) -> dict[int, float]:
        points = ((seed, metrics.points) for seed, metrics in row.by_seed.items())
        return {seed: values.get(claim.metric, math.nan) for seed, values in points}

    return judge_exact(claim, met, by_seed)
