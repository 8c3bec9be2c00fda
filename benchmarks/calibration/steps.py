"""Coverage of the intervals of `recommend` over instances, by simulation.

The gradients of instances share a direction in part; groups are enumerated, so only the instances
are a sample. The truth is that of a million instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from calibration.populations import DIMENSIONS, POPULATIONS, Design, Population
from calibration.rows import LEVEL, Row, Tally
from numpy.random import Generator

from maxk_lab.statistics.units import FIELDS, Array, Units
from maxk_lab.studies.gradient.recommend import moments, step_quotient

DESIGNS = (Design(1, 8, 1), Design(1, 16, 1), Design(2, 16, 1), Design(8, 3, 1), Design(1, 64, 1))
_ALL = 1_000_000
# Of two rows: n, and the variance of a group at this n.
_SIZES, _VARIANCES = (8, 16), (1.0, 0.55)
# n/B times the moments E‖ĝ‖² of both rows and ‖∇J‖²: a step's signal, and the variance of each row.
_SIGNAL, _FIRST, _SECOND = (0.0, 0.0, 1.0), (8.0, 0.0, -8.0), (0.0, 16.0, -16.0)


def coverage(
    repetitions: int,
    populations: Sequence[Population] = POPULATIONS,
    designs: Sequence[Design] = DESIGNS,
) -> Iterator[Row]:
    """Yield how often the intervals of a step cover the values of all instances."""
    for population in populations:
        norms, squares = _instances(population, _ALL, np.random.default_rng(1))
        signal = float(norms.mean() ** 2 / 2)
        variances = [
            n * (squares[row].mean() + (norms**2).mean() - signal) for row, n in enumerate(_SIZES)
        ]
        for design in designs:
            rng, tally = np.random.default_rng(2), Tally()
            for _ in range(repetitions):
                sample = moments(*_report(population, design, rng))
                snr = step_quotient(sample, _SIGNAL, _FIRST, LEVEL)
                tally.add("SNR of a step", snr, signal / variances[0])
                ratio = step_quotient(sample, _SECOND, _FIRST, LEVEL)
                tally.add("variance of a step over another", ratio, variances[1] / variances[0])
            about = f"{population.name}; {design.seeds} × {design.instances} instances"
            yield from tally.rows(about, repetitions)


def _instances(population: Population, count: int, rng: Generator) -> tuple[Array, Array]:
    """Return the norms [U] of the gradients, and the variances [2, U] of a group of each row."""
    noise = population.noise(rng, count)
    signal = np.where(rng.random(count) < 0.5, noise, population.signal(rng, count))
    differs = rng.lognormal(-0.005, 0.1, (2, count))
    return np.sqrt(population.snr * signal), np.array(_VARIANCES)[:, None] * noise * differs


def _report(population: Population, design: Design, rng: Generator) -> list[Units]:
    """Return the units of both rows, whose instances have the same gradients."""
    count = design.seeds * design.instances
    norms, variances = _instances(population, count, rng)
    own = rng.standard_normal((count, DIMENSIONS - 1))
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    gradients = np.sqrt(0.5) * norms[:, None] * np.column_stack([np.ones(count), own])
    stratum, squares = np.arange(count) // design.instances, norms**2
    of_seed = gradients.reshape(design.seeds, design.instances, -1)
    others = (of_seed.sum(1, keepdims=True) - of_seed).reshape(count, -1)
    crosses = (gradients * others).sum(1) / (design.instances - 1)
    return [
        Units(
            stratum,
            **dict(zip(FIELDS, (squares + variance, squares, squares, squares), strict=True)),
            cross_products=crosses,
        )
        for variance in variances
    ]
