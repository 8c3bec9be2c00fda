"""Family-wise error and power of verdicts on bias, over simulated populations of instances."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from calibration.populations import HEAVY, MILD, Cell, Design, Population, draw
from calibration.rows import Row, counted

from maxk_lab.statistics.bias import POWER, BiasVerdict, bias_verdicts

ALPHA = 0.05
FAMILY = 12
NORMS = tuple(map(Population.of_norms, (3, 6)))
DESIGNS = (
    Design(1, 4, 64),
    Design(1, 16, 4),
    Design(1, 16, 16),
    Design(3, 16, 64),
    Design(5, 64, 16),
    Design(1, 16, 256),
)
# Unbiased by proof and correlated; their ratios differ between instances.
UNBIASED = {f"cell {i}": Cell(variance=0.5 + 0.25 * i, differs=0.5) for i in range(FAMILY)}
_FOUND = ("biased", "scale bias")


def family_wise_error(
    repetitions: int,
    populations: Sequence[Population] = (MILD, HEAVY, *NORMS),
    designs: Sequence[Design] = DESIGNS,
    seed: int = 0,
    judge: str = "",
) -> Iterator[Row]:
    """How often any of twelve unbiased cells is called biased."""
    for population in populations:
        for design in designs:
            wrong = []
            for repetition in range(repetitions):
                report = draw(population, design, UNBIASED, [seed, repetition], judge=judge)
                verdicts = bias_verdicts(report.units, alpha=ALPHA).values()
                if any(verdict.verdict != "undefined" for verdict in verdicts):
                    wrong.append(any(verdict.verdict in _FOUND for verdict in verdicts))
            against = ", against a reference" if judge else ""
            regime = f"{population.name}; {design}{against}"
            yield counted(regime, "any false verdict", ALPHA, wrong, repetitions)


def power(
    repetitions: int,
    populations: Sequence[Population] = (MILD, HEAVY, NORMS[0]),
    designs: Sequence[Design] = DESIGNS[:4],
    seed: int = 0,
) -> Iterator[Row]:
    """How often a bias of one of twelve cells is found.

    A scale of ½; one along ∇J of the size that is said to be `detectable`, on the same instances
    with other trajectories; and one on a single instance of small gradient, which is to be named.
    """
    unbiased = UNBIASED["cell 0"]
    for population in populations:
        for design in designs:
            half, printed, alone = [], [], []
            for repetition in range(repetitions):
                judged = partial(_judged, population, design, (seed, repetition))
                stated = judged(0, unbiased)
                if stated.verdict == "undefined":
                    continue
                half.append(judged(1, replace(unbiased, scale=0.5)).verdict in _FOUND)
                if not math.isnan(stated.detectable):
                    biased = replace(unbiased, scale=1 - stated.detectable)
                    printed.append(judged(2, biased).verdict in _FOUND)
                one = replace(unbiased, scale=0.0, alone=True)
                alone.append(judged(3, one).found_on > 0)
            regime = f"{population.name}; {design}"
            yield counted(regime, "a scale of ½ is found", 1.0, half, repetitions)
            yield counted(regime, "the detectable is found", POWER, printed, repetitions)
            yield counted(regime, "one instance is named", 1.0, alone, repetitions)


def _judged(
    population: Population, design: Design, seed: Sequence[int], trajectories: int, cell: Cell
) -> BiasVerdict:
    """The verdict on a cell among eleven unbiased ones."""
    cells = UNBIASED | {"cell 0": cell}
    report = draw(population, design, cells, seed, trajectories=trajectories)
    return bias_verdicts(report.units, alpha=ALPHA)["cell 0"]
