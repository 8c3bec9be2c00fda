"""Coverage of the intervals of gradient studies, over simulated populations of instances.

A report tells an interval about instances like these, or where too few carry the mean one about
these instances in its place; the share of reports with the one that was asked for is `shown`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from calibration.populations import HEAVY, POPULATIONS, Cell, Design, Population, Report, draw, weak
from calibration.rows import LEVEL, Row, counted

from maxk_lab.statistics.bias import bias_verdicts
from maxk_lab.statistics.intervals import Interval, interval
from maxk_lab.statistics.log_ratios import log_ratio, stays_less, typical_ratio
from maxk_lab.statistics.measures import LIKE_THESE, THESE

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
# An interval of a report, and the truth that it should hold.
Found = tuple[Interval, float]
Statistic = Callable[[Report], Found]


def _like(measure: str, truth: Callable[[Population], float]) -> Callable[..., Found]:
    def of(population: Population, report: Report) -> Found:
        return interval(report.units["a"], measure, question=LIKE_THESE), truth(population)

    return of


def _of_these(cell: str, measure: str) -> Statistic:
    def of(report: Report) -> Found:
        m2, square, inner, truth = report.truths[cell].mean(1)
        value = {
            "variance": m2 - square,
            "snr": square / (m2 - square),
            "scale": inner / truth,
            "cosine": inner / math.sqrt(square * truth),
            "squared_bias": square - 2 * inner + truth,
        }[measure]
        return interval(report.units[cell], measure, question=THESE), value

    return of


def _ratio(top: str, measure: str, truth: float) -> Statistic:
    def of(report: Report) -> Found:
        found = log_ratio(report.units[top], report.units["a"], measure=measure)
        return found, math.log(truth)

    return of


def _ratio_of_these(report: Report) -> Found:
    variances = [report.truths[cell].mean(1) @ (1, -1, 0, 0) for cell in ("b", "a")]
    found = log_ratio(report.units["b"], report.units["a"], question=THESE)
    return found, math.log(variances[0] / variances[1])


def _median(report: Report) -> Found:
    median = typical_ratio(report.units["b"], report.units["a"], level=LEVEL).median
    return median, 1.2 * math.exp(-(0.5**2) / 2)


def _at_most(cell: str, report: Report) -> Found:
    """The one-sided bound as an interval from 0."""
    _, square, inner, truth = report.truths[cell].mean(1)
    verdict = bias_verdicts({cell: report.units[cell]}, alpha=1 - LEVEL)[cell]
    bound = Interval(verdict.relative_bias, 0.0, verdict.at_most, LEVEL, verdict.reason)
    return bound, math.sqrt(max(0.0, square - 2 * inner + truth) / truth)


LIKE: Mapping[str, Callable[[Population, Report], Found]] = {
    "variance": _like("variance", lambda population: 1.0),
    "SNR": _like("snr", lambda population: population.snr),
    "relative variance": _like("relative_variance", lambda population: 1 / population.snr),
    "ratio of variances": lambda _, report: _ratio("b", "variance", 1.2)(report),
    "ratio of relative variances": lambda _, report: _ratio(
        "shrunk", "relative_variance", 1 / 0.64
    )(report),
    "median ratio": lambda _, report: _median(report),
}
THEIR: Mapping[str, Statistic] = {
    "variance": _of_these("a", "variance"),
    "SNR": _of_these("a", "snr"),
    "ratio of variances": _ratio_of_these,
    "scale": _of_these("biased", "scale"),
    "cosine": _of_these("biased", "cosine"),
    "squared bias": _of_these("biased", "squared_bias"),
    "bias at most": partial(_at_most, "biased"),
    "bias at most, unbiased": partial(_at_most, "a"),
}


def coverage(
    repetitions: int,
    populations: Sequence[Population] = (*POPULATIONS, weak(POPULATIONS[0]), weak(HEAVY)),
    designs: Sequence[Design] = DESIGNS,
    seed: int = 0,
) -> Iterator[Row]:
    """The interval of every measure, and of these instances where a report falls back to them."""
    for population in populations:
        for design in designs:
            regime = f"{population.name}; {design}"
            like: dict[str, list[bool]] = {name: [] for name in LIKE}
            these: dict[str, list[bool]] = {name: [] for name in THEIR}
            for repetition in range(repetitions):
                report = draw(population, design, CELLS, [seed, repetition])
                for name, of in LIKE.items():
                    found, truth = of(population, report)
                    if found.known and found.question == LIKE_THESE:
                        like[name].append(found.low <= truth <= found.high)
                for name, measured in THEIR.items():
                    found, truth = measured(report)
                    if found.known:
                        these[name].append(found.low <= truth <= found.high)
            for name, hits in like.items():
                yield counted(regime, f"{name}, like these", LEVEL, hits, repetitions)
            for name, hits in these.items():
                yield counted(regime, f"{name}, these", LEVEL, hits, repetitions)


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
                    given = [
                        starred(draw(population, design, cells, [seed, repetition]))
                        for repetition in range(repetitions)
                    ]
                    yield counted(regime, f"{name} star", nominal, given, repetitions)


def starred(report: Report) -> bool:
    """Whether `b` has less variance by all that a star asks for."""
    b, a = report.units["b"], report.units["a"]
    mean = log_ratio(b, a, level=LEVEL)
    median = typical_ratio(b, a, level=LEVEL).median
    return mean.question == LIKE_THESE and mean.high < 0 and median.high < 1 and stays_less(b, a)
