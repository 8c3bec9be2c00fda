"""Coverage of the intervals of training studies, by simulation.

Every function draws studies of a regime whose truth is known, and returns rows: in which share of
them the 95 % interval covered it, of those that had one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from calibration.rows import LEVEL, Row, counted, rated
from numpy.random import Generator

from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, SHARES, Range
from maxk_lab.results.compare.numbers import between_seeds
from maxk_lab.statistics.estimates import skewed_mean
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds import (
    FALSE_ALARM,
    QUANTILES,
    iqm_interval,
    outlying,
    over_seeds,
    probability_interval,
    quantile_interval,
)
from maxk_lab.statistics.units import Array
from maxk_lab.studies.training.compare import beaten, tested, with_differences_to
from maxk_lab.studies.training.row import Trained, TrainingRow
from maxk_lab.training.settings import Settings


def _sparse(share: float) -> Callable[[Generator, Sequence[int]], Array]:
    return lambda draws, size: draws.exponential(size=size) * (draws.random(size) < share)


# Values of instances, and their true mean.
OF_INSTANCES: dict[str, tuple[Callable[[Generator, Sequence[int]], Array], float]] = {
    "normal": (lambda draws, size: draws.normal(size=size), 0.0),
    "t, 3 degrees of freedom": (lambda draws, size: draws.standard_t(3, size), 0.0),
    "differences of log-normals": (
        lambda draws, size: draws.lognormal(0, 1, size) - draws.lognormal(0, 1, size),
        0.0,
    ),
    "exponential": (lambda draws, size: draws.exponential(size=size), 1.0),
    "gamma(1/2)": (lambda draws, size: draws.gamma(0.5, size=size), 0.5),
    "log-normal(1)": (lambda draws, size: draws.lognormal(0, 1, size), math.exp(0.5)),
    "log-normal(1.5)": (lambda draws, size: draws.lognormal(0, 1.5, size), math.exp(1.125)),
    "10 % are not 0": (_sparse(0.1), 0.1),
    "2 % are not 0": (_sparse(0.02), 0.02),
}


def over_instances(
    repetitions: int, counts: Sequence[int] = (32, 64, 128), seed: int = 0
) -> Iterator[Row]:
    """The mean over the instances of one seed."""
    for regime, (draw, truth) in OF_INSTANCES.items():
        for count in counts:
            values = draw(np.random.default_rng([seed, count]), (repetitions, count))
            found = (skewed_mean(row, LEVEL) for row in values)
            yield rated(f"{count} instances, {regime}", "mean", truth, found)


def _beta(draws: Generator, size: Sequence[int]) -> Array:
    return draws.beta(1.0, 9.0, size)


# Values of seeds, their true mean, and the range that is known of them.
OF_SEEDS: dict[str, tuple[Callable[[Generator, Sequence[int]], Array], float, Range]] = {
    "normal": (lambda draws, size: draws.normal(size=size), 0.0, ANYWHERE),
    "t, 3 degrees of freedom": (lambda draws, size: draws.standard_t(3, size), 0.0, ANYWHERE),
    "log-normal(1), unbounded": (OF_INSTANCES["log-normal(1)"][0], math.exp(0.5), ANYWHERE),
    "one in ten 8 sd off": (
        lambda draws, size: draws.normal(size=size) + 8 * (draws.random(size) < 0.1),
        0.8,
        ANYWHERE,
    ),
    "log-normal(0.1), from 0": (
        lambda draws, size: draws.lognormal(0, 0.1, size),
        math.exp(0.005),
        NOT_NEGATIVE,
    ),
    "log-normal(0.5), from 0": (
        lambda draws, size: draws.lognormal(0, 0.5, size),
        math.exp(0.125),
        NOT_NEGATIVE,
    ),
    "log-normal(1), from 0": (OF_INSTANCES["log-normal(1)"][0], math.exp(0.5), NOT_NEGATIVE),
    "exponential, from 0": (OF_INSTANCES["exponential"][0], 1.0, NOT_NEGATIVE),
    "shares, beta(5, 5)": (lambda draws, size: draws.beta(5, 5, size), 0.5, SHARES),
    "shares, beta(1, 9)": (_beta, 0.1, SHARES),
    "shares, beta(9, 1)": (lambda draws, size: 1 - _beta(draws, size), 0.9, SHARES),
}


# Shares of the samples of instances, and their true mean: most instances all 0, or all the same.
_SHARES: dict[str, tuple[Callable[[Generator, Sequence[int]], Array], float]] = {
    "2 % are 1, else 0": (lambda draws, size: (draws.random(size) < 0.02) * 1.0, 0.02),
    "2 % are uniform, else 0.4": (
        lambda draws, size: np.where(draws.random(size) < 0.02, draws.random(size), 0.4),
        0.402,
    ),
    "beta(0.05, 0.95)": (lambda draws, size: draws.beta(0.05, 0.95, size), 0.05),
}


def of_shares(
    repetitions: int, counts: Sequence[int] = (32, 64, 128), seed: int = 0
) -> Iterator[Row]:
    """The mean over the instances of one seed of values in [0, 1]."""
    for regime, (draw, truth) in _SHARES.items():
        for count in counts:
            values = draw(np.random.default_rng([seed, count]), (repetitions, count))
            found = (skewed_mean(row, LEVEL, within=SHARES) for row in values)
            yield rated(f"{count} instances, {regime}", "mean share", truth, found)


def over_seeds_rows(
    repetitions: int, counts: Sequence[int] = (3, 5, 8), seed: int = 0
) -> Iterator[Row]:
    """The mean over seeds, in all studies, and in those that name no seed as apart."""
    for regime, (draw, truth, within) in OF_SEEDS.items():
        for count in counts:
            values = draw(np.random.default_rng([seed, count]), (repetitions, count))
            found = [over_seeds(row, LEVEL, within) for row in values]
            yield rated(f"{count} seeds, {regime}", "mean", truth, found)
            unmarked = [
                each if outlying(row) is None else undefined(LEVEL, "a seed apart")
                for each, row in zip(found, values, strict=True)
            ]
            yield rated(f"{count} seeds, {regime}", "mean, none apart", truth, unmarked)


def seeds_apart(
    repetitions: int, counts: Sequence[int] = (3, 4, 5, 6, 8), seed: int = 0
) -> Iterator[Row]:
    """How often a seed is named as apart: of normal seeds, and where one is 8 sd off."""
    for count in counts:
        values = np.random.default_rng([seed, count]).normal(size=(repetitions, count))
        for regime, off, nominal in (("normal", 0.0, FALSE_ALARM), ("one 8 sd off", 8.0, math.nan)):
            moved = values + off * (np.arange(count) == 0)
            named = [outlying(row) for row in moved]
            right = [which is not None if not off else which == 0 for which in named]
            yield counted(f"{count} seeds, {regime}", "named as apart", nominal, right, repetitions)


# Gaps of instances without an effect of their seed: a function, and their true quantiles.
_GAPS: dict[str, tuple[Callable[[Generator, Sequence[int]], Array], Callable[[float], float]]] = {
    "exponential": (OF_INSTANCES["exponential"][0], lambda q: -math.log1p(-q)),
    "log-normal(1)": (
        OF_INSTANCES["log-normal(1)"][0],
        lambda q: math.exp(NormalDist().inv_cdf(q)),
    ),
}


def of_gaps(
    repetitions: int,
    effects: Sequence[float] = (0.0, 0.1, 0.5),
    instances: int = 128,
    seed: int = 0,
) -> Iterator[Row]:
    """The robust statistics of gaps of five seeds whose level has this log-sd, and of one seed."""
    for regime, (draw, quantile) in _GAPS.items():
        half = (np.arange(20_000) + 0.5) / 40_000 + 0.25
        truths = {"IQM": float(np.mean([quantile(float(q)) for q in half]))}
        truths |= {name: quantile(q) for name, q in QUANTILES.items()}
        for seeds, effect in [*((5, effect) for effect in effects), (1, 0.0)]:
            draws = np.random.default_rng([seed, seeds, round(100 * effect)])
            levels = np.exp(effect * draws.normal(size=(repetitions, seeds, 1)))
            studies = levels * draw(draws, (repetitions, seeds, instances))
            where = f"{seeds} × {instances} gaps, {regime}, seeds differ by {effect:g}"
            for name, truth in truths.items():
                found = (_robust(name, study) for study in studies)
                yield rated(where, name, truth * math.exp(effect**2 / 2), found)


def _robust(name: str, study: Array) -> Interval:
    if name == "IQM":
        return iqm_interval(study, level=LEVEL, within=NOT_NEGATIVE)
    return quantile_interval(study, QUANTILES[name], level=LEVEL, within=NOT_NEGATIVE)


def of_wins(
    repetitions: int,
    chances: Sequence[float] = (0.5, 0.618, 0.8, 0.95, 0.994),
    effects: Sequence[float] = (0.0, 0.3, 1.0),
    seed: int = 0,
) -> Iterator[Row]:
    """P(better) over five seeds of 128 pairs, and over one; seeds differ on the logit scale."""
    for chance in chances:
        for seeds, effect in [*((5, effect) for effect in effects), (1, 0.0)]:
            draws = np.random.default_rng([seed, seeds, round(1000 * chance), round(10 * effect)])
            level = math.log(chance / (1 - chance))
            truth = float((1 / (1 + np.exp(-level - effect * draws.normal(size=400_000)))).mean())
            own = 1 / (1 + np.exp(-level - effect * draws.normal(size=(repetitions, seeds, 1))))
            wins = (draws.random((repetitions, seeds, 128)) < own).astype(float)
            found = (probability_interval(study, level=LEVEL) for study in wins)
            where = f"{seeds} × 128 pairs, seeds differ by {effect:g}"
            yield rated(where, f"P(better) = {chance:g}", truth, found)


def of_rare_losses(repetitions: int, seed: int = 0) -> Iterator[Row]:
    """P(better) where one seed in ten wins much less often than the others do."""
    for seeds in (3, 5, 8):
        for usual, rare in ((0.999, 0.67), (0.8, 0.02)):
            draws = np.random.default_rng([seed, seeds, round(1000 * usual)])
            own = np.where(draws.random((repetitions, seeds, 1)) < 0.1, rare, usual)
            wins = (draws.random((repetitions, seeds, 128)) < own).astype(float)
            truth = 0.9 * usual + 0.1 * rare
            found = (probability_interval(study, level=LEVEL) for study in wins)
            where = f"{seeds} × 128 pairs, {usual:g}, in one seed of ten {rare:g}"
            yield rated(where, "P(better), rare losses", truth, found)


# Values of the row of the same mean that differs in shape from its rivals, where one does.
SHAPES: dict[str, Callable[[Generator, Sequence[int]], Array]] = {
    "": lambda draws, size: draws.normal(size=size),
    ", one seed in ten 8 sd off": lambda draws, size: (
        draws.normal(size=size) + 8 * ((draws.random(size) < 0.1) - 0.1)
    ),
    ", log-normal(1)": lambda draws, size: draws.lognormal(0, 1, size) - math.exp(0.5),
    ", negative log-normal(1)": lambda draws, size: math.exp(0.5) - draws.lognormal(0, 1, size),
}


def of_winners(repetitions: int, rows: int = 8, seeds: int = 5, seed: int = 0) -> Iterator[Row]:
    """Rows of equal means: how often a list rules out one, or a table calls one better or worse.

    Seeds have an effect that all rows share, and two K are looked at. In some regimes the row that
    the list should not rule out has values of another shape than its rivals.
    """
    for shape, draw in SHAPES.items():
        yield from _winners_of(shape, draw, repetitions, rows, seeds, seed)


def _winners_of(
    shape: str,
    draw: Callable[[Generator, Sequence[int]], Array],
    repetitions: int,
    rows: int,
    seeds: int,
    seed: int,
) -> Iterator[Row]:
    draws = np.random.default_rng([seed, rows, seeds])
    ruled_out, told = [], []
    for _ in range(repetitions):
        curves = draws.normal(size=(seeds, 1, 1)) + draws.normal(size=(seeds, rows, 2))
        if shape:
            curves[:, 0] = draw(draws, (seeds, 2))
        study = [_row(str(number), curves[:, number]) for number in range(rows)]
        ruled_out.append(
            any(row is study[0] for k in (1, 2) for row in beaten(study, k, 1 - LEVEL, ks=2))
        )
        against = [with_differences_to(row, study[0], LEVEL) for row in study[1:]]
        told.append(min(tested(against, 1 - LEVEL).p_adjusted.values(), default=1.0) < 1 - LEVEL)
    where = f"{rows} equal rows, {seeds} seeds, 2 K{shape}"
    yield counted(where, "the best ruled out", 1 - LEVEL, ruled_out, repetitions)
    yield counted(where, "any better or worse", 1 - LEVEL, told, repetitions)


# Values of seeds that are the same but for the seeds.
_ALIKE: dict[str, Callable[[Generator, Sequence[int]], Array]] = {
    "normal": OF_INSTANCES["normal"][0],
    "one in ten 8 sd off": SHAPES[", one seed in ten 8 sd off"],
    "two kinds": lambda draws, size: (draws.random(size) < 0.5) + 1e-3 * draws.normal(size=size),
    "log-normal(1.5)": OF_INSTANCES["log-normal(1.5)"][0],
}


def of_other_seeds(repetitions: int, seed: int = 0) -> Iterator[Row]:
    """Two runs that differ in their seeds alone: how often some number is better or worse."""
    for regime, draw in _ALIKE.items():
        for seeds, numbers in ((3, 1), (5, 6), (6, 6), (10, 1), (10, 40)):
            draws = np.random.default_rng([seed, seeds, numbers])
            runs = draw(draws, (repetitions, numbers, 2, seeds))
            told = [any(_differs(*both, 0.05 / numbers) for both in run) for run in runs]
            where = f"two runs of {seeds} seeds, {numbers} compared, {regime}"
            yield counted(where, "any better or worse, other seeds", 0.05, told, repetitions)


def _differs(a: Array, b: Array, alpha: float) -> bool:
    found = between_seeds(a, b, 1 - alpha, ratio=False).interval
    return found.known and not found.low <= 0 <= found.high


class _Key(NamedTuple):
    """The parts of a row's key that a list of trainings asks for."""

    path: str
    k: int = 1


def _row(name: str, curves: Array) -> TrainingRow:
    """A trained row of curves [S, K] and nothing else."""
    seeds = range(len(curves))
    return TrainingRow(
        key=_Key(name),
        cells=dict.fromkeys(seeds, ""),
        finished=tuple(seeds),
        catalogued_unbiased=True,
        settings=Settings(),
        ks=tuple(range(1, curves.shape[1] + 1)),
        curve=tuple(over_seeds(values, LEVEL) for values in curves.T),
        by_seed={number: Trained(tuple(curves[number].tolist()), {}) for number in seeds},
    )


def everything(repetitions: int) -> Iterator[Row]:
    """Every row of the long version."""
    yield from over_instances(repetitions)
    yield from of_shares(repetitions)
    yield from over_seeds_rows(repetitions)
    yield from seeds_apart(repetitions)
    yield from of_gaps(repetitions)
    yield from of_wins(repetitions)
    yield from of_rare_losses(repetitions)
    yield from of_winners(repetitions)
    yield from of_other_seeds(repetitions)
