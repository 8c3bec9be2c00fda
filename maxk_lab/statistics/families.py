"""Families: comparisons that are corrected together, and their lines.

A report has four families: the best of a place, against the reference, bias, and claims.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from maxk_lab.statistics.intervals import Interval

Key = TypeVar("Key", bound=Hashable)
Correction = Literal["bonferroni", "holm"]


@dataclass(frozen=True)
class Family:
    """A number of comparisons that all hold together with probability 1 − `alpha`.

    Bonferroni (1936) shares `alpha` evenly, as intervals need. Holm (1979) steps down the p-values.
    For the best of R rows, each row is compared one-sided at alpha / (R − 1) with the row that
    seems best (Gupta 1965): Bonferroni of size R − 1.
    """

    name: str
    size: int
    alpha: float = 0.05
    correction: Correction = "bonferroni"

    @property
    def level(self) -> float:
        """The level of each interval (Bonferroni)."""
        return 1 - self.alpha / max(1, self.size)

    def adjusted(self, p_values: Mapping[Key, float]) -> dict[Key, float]:
        """The adjusted p-values; Holm needs the p-values of all `size` comparisons in one call."""
        if self.correction == "bonferroni":
            return {key: min(1.0, self.size * value) for key, value in p_values.items()}
        assert len(p_values) == self.size
        ordered = sorted(p_values, key=lambda key: p_values[key])
        steps = [(len(ordered) - place) * p_values[key] for place, key in enumerate(ordered)]
        rising = np.minimum(np.maximum.accumulate(steps), 1.0) if steps else np.array([])
        return dict(zip(ordered, rising.tolist(), strict=True))


@dataclass(frozen=True)
class Comparison:
    """A line of the table of comparisons: a row against its `partner`, or 0 if that is empty.

    `interval` is not corrected: a `ratio` or a difference of the `measure`, `paired` by a property
    that both numbers share, such as the seed. The `verdict` on the row is corrected for all
    `comparisons` of the family: lowest, highest, better, worse, tied (not significantly different)
    or open (no test is possible). A row that is tied for new instances may be worse on the `fixed`
    instances.
    """

    family: str
    row: str
    partner: str
    measure: str
    interval: Interval
    verdict: str = ""
    ratio: bool = False
    paired: str = ""
    p_adjusted: float = math.nan
    comparisons: int = 1
    alpha: float = 0.05
    fixed: bool = False
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the columns of the line; without an interval, the value is absent."""
        line = dict(vars(self))
        interval = line.pop("interval")
        names = {"family": "family", "row": "row", "other": "partner", "measure": "measure"}
        place = {name: line.pop(attribute) for name, attribute in names.items()}
        ends = ("value", "low", "high")
        numbers = {end: getattr(interval, end) if interval.defined else None for end in ends}
        return place | numbers | {"about": interval.question} | line
