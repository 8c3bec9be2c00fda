"""The content of a finished record of the weights study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pydantic import ConfigDict, Field

from maxk_lab.fields import Number, Recorded, check_lengths, check_same, slack_of
from maxk_lab.statistics.measures import measures_of
from maxk_lab.statistics.units import Array

# The measures of the weights [groups, n], without the library that a worker needs.
_ANEW: Mapping[str, Callable[[Array], float]] = {
    "zero_share": lambda weights: float((weights == 0).mean()),
    "weight_sum": lambda weights: float(weights.sum(-1).mean()),
    "weight_min": lambda weights: float(weights.min()),
    "weight_std": lambda weights: float(weights.std()),
}


class Metrics(Recorded):
    """The rewards of some groups in drawing order and their weights, [groups, n]; and measures."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number] = Field(init=False)

    rewards: list[list[Number]]
    weights: list[list[Number]]

    @property
    def points(self) -> Mapping[str, float]:
        """The value of every measure by its name."""
        return self.__pydantic_extra__

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` where this cannot have been measured of the cell."""
        check_lengths(cell["groups"], {"rewards": self.rewards, "weights": self.weights})
        for rewards, weights in zip(self.rewards, self.weights, strict=True):
            check_lengths(cell["n"], {"rewards": rewards, "weights": weights})
        if unknown := sorted(self.points.keys() - {row.name for row in measures_of("weights")}):
            raise ValueError(f"{unknown[0]} is no measure of a weights study")
        drawn = np.array(self.weights)
        slack = cell["n"] * slack_of([w for row in self.weights for w in row])
        for name, told in self.points.items():
            if name in _ANEW:
                is_share = name == "zero_share"  # a share of the weights, however large they are
                check_same(name, told, _ANEW[name](drawn), 0.0 if is_share else slack)
