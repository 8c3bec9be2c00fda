"""The rows of a calibration table: how often something was shown, and how often it was right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from maxk_lab.statistics.intervals import Interval

LEVEL, ALPHA = 0.95, 0.05


class Row(NamedTuple):
    """One regime and statistic: `covered` ± `se` of the `shown` share of the repetitions.

    Of an interval `covered` is how often the truth lay in it; of a verdict, how often it was given.
    """

    regime: str
    statistic: str
    nominal: float
    covered: float
    se: float
    shown: float

    @property
    def wrong(self) -> float:
        """The share of all repetitions that show an interval without the truth in it."""
        return self.shown * (1 - self.covered) if self.shown else 0.0


def counted(regime: str, statistic: str, nominal: float, hits: Sequence[bool], of: int) -> Row:
    """Return the share of `hits`, with the share of the `of` repetitions that show a result."""
    covered = float(np.mean(hits)) if hits else math.nan
    # With a count more on either side: where all are hits, the error is not 0.
    share = (sum(hits) + 1) / (len(hits) + 2)
    se = math.sqrt(share * (1 - share) / len(hits)) if hits else math.nan
    # With the digits that they have.
    numbers = (round(value, 4) for value in (nominal, covered, se, len(hits) / of))
    return Row(regime, statistic, *numbers)


def rated(regime: str, statistic: str, truth: float, intervals: Iterable[Interval]) -> Row:
    """The row of intervals of the same truth."""
    every = list(intervals)
    shown = [each.low <= truth <= each.high for each in every if each.defined]
    return counted(regime, statistic, LEVEL, shown, len(every))


class Tally:
    """The hits of the intervals of a regime, by statistic."""

    def __init__(self) -> None:
        self._hits: dict[str, list[bool]] = {}

    def add(self, statistic: str, shown: Interval, truth: float, *, about: str = "") -> None:
        """Count an interval that is shown, and `about` what was asked if that is given."""
        hits = self._hits.setdefault(statistic, [])
        if shown.defined and about in ("", shown.question):
            hits.append(shown.low <= truth <= shown.high)

    def rows(self, regime: str, repetitions: int) -> Iterator[Row]:
        """The row of each statistic."""
        for statistic, hits in self._hits.items():
            yield counted(regime, statistic, LEVEL, hits, repetitions)
