"""Simulated populations of instances, and reports whose truth is known.

An instance has a gradient and a noise, and every cell of a report estimates the gradient from the
same groups, as the cells of a study share a pool. The estimates are vectors, from which the
library's own blocks make the units of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from maxk_lab.gradients.sampled.blocks import Blocks
from maxk_lab.gradients.sampled.groups import blocks_of
from maxk_lab.statistics.units import FIELDS, Array, Units

DIMENSIONS = 6
# How much of the noise's variance the cells of a report share.
SHARED = 0.8

Spread = Callable[[Generator, int], Array]


def log_normal(sd: float) -> Spread:
    """Positive numbers of mean 1 whose logarithms have this standard deviation."""
    return lambda draws, size: draws.lognormal(-(sd**2) / 2, sd, size)


def pareto(tail: float) -> Spread:
    """Positive numbers of mean 1 with the tail x^−tail."""
    return lambda draws, size: (draws.pareto(tail, size) + 1) * (tail - 1) / tail


def dominated(share: float, times: float) -> Spread:
    """Positive numbers of mean 1: a share of them is `times` as large as the rest."""
    rest = 1 / (1 + share * (times - 1))
    return lambda draws, size: rest * np.where(draws.random(size) < share, times, 1.0)


@dataclass(frozen=True)
class Population:
    """How tr Cov ĝ and ‖∇J‖² differ between instances; their means are 1 and `snr`.

    Half of the instances have the same factor in both. With `fixed`, ‖∇J‖² has the mean `snr` over
    the very instances of a report.
    """

    name: str
    noise: Spread
    signal: Spread
    snr: float = 0.1
    fixed: bool = False

    @classmethod
    def alike(cls, name: str, spread: Spread, snr: float = 0.1) -> Population:
        """Return a population in which noise and gradient differ alike."""
        return cls(name, spread, spread, snr)

    @classmethod
    def norms(cls, sd: float, snr: float = 0.1) -> Population:
        """Return a population of mild noise; log ‖∇J‖ has the standard deviation `sd`."""
        return cls(f"log-sd of ‖∇J‖ {sd:g}", log_normal(0.5), log_normal(2 * sd), snr, fixed=True)


@dataclass(frozen=True)
class Design:
    """The size of a report: seeds, instances of each, groups of each instance."""

    seeds: int
    instances: int
    groups: int

    def __str__(self) -> str:
        return f"{self.seeds} × {self.instances} × {self.groups}"


@dataclass(frozen=True)
class Cell:
    """An estimator: its mean is `scale` ∇J + `beside` ‖∇J‖ e with e orthogonal to ∇J.

    Its variance is that of the instance times numbers of mean `variance`, whose logarithms have the
    standard deviation `differs`.
    """

    scale: float = 1.0
    beside: float = 0.0
    variance: float = 1.0
    differs: float = 0.0


@dataclass(frozen=True)
class Report:
    """The units of every cell, and the truth on these instances: [4, U] in the order of FIELDS."""

    units: Mapping[str, Units]
    truths: Mapping[str, Array]


def draw(
    population: Population,
    design: Design,
    cells: Mapping[str, Cell],
    seed: Sequence[int],
    *,
    judge: str = "",
    trajectories: int = 0,
) -> Report:
    """Draw a report; with a `judge`, it is against that cell and not against the exact gradient.

    The seed draws the instances, together with the number in `trajectories` also these.
    """
    draws = np.random.default_rng([*seed, 0])
    of_groups = np.random.default_rng([*seed, 1, trajectories])
    count = design.seeds * design.instances
    noise = population.noise(draws, count)
    signal = np.where(draws.random(count) < 0.5, noise, population.signal(draws, count))
    if population.fixed:
        signal = population.signal(draws, count)
        signal /= signal.mean()
    norm = np.sqrt(population.snr * signal)
    blocks, each = blocks_of(design.groups, 1)
    shape = (count, blocks, each, DIMENSIONS)
    shared = of_groups.standard_exponential(shape) - 1
    gradient = np.zeros((count, 1, 1, DIMENSIONS))
    gradient[..., 0] = norm[:, None, None]
    means, estimates, truths = {}, {}, {}
    for name, cell in cells.items():
        mean = np.zeros((count, 1, 1, DIMENSIONS))
        mean[..., 0] = (cell.scale * norm)[:, None, None]
        mean[..., 1] = (cell.beside * norm)[:, None, None]
        variance = noise * cell.variance * log_normal(cell.differs)(draws, count)
        noise_of_cell = of_groups.standard_normal(shape, dtype=np.float32)
        deviations = np.sqrt(SHARED) * shared + np.sqrt(1 - SHARED) * noise_of_cell
        deviations *= np.sqrt(variance / DIMENSIONS)[:, None, None, None]
        means[name], estimates[name] = mean, mean + deviations
        square, inner = (np.einsum("ibgd,ibgd->i", mean, vector) for vector in (mean, gradient))
        truths[name] = np.stack([variance + square, square, inner, norm**2])
    against = gradient[:, :, 0].repeat(blocks, 1) if not judge else estimates[judge].mean(2)
    sums = {name: _blocks(of, against, exact=not judge) for name, of in estimates.items()}
    stratum = np.arange(count) // design.instances
    units = {
        name: Units(
            stratum,
            **dict(zip(FIELDS, of.columns(), strict=True)),
            within=of.within(),
            deviations=of.deviations(np.ones(count, dtype=bool)),
            groups=count * blocks * each,
        )
        for name, of in sums.items()
    }
    return Report(units, truths)


def _blocks(estimates: Array, against: Array, *, exact: bool) -> Blocks:
    """The blocks of estimates [I, B, g, D], judged against vectors [I, B, D]."""
    means = estimates.mean(2)
    return Blocks(
        np.einsum("ibgd,ibgd->ib", estimates, estimates) / estimates.shape[2],
        means @ means.swapaxes(1, 2),
        means @ against.swapaxes(1, 2),
        against @ against.swapaxes(1, 2),
        exact=exact,
    )


MILD = Population.alike("mild, log-normal(.5)", log_normal(0.5))
HEAVY = Population.alike("log-normal(1.5)", log_normal(1.5))
PARETO = Population.alike("Pareto(2.5)", pareto(2.5))
DOMINATED = Population.alike("one in 16 is 100 times the others", dominated(1 / 16, 100))
POPULATIONS = (MILD, HEAVY, PARETO, DOMINATED)


def weak(population: Population, snr: float = 0.01) -> Population:
    """Return the population at a weaker signal."""
    return replace(population, name=f"{population.name}, SNR {snr:g}", snr=snr)
