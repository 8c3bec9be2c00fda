"""Coverage of the intervals of planned steps over prompts, by simulation.

A log has P prompts with chances of a success from a Beta distribution; the truth is the plan of a
very large log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from calibration.rows import LEVEL, Row, counted
from numpy.random import Generator

from maxk_lab.own.plans.steps import plan

_ALL, _SAMPLES, _BUDGET, _K = 100_000, 16, 16, 4
# The step whose relative variance, and whose variance over the best of the log, are judged.
_N, _BASELINE = 8, "subloo"
# Regime → the Beta distribution of the chances.
REGIMES = {
    "even chances": (1.0, 1.0),
    "most solved or unsolved": (0.3, 0.6),
    "few ever solved": (0.5, 10.0),
    "few ever unsolved": (10.0, 0.5),
}
PROMPTS = (8, 16, 32, 64, 128)


def coverage(repetitions: int) -> Iterator[Row]:
    """Yield how often the intervals of a planned step cover the values of all prompts."""
    for regime, shape in REGIMES.items():
        rng = np.random.default_rng(7)
        truth = _planned(shape, _ALL, rng)
        for prompts in PROMPTS:
            hits: dict[str, list[bool]] = {"relative variance of a step": [], "over the best": []}
            for _ in range(repetitions):
                steps = _planned(shape, prompts, rng)
                if steps.loss.isna().any():
                    continue
                row, best = steps.loc[(_N, _BASELINE)], steps.loss.idxmin()
                if row.low == row.low:
                    value = truth.relative_variance[_N, _BASELINE]
                    hits["relative variance of a step"].append(row.low <= value <= row.high)
                if row.loss_low == row.loss_low and best != (_N, _BASELINE):
                    value = truth.loss[_N, _BASELINE] / truth.loss[best]
                    hits["over the best"].append(row.loss_low <= value <= row.loss_high)
            for statistic, each in hits.items():
                yield counted(f"{prompts} prompts, {regime}", statistic, LEVEL, each, repetitions)


def _planned(shape: tuple[float, float], prompts: int, rng: Generator) -> Any:
    """Return the plan of a log of `prompts` prompts, by n and baseline."""
    chances = rng.beta(*shape, prompts)[:, None]
    rewards = torch.from_numpy((rng.random((prompts, _SAMPLES)) < chances).astype(float))
    steps = plan([rewards], [np.arange(prompts)], _BUDGET, [_K])
    return steps.set_index(["n", "baseline"])
