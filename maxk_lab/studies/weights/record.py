"""The content of a finished record of the weights study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field

from maxk_lab.fields import Number, Recorded, check_lengths


class Metrics(Recorded):
    """The rewards of some groups in drawing order and their weights, [groups, n]; and measures."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number] = Field(init=False)

    rewards: list[list[Number]]
    weights: list[list[Number]]

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` where this cannot have been measured of the cell."""
        check_lengths(cell["groups"], {"rewards": self.rewards, "weights": self.weights})
        for rewards, weights in zip(self.rewards, self.weights, strict=True):
            check_lengths(cell["n"], {"rewards": rewards, "weights": weights})
