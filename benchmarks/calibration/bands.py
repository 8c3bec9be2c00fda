"""Coverage of the simultaneous band of a difference in Max@K over all K, by simulation.

P prompts have chances of a success in two logs, or rewards; the truth is over all prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from calibration.rows import LEVEL, Row, counted
from numpy.random import Generator
from scipy.special import comb
from scipy.stats import beta

from maxk_lab.statistics.bands import difference_band
from maxk_lab.statistics.estimates import Array

# Prompts that stand for all when the truth is worked out.
_ALL = 400_000
Chances = Callable[[Array], tuple[Array, Array]]


def _betas(first: tuple[float, float], second: tuple[float, float]) -> Chances:
    """Chances of a prompt in both logs: the same quantile of two Beta distributions."""
    return lambda u: (beta.ppf(u, *first), beta.ppf(u, *second))


# Regime → chances, prompts, samples a prompt, and whether the prompts are the same in both logs.
REGIMES: dict[str, tuple[Chances, int, int, bool]] = {
    "100 prompts, even chances": (_betas((1, 1), (1, 1.3)), 100, 16, True),
    "100 prompts, most solved or unsolved": (_betas((0.3, 0.3), (0.4, 0.3)), 100, 16, True),
    "300 prompts, few ever solved": (_betas((0.1, 2), (0.2, 2)), 300, 32, True),
    "100 and 100 other prompts": (_betas((1, 2), (1, 1.5)), 100, 16, False),
    "50 prompts, moderate chances": (_betas((2, 3), (3, 3)), 50, 8, True),
    "30 prompts, rare successes": (_betas((0.05, 2), (0.1, 2)), 30, 16, True),
    "30 prompts, very rare successes": (_betas((0.02, 1), (0.04, 1)), 30, 16, True),
}


def coverage(repetitions: int) -> Iterator[Row]:
    """Yield how often the band covers the difference at every K that has one."""
    for regime, (chances, prompts, samples, paired) in REGIMES.items():
        truths = [_curve(1 - each) for each in chances((np.arange(_ALL) + 0.5) / _ALL)]
        truth = np.subtract(*(each[:samples] for each in truths))
        table, rng, hits = _pass_at(samples), np.random.default_rng(5), list[bool]()
        for seed in range(repetitions):
            values = _drawn(chances, prompts, samples, paired, table, rng)
            band = difference_band(values, seed=seed)
            with_band = ~np.isnan(band.low)
            if with_band.any():
                hits.append(bool(((band.low <= truth) & (truth <= band.high))[with_band].all()))
        statistic = "difference in pass@K, all K together"
        yield counted(regime, statistic, LEVEL, hits, repetitions)
    yield _coverage_of_methods(repetitions)


def _coverage_of_methods(
    repetitions: int, methods: int = 10, prompts: int = 128, samples: int = 16
) -> Row:
    """Return how often the corrected bands of all methods cover their differences together."""
    shapes = [(1.0, 1.0 + 0.05 * i) for i in range(methods + 1)]  # that of the reference first
    grid = (np.arange(_ALL) + 0.5) / _ALL
    truths = [_curve(1 - beta.ppf(grid, *shape))[:samples] for shape in shapes]
    table, rng, hits = _pass_at(samples), np.random.default_rng(5), list[bool]()
    for seed in range(repetitions):
        u = rng.random(prompts)
        drawn = [table[rng.binomial(samples, beta.ppf(u, *shape))] for shape in shapes]
        held = []
        for values, truth in zip(drawn[1:], truths[1:], strict=True):
            band = difference_band([values - drawn[0]], 1 - (1 - LEVEL) / methods, seed)
            difference = truth - truths[0]
            covered = (band.low <= difference) & (difference <= band.high)
            held.append(covered[~np.isnan(band.low)].all())
        hits.append(all(held))
    regime = f"{prompts} prompts, {methods} methods"
    statistic = "difference in pass@K, all K and methods together"
    return counted(regime, statistic, LEVEL, hits, repetitions)


def _curve(misses: Array) -> Array:
    """Return mean pass@K over prompts for K = 1 to 64."""
    return np.array([1 - np.mean(misses**k) for k in range(1, 65)])


def _pass_at(samples: int) -> Array:
    """Return pass@K by the successes among the samples, [samples + 1, samples]."""
    misses = samples - np.arange(samples + 1)[:, None]
    ks = np.arange(1, samples + 1)
    table: Array = 1 - comb(misses, ks) / comb(samples, ks)
    return table


def _drawn(
    chances: Chances, prompts: int, samples: int, paired: bool, table: Array, rng: Generator
) -> list[Array]:
    u = rng.random(prompts)
    pairs = chances(u) if paired else (chances(u)[0], chances(rng.random(prompts))[1])
    first, second = (table[rng.binomial(samples, each)] for each in pairs)
    return [first - second] if paired else [first, second]
