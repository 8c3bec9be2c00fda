"""The content of a finished record of the weights study."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict, Field

from maxk_lab.fields import Recorded


class Metrics(Recorded):
    """The rewards of some groups in drawing order and their weights, [groups, n]; and measures."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float] = Field(init=False)

    rewards: list[list[float]]
    weights: list[list[float]]

    @property
    def points(self) -> Mapping[str, float]:
        """The value of every measure by its name."""
        return self.__pydantic_extra__
