"""Intervals, stars and verdicts of gradient studies, over simulated populations of instances.

A report has an interval about new instances, or about the fixed instances if too few carry the
mean. `shown` is the share of reports with the interval of the statistic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from calibration.populations import (
    HEAVY,
    MILD,
    POPULATIONS,
    Cell,
    Design,
    Population,
    Report,
    draw,
    weak,
)
from calibration.rows import ALPHA, LEVEL, Row, Tally, counted

from maxk_lab.statistics.bias import POWER, BiasVerdict, bias_verdicts
from maxk_lab.statistics.intervals import Interval, interval
from maxk_lab.statistics.log_ratios import log_ratio, stays_less, typical_ratio
from maxk_lab.statistics.measures import FIXED, NEW

DESIGNS = (
    Design(1, 8, 64),
    Design(1, 16, 64),
    Design(2, 16, 64),
    Design(3, 16, 16),
    Design(1, 64, 16),
)
# Two estimators whose ratio differs between instances, the second of a shrunk mean, and one biased.
CELLS = {
    "a": Cell(),
    "b": Cell(variance=1.2, differs=0.5),
    "shrunk": Cell(scale=0.8, differs=0.5),
    "biased": Cell(scale=0.8, beside=0.3),
}
# How often a star may be on the wrong side.
WRONG = 0.025
NORMS = tuple(map(Population.norms, (3, 6)))
# The designs of verdicts.
JUDGED = (
    Design(1, 4, 64),
    Design(1, 16, 4),
    Design(1, 16, 16),
    Design(3, 16, 64),
    Design(5, 64, 16),
    Design(1, 16, 256),
)
# Unbiased by proof and correlated; their ratios differ between instances.
UNBIASED = {f"cell {i}": Cell(variance=0.5 + 0.25 * i, differs=0.5) for i in range(12)}
FOUND = ("biased", "scale bias")


def coverage(
    repetitions: int,
    populations: Sequence[Population] = (*POPULATIONS, weak(MILD), weak(HEAVY)),
    designs: Sequence[Design] = DESIGNS,
    seed: int = 0,
) -> Iterator[Row]:
    """Yield the coverage of every measure, about new and about fixed instances."""
    for population in populations:
        for design in designs:
            tally = Tally()
            for repetition in range(repetitions):
                report = draw(population, design, CELLS, [seed, repetition])
                for name, shown, truth in _about_new(population, report):
                    tally.add(f"{name}, new instances", shown, truth, about=NEW)
                for name, shown, truth in _about_fixed(report):
                    tally.add(f"{name}, fixed instances", shown, truth)
            yield from tally.rows(f"{population.name}; {design}", repetitions)


def _about_new(population: Population, report: Report) -> Iterator[tuple[str, Interval, float]]:
    a, b, shrunk = (report.units[name] for name in ("a", "b", "shrunk"))
    yield "variance", interval(a, "variance", question=NEW), 1.0
    yield "SNR", interval(a, "snr", question=NEW), population.snr
    relative = interval(a, "relative_variance", question=NEW)
    yield "relative variance", relative, 1 / population.snr
    yield "ratio of variances", log_ratio(b, a), math.log(1.2)
    relative = log_ratio(shrunk, a, measure="relative_variance")
    yield "ratio of relative variances", relative, math.log(1 / 0.64)
    yield "median ratio", typical_ratio(b, a, level=LEVEL).median, 1.2 * math.exp(-(0.5**2) / 2)


def _about_fixed(report: Report) -> Iterator[tuple[str, Interval, float]]:
    means = {name: truths.mean(1) for name, truths in report.truths.items()}
    variances = {name: m2 - square for name, (m2, square, _, _) in means.items()}
    _, square, inner, truth = means["biased"]
    bias = square - 2 * inner + truth
    for name, cell, measure, value in (
        ("variance", "a", "variance", variances["a"]),
        ("SNR", "a", "snr", means["a"][1] / variances["a"]),
        ("ratio of variances", "b", "", math.log(variances["b"] / variances["a"])),
        ("scale", "biased", "scale", inner / truth),
        ("cosine", "biased", "cosine", inner / math.sqrt(square * truth)),
        ("squared bias", "biased", "squared_bias", bias),
    ):
        units = report.units[cell]
        ratio = not measure and log_ratio(units, report.units["a"], question=FIXED)
        yield name, ratio or interval(units, measure, question=FIXED), value
    for name, cell, squared in (("", "biased", max(0.0, bias)), (", unbiased", "a", 0.0)):
        # The one-sided bound as an interval from 0.
        verdict = bias_verdicts({cell: report.units[cell]}, alpha=ALPHA)[cell]
        bound = Interval(verdict.relative_bias, 0.0, verdict.at_most, LEVEL, verdict.reason)
        yield f"bias at most{name}", bound, math.sqrt(squared / truth)


def stars(
    repetitions: int,
    populations: Sequence[Population] = POPULATIONS,
    designs: Sequence[Design] = DESIGNS[1:],
    seed: int = 0,
    differs: Sequence[float] = (0.5, 1.0, 1.5, 2.0),
) -> Iterator[Row]:
    """The star of an estimator whose mean variance is no less, though its median is; and a right
    one, of half the variance. The ratio to the other differs between instances.
    """
    for population in populations:
        for spread in differs:
            for design in designs:
                regime = f"{population.name}; {design}; log-sd of ratios {spread:g}"
                for name, nominal, variance in (("wrong", WRONG, 1.0), ("right", 1.0, 0.5)):
                    cells = {"a": Cell(), "b": Cell(differs=spread, variance=variance)}
                    reports = (
                        draw(population, design, cells, [seed, repetition])
                        for repetition in range(repetitions)
                    )
                    starred = [star for report in reports if (star := _starred(report)) is not None]
                    yield counted(regime, f"{name} star", nominal, starred, repetitions)


def _starred(report: Report) -> bool | None:
    """Whether `b` has less variance by all that a star asks for; None without an interval."""
    b, a = report.units["b"], report.units["a"]
    mean = log_ratio(b, a, level=LEVEL)
    if mean.question != NEW:
        return None
    median = typical_ratio(b, a, level=LEVEL).median
    return mean.high < 0 and median.high < 1 and stays_less(b, a)


def family_wise_error(
    repetitions: int,
    populations: Sequence[Population] = (MILD, HEAVY, *NORMS),
    designs: Sequence[Design] = JUDGED,
    seed: int = 0,
    judge: str = "",
) -> Iterator[Row]:
    """How often any of twelve unbiased cells is called biased."""
    for population in populations:
        for design in designs:
            wrong = []
            for repetition in range(repetitions):
                report = draw(population, design, UNBIASED, [seed, repetition], judge=judge)
                verdicts = {
                    row.verdict for row in bias_verdicts(report.units, alpha=ALPHA).values()
                }
                if verdicts != {"undefined"}:
                    wrong.append(not verdicts.isdisjoint(FOUND))
            against = ", against a reference" if judge else ""
            regime = f"{population.name}; {design}{against}"
            yield counted(regime, "any false verdict", ALPHA, wrong, repetitions)


def power(
    repetitions: int,
    populations: Sequence[Population] = (MILD, HEAVY, NORMS[0]),
    designs: Sequence[Design] = JUDGED[:4],
    seed: int = 0,
) -> Iterator[Row]:
    """How often a bias of one of twelve cells is found.

    A scale of ½, and a bias along ∇J of the size that is said to be `detectable`, on the same
    instances with other trajectories.
    """
    unbiased = UNBIASED["cell 0"]
    for population in populations:
        for design in designs:
            half, printed = [], []
            for repetition in range(repetitions):
                judged = partial(_judged, population, design, (seed, repetition))
                stated = judged(0, unbiased)
                if stated.verdict == "undefined":
                    continue
                half.append(judged(1, replace(unbiased, scale=0.5)).verdict in FOUND)
                if not math.isnan(stated.detectable):
                    biased = replace(unbiased, scale=1 - stated.detectable)
                    printed.append(judged(2, biased).verdict in FOUND)
            regime = f"{population.name}; {design}"
            yield counted(regime, "a scale of ½ is found", 1.0, half, repetitions)
            yield counted(regime, "the detectable is found", POWER, printed, repetitions)


def _judged(
    population: Population, design: Design, seed: Sequence[int], trajectories: int, cell: Cell
) -> BiasVerdict:
    """The verdict on a cell among eleven unbiased ones."""
    cells = UNBIASED | {"cell 0": cell}
    report = draw(population, design, cells, seed, trajectories=trajectories)
    return bias_verdicts(report.units, alpha=ALPHA)["cell 0"]
