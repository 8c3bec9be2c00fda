"""Coverage of the intervals of gradient studies where rewards have a heavy tail.

The instances of a bandit are tables of log-normal rewards: what an estimator's variance and norm
are on each follows from its weights and scores, and their means over instances are those of a few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from calibration.rows import LEVEL, Row, counted
from torch import Tensor

from maxk_lab.environments.environment import make_environment
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import LIKE_THESE, THESE
from maxk_lab.statistics.units import Array, Units

ARMS, N, K = 6, 8, 4
BASELINES = ("none", "centred", "subloo")
# Instances from which the means over all instances are had.
MANY = 4000


@dataclass(frozen=True)
class Tables:
    """Tables whose rewards have logarithms of this standard deviation, under one fresh policy."""

    sd: float
    # Not 0, with which the threshold was chosen.
    seed: int = 1

    @cached_property
    def _bandit(self) -> tuple[Any, Any]:
        environment = make_environment(
            {"name": "bandit", "arms": ARMS, "reward_shift": 0.0},
            {"init_std": 0.5, "dtype": "float64"},
        )
        return environment, environment.policy(self.seed)

    def cells(self, tables: Tensor, size: int, seed: int, *, listed: bool) -> dict[str, Units]:
        """The units of every estimator: enumerated where `listed`, else from pools of this size."""
        environment, policy = self._bandit
        pool = draw_pool(environment, policy, tables, len(tables), size, objectives=(K,), seed=seed)
        cells = [
            {
                "id": baseline,
                "estimator": "maxk",
                "baseline": baseline,
                "n": N,
                "k": K,
                "partitions": 1,
                "complete": listed,
            }
            for baseline in BASELINES
        ]
        found = {}
        for name, metrics in measure_cells(pool, cells, seed=seed):
            if isinstance(metrics, Exception):
                raise metrics
            found[name] = Units.from_metrics(metrics)
        return found

    def draw(self, count: int, seed: int) -> Tensor:
        """The rewards of new instances, [count, arms]."""
        draws = np.random.default_rng([self.seed, seed])
        return torch.from_numpy(draws.lognormal(0.0, self.sd, (count, ARMS)))

    @cached_property
    def means(self) -> Mapping[str, Array]:
        """The moments of every estimator over all instances, by importance sampling.

        In half of the tables one arm's reward is drawn by its square: such arms carry the means.
        """
        draws = np.random.default_rng([self.seed, 10**9])
        logs = draws.normal(0.0, self.sd, (MANY, ARMS))
        tilted = np.arange(MANY) % 2 == 1
        logs[tilted, draws.integers(ARMS, size=MANY)[tilted]] += 2 * self.sd**2
        density = np.exp(2 * logs - 2 * self.sd**2).mean(1)
        weights = 1 / (0.5 + 0.5 * density)
        units = self.cells(torch.from_numpy(np.exp(logs)), 2 * N, 0, listed=True)
        return {name: (weights * of.columns()).mean(1) for name, of in units.items()}


def _value(moments: Array, measure: str) -> float:
    m2, square, inner, truth = moments
    return float(
        {
            "variance": m2 - square,
            "snr": square / (m2 - square),
            "scale": inner / truth,
        }[measure]
    )


# What is asked about → the measures.
MEASURES = {LIKE_THESE: ("variance", "snr"), THESE: ("variance", "snr", "scale")}


def coverage(
    repetitions: int,
    deviations: Sequence[float] = (1.0, 1.5, 2.0),
    counts: Sequence[int] = (16, 32),
    size: int = 512,
) -> Iterator[Row]:
    """The interval of every measure of every estimator, and of its variance over the last one's."""
    for sd in deviations:
        tables = Tables(sd)
        for count in counts:
            hits: dict[str, list[bool]] = {}
            for repetition in range(repetitions):
                drawn = tables.draw(count, repetition)
                units = tables.cells(drawn, size, repetition, listed=False)
                exact = tables.cells(drawn, 2 * N, repetition, listed=True)
                these = {name: of.columns().mean(1) for name, of in exact.items()}
                for about, means in ((LIKE_THESE, tables.means), (THESE, these)):
                    which = "these" if about == THESE else "like these"
                    for name in BASELINES:
                        for measure in MEASURES[about]:
                            found = interval(units[name], measure, question=about)
                            row = hits.setdefault(f"{measure} of {name}, {which}", [])
                            if found.known and found.question == about:
                                truth = _value(means[name], measure)
                                row.append(found.low <= truth <= found.high)
                    for name in BASELINES[:-1]:
                        found = log_ratio(units[name], units[BASELINES[-1]], question=about)
                        row = hits.setdefault(f"variance of {name} over subloo, {which}", [])
                        if found.known and found.question == about:
                            ends = (means[one] @ (1, -1, 0, 0) for one in (name, BASELINES[-1]))
                            truth = math.log(next(ends) / next(ends))
                            row.append(found.low <= truth <= found.high)
            regime = f"log-normal({sd:g}) rewards; 1 × {count} × {size // N}"
            for statistic, row in hits.items():
                yield counted(regime, statistic, LEVEL, row, repetitions)
