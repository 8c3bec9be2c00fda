"""Coverage of the intervals of training studies, by simulation.

Every function draws studies of a regime whose truth is known, and returns rows: in which share of
them the 95 % interval covered it, of those that had one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from calibration.rows import ALPHA, LEVEL, Row, counted, rated
from numpy.random import Generator

from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, SHARES, Range
from maxk_lab.results.compare import rank_p_value
from maxk_lab.statistics.estimates import Array
from maxk_lab.statistics.intervals import undefined
from maxk_lab.statistics.seeds import (
    FALSE_ALARM,
    outlying,
    seed_mean,
    skewed_mean,
)
from maxk_lab.studies.training.differences import reference_lines, with_differences_to
from maxk_lab.studies.training.row import SAMPLED, Decoding, TrainingKey, TrainingRow
from maxk_lab.studies.training.table import beaten
from maxk_lab.training.settings import Settings

Draw = Callable[[Generator, Sequence[int]], Array]
COUNTS = (32, 64, 128)
SEEDS = (3, 5, 8)


def sparse(share: float) -> Draw:
    """Exponential values; this share is not 0."""
    return lambda draws, size: draws.exponential(size=size) * (draws.random(size) < share)


def normal(draws: Generator, size: Sequence[int]) -> Array:
    """Normal values."""
    return draws.normal(size=size)


def log_normal(sd: float) -> Draw:
    """Values whose logarithms have this standard deviation."""
    return lambda draws, size: draws.lognormal(0, sd, size)


def rare(draws: Generator, size: Sequence[int]) -> Array:
    """Normal values; one in ten is 8 sd off."""
    return draws.normal(size=size) + 8 * (draws.random(size) < 0.1)


def exponential(draws: Generator, size: Sequence[int]) -> Array:
    """Exponential values."""
    return draws.exponential(size=size)


# Values of instances, and their true mean.
OF_INSTANCES: dict[str, tuple[Draw, float]] = {
    "normal": (normal, 0.0),
    "t, 3 degrees of freedom": (lambda draws, size: draws.standard_t(3, size), 0.0),
    "differences of log-normals": (
        lambda draws, size: draws.lognormal(0, 1, size) - draws.lognormal(0, 1, size),
        0.0,
    ),
    "exponential": (exponential, 1.0),
    "gamma(1/2)": (lambda draws, size: draws.gamma(0.5, size=size), 0.5),
    "log-normal(1)": (log_normal(1), math.exp(0.5)),
    "log-normal(1.5)": (log_normal(1.5), math.exp(1.125)),
    "10 % are not 0": (sparse(0.1), 0.1),
    "2 % are not 0": (sparse(0.02), 0.02),
}
# Shares of the samples of instances, and their true mean: most instances all 0, or all the same.
OF_SHARES: dict[str, tuple[Draw, float]] = {
    "2 % are 1, else 0": (lambda draws, size: (draws.random(size) < 0.02) * 1.0, 0.02),
    "2 % are uniform, else 0.4": (
        lambda draws, size: np.where(draws.random(size) < 0.02, draws.random(size), 0.4),
        0.402,
    ),
    "beta(0.05, 0.95)": (lambda draws, size: draws.beta(0.05, 0.95, size), 0.05),
}
# Values of seeds, their true mean, and the range that is known of them.
OF_SEEDS: dict[str, tuple[Draw, float, Range]] = {
    "normal": (normal, 0.0, ANYWHERE),
    "t, 3 degrees of freedom": (*OF_INSTANCES["t, 3 degrees of freedom"], ANYWHERE),
    "log-normal(1), unbounded": (log_normal(1), math.exp(0.5), ANYWHERE),
    "one in ten 8 sd off": (rare, 0.8, ANYWHERE),
    "log-normal(0.1), from 0": (log_normal(0.1), math.exp(0.005), NOT_NEGATIVE),
    "log-normal(0.5), from 0": (log_normal(0.5), math.exp(0.125), NOT_NEGATIVE),
    "log-normal(1), from 0": (log_normal(1), math.exp(0.5), NOT_NEGATIVE),
    "exponential, from 0": (exponential, 1.0, NOT_NEGATIVE),
    "shares, beta(5, 5)": (lambda draws, size: draws.beta(5, 5, size), 0.5, SHARES),
    "shares, beta(1, 9)": (lambda draws, size: draws.beta(1.0, 9.0, size), 0.1, SHARES),
    "shares, beta(9, 1)": (lambda draws, size: 1 - draws.beta(1.0, 9.0, size), 0.9, SHARES),
}
# Values of the row of the same mean that differs in shape from its rivals, where one does.
_SHAPES: dict[str, Draw] = {
    "": normal,
    ", one seed in ten 8 sd off": lambda draws, size: (
        draws.normal(size=size) + 8 * ((draws.random(size) < 0.1) - 0.1)
    ),
    ", log-normal(1)": lambda draws, size: draws.lognormal(0, 1, size) - math.exp(0.5),
    ", negative log-normal(1)": lambda draws, size: math.exp(0.5) - draws.lognormal(0, 1, size),
}
# Rivals of the same mean that collapse in one seed of five: their other seeds lie above it.
COLLAPSE = {", rivals collapse in one seed of five": normal}
# Values of seeds that are the same up to the seeds.
_ALIKE: dict[str, Draw] = {
    "normal": normal,
    "one in ten 8 sd off": _SHAPES[", one seed in ten 8 sd off"],
    "two kinds": lambda draws, size: (draws.random(size) < 0.5) + 1e-3 * draws.normal(size=size),
    "log-normal(1.5)": log_normal(1.5),
}


def over_instances(
    repetitions: int, counts: Sequence[int] = COUNTS, *, shares: bool = False
) -> Iterator[Row]:
    """The mean over the instances of one seed; of `shares`, that of values in [0, 1]."""
    within, statistic = (SHARES, "mean share") if shares else (ANYWHERE, "mean")
    for regime, (draw, truth) in (OF_SHARES if shares else OF_INSTANCES).items():
        for count in counts:
            values = draw(np.random.default_rng([0, count]), (repetitions, count))
            intervals = (skewed_mean(row, LEVEL, within=within) for row in values)
            yield rated(f"{count} instances, {regime}", statistic, truth, intervals)


def means_of_seeds(repetitions: int, counts: Sequence[int] = SEEDS) -> Iterator[Row]:
    """The mean over seeds, in all studies, and in those that name no seed as apart."""
    for regime, (draw, truth, within) in OF_SEEDS.items():
        for count in counts:
            values = draw(np.random.default_rng([0, count]), (repetitions, count))
            intervals = [seed_mean(row, LEVEL, within) for row in values]
            yield rated(f"{count} seeds, {regime}", "mean", truth, intervals)
            unmarked = [
                each if outlying(row) is None else undefined(LEVEL, "a seed apart")
                for each, row in zip(intervals, values, strict=True)
            ]
            yield rated(f"{count} seeds, {regime}", "mean, none apart", truth, unmarked)


def seeds_apart(repetitions: int, counts: Sequence[int] = (3, 4, 5, 6, 8)) -> Iterator[Row]:
    """How often a seed is named as apart: of normal seeds, and where one is 8 sd off."""
    for count in counts:
        values = np.random.default_rng([0, count]).normal(size=(repetitions, count))
        for regime, off, nominal in (("normal", 0.0, FALSE_ALARM), ("one 8 sd off", 8.0, math.nan)):
            named = [outlying(row) for row in values + off * (np.arange(count) == 0)]
            right = [which is not None if not off else which == 0 for which in named]
            yield counted(f"{count} seeds, {regime}", "named as apart", nominal, right, repetitions)


def _row(number: int, curves: Array) -> TrainingRow:
    """A trained row of curves [S, K] and nothing else."""
    seeds = range(len(curves))
    ends = Decoding(
        means=curves,
        ks=tuple(range(1, curves.shape[1] + 1)),
        curve=tuple(seed_mean(values, LEVEL) for values in curves.T),
    )
    return TrainingRow(
        key=TrainingKey(
            environment="tsp",
            estimator="maxk",
            baseline="centred",
            n=2,
            k=1,
            setting=(("learning_rate", float(number)),),
        ),
        cells=dict.fromkeys(seeds, ""),
        finished=tuple(seeds),
        catalogued_unbiased=True,
        settings=Settings(),
        decoded={SAMPLED: ends},
    )


def winners(
    repetitions: int, rows: int = 8, seeds: int = 5, shapes: Mapping[str, Draw] = _SHAPES
) -> Iterator[Row]:
    """Rows of equal means: how often a list rules out one, or a table calls one better or worse.

    Seeds have an effect that all rows share, and two K are looked at. In some regimes the row that
    the list should not rule out has values of another shape than its rivals.
    """
    for shape, draw in shapes.items():
        draws = np.random.default_rng([0, rows, seeds])
        excluded, differ = [], []
        for _ in range(repetitions):
            curves = draws.normal(size=(seeds, 1, 1)) + draws.normal(size=(seeds, rows, 2))
            if shape in COLLAPSE:
                curves[:, 1:] -= 30 * ((draws.random((seeds, rows - 1, 1)) < 0.2) - 0.2)
            if shape:
                curves[:, 0] = draw(draws, (seeds, 2))
            study = [_row(number, curves[:, number]) for number in range(rows)]
            losers = [row for k in (1, 2) for row in beaten(study, k, ALPHA, ks=2)]
            excluded.append(any(row is study[0] for row in losers))
            against = [with_differences_to(row, study[0], LEVEL) for row in study[1:]]
            lines = reference_lines(against, ALPHA).values()
            differ.append(any(line.verdict in ("better", "worse") for line in lines))
        where = f"{rows} equal rows, {seeds} seeds, 2 K{shape}"
        yield counted(where, "the best excluded", ALPHA, excluded, repetitions)
        yield counted(where, "any better or worse", ALPHA, differ, repetitions)


def other_seeds(repetitions: int) -> Iterator[Row]:
    """Two runs that differ in their seeds alone: how often some number is better or worse."""

    for regime, draw in _ALIKE.items():
        for seeds, numbers in ((3, 1), (5, 6), (6, 6), (10, 1), (10, 40)):
            draws = np.random.default_rng([0, seeds, numbers])
            runs = draw(draws, (repetitions, numbers, 2, seeds))
            differ = [
                any(rank_p_value(a, b, 0.0) < ALPHA / numbers for a, b in run) for run in runs
            ]
            where = f"two runs of {seeds} seeds, {numbers} compared, {regime}"
            yield counted(where, "any better or worse, other seeds", ALPHA, differ, repetitions)


def everything(repetitions: int) -> Iterator[Row]:
    """Every row of the long version."""
    yield from over_instances(repetitions)
    yield from over_instances(repetitions, shares=True)
    for study in (means_of_seeds, seeds_apart, winners):
        yield from study(repetitions)
    yield from other_seeds(repetitions)
