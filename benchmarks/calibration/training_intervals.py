"""Coverage of the intervals of training studies, by simulation.

Every function draws studies of a regime whose truth is known, and returns rows: in which share of
them the 95 % interval covered it, of those that had one. Usage, with the studies to draw of each:

    python benchmarks/calibration/training_intervals.py 2000
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.random import Generator
from rows import LEVEL, Row, rated

from maxk_lab.statistics.skewed_mean import skewed_mean
from maxk_lab.statistics.units import Array


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


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for row in over_instances(repetitions):
        print(
            f"{row.regime:45} {row.statistic:14} covered {row.covered:6.1%} ± {row.se:.1%}, "
            f"shown {row.shown:6.1%}, shown and wrong {row.wrong:.1%}"
        )


if __name__ == "__main__":
    main()
