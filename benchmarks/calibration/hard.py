"""Verdicts where groups seldom show the gradient: rare success and nearly deterministic policies.

Bandits whose arms are listed: the same cells, enumerated, are the truth of every report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from calibration.intervals import FOUND
from calibration.pools import measured, redrawn
from calibration.rows import ALPHA, LEVEL, Row, counted

from maxk_lab.environments.environment import make_environment
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.statistics.bias import bias_verdicts
from maxk_lab.statistics.intervals import Interval, interval
from maxk_lab.statistics.log_ratios import log_ratio, typical_ratio
from maxk_lab.statistics.measures import FIXED
from maxk_lab.statistics.units import Units

BASELINES = ("none", "centred", "subloo")
# n = K, n = 2K and n > 2K; K = 8 among them.
SIZES = ((4, 2), (4, 4), (8, 2), (8, 8), (16, 8))
INSTANCES, ARMS, POOL = 16, 4, 2048


@dataclass(frozen=True)
class Regime:
    """A bandit whose first arm has this chance; its rewards are 0 and 1, or normal numbers."""

    chance: float
    binary: bool = True

    def __str__(self) -> str:
        rewards = "success" if self.binary else "normal rewards, first arm"
        return f"{rewards} {self.chance:g}; 1 × {INSTANCES}, pool of {POOL}"

    def pool(self) -> ScorePool:
        """Return a pool of the instances of the regime, with all arms listed."""
        tables = np.zeros((INSTANCES, ARMS))
        tables[:, 0] = 1.0
        if not self.binary:
            tables = np.random.default_rng(0).normal(size=tables.shape)
        chances = torch.full((ARMS,), (1 - self.chance) / (ARMS - 1), dtype=torch.float64)
        chances[0] = self.chance
        environment = make_environment(
            {"name": "bandit", "arms": ARMS, "reward_shift": 0.0},
            {"init_std": 0.0, "dtype": "float64"},
        )
        policy = environment.policy(0)
        with torch.no_grad():
            for logits in policy.parameters():
                logits.copy_(chances.log().expand_as(logits))
        objectives = sorted({k for _, k in SIZES})
        return draw_pool(
            *(environment, policy, torch.from_numpy(tables), INSTANCES, 2 * max(SIZES)[0]),
            objectives=objectives,
            seed=0,
        )


REGIMES = (
    *(Regime(chance) for chance in (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)),
    *(Regime(chance, binary=False) for chance in (0.5, 0.99, 0.999)),
)


def verdicts(repetitions: int) -> Iterator[Row]:
    """How often a report errs, and how often it says nothing.

    The rows of a regime: any false verdict among cells with a test; the share of cells without one;
    paired intervals of the ratio to `subloo` and of its median that hold the enumerated ratio;
    ratios that are significant on the wrong side; and intervals of the variance and SNR of a cell.
    """
    for regime in REGIMES:
        false, undefined, covered, wrong, medians = [], [], [], [], []
        alone: dict[str, list[bool]] = {"variance": [], "snr": []}
        pool = regime.pool()
        exact = measured(pool, BASELINES, SIZES, 0, complete=True)
        for repetition in range(repetitions):
            drawn = redrawn(pool, torch.arange(INSTANCES), POOL, repetition)
            units = measured(drawn, BASELINES, SIZES, repetition)
            shown = {name: of for name, of in units.items() if not of.no_signal}
            judged = [row.verdict for row in bias_verdicts(shown, alpha=ALPHA).values()]
            undefined += [True] * (len(units) - len(shown)) + [v == "undefined" for v in judged]
            if any(verdict != "undefined" for verdict in judged):
                false.append(any(verdict in FOUND for verdict in judged))
            for ratio, truth, median, typical in _ratios(shown, exact):
                covered.append(ratio.low <= truth <= ratio.high)
                wrong.append(ratio.high < 0 < truth or ratio.low > 0 > truth)
                if median.defined:
                    medians.append(median.low <= typical <= median.high)
            for name, measure in product(shown, alone):
                sampled = interval(shown[name], measure, question=FIXED)
                truth = interval(exact[name], measure, question=FIXED).value
                if sampled.defined and not math.isnan(truth):
                    alone[measure].append(sampled.low <= truth <= sampled.high)
        pairs = repetitions * sum(f"{b}-{n}-{k}" in exact for n, k in SIZES for b in BASELINES[:-1])
        yield counted(str(regime), "any false verdict, hard", ALPHA, false, repetitions)
        yield counted(str(regime), "cells without a test", math.nan, undefined, len(undefined))
        yield counted(str(regime), "enumerated ratio, hard", LEVEL, covered, pairs)
        yield counted(str(regime), "ratio on the wrong side", (1 - LEVEL) / 2, wrong, pairs)
        yield counted(str(regime), "median ratio, hard", LEVEL, medians, pairs)
        for measure, hits in alone.items():
            count = repetitions * len(exact)
            yield counted(str(regime), f"{measure} of a cell, hard", LEVEL, hits, count)


def _ratios(
    shown: Mapping[str, Units], exact: Mapping[str, Units]
) -> Iterator[tuple[Interval, float, Interval, float]]:
    """Yield every log ratio to `subloo` that is shown with its truth, and the median with its."""
    for n, k in SIZES:
        last = f"{BASELINES[-1]}-{n}-{k}"
        for name in (f"{baseline}-{n}-{k}" for baseline in BASELINES[:-1]):
            if name not in shown or last not in shown:
                continue
            ratio = log_ratio(shown[name], shown[last], question=FIXED)
            truth = log_ratio(exact[name], exact[last], question=FIXED).value
            if ratio.defined and math.isfinite(truth):
                median = typical_ratio(shown[name], shown[last], level=LEVEL).median
                typical = typical_ratio(exact[name], exact[last], level=LEVEL).median.value
                yield ratio, truth, median, typical
