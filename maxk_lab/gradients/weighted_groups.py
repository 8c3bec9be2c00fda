"""Measures of single groups of n and their means: how few samples carry the weight, if any."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from torch import Tensor

from maxk_lab.catalogue import load
from maxk_lab.statistics.measures import measures_of


@dataclass(frozen=True)
class WeightedGroups:
    """Groups of n samples: their weights and rewards, [..., n] each."""

    weights: Tensor
    rewards: Tensor

    def measures(self) -> dict[str, Tensor]:
        """The measures that the catalogue counts in single groups, by name: [...] each.

        A bool tells of which groups something is true; a number is NaN for groups without one.
        """
        rows = [row for row in measures_of("gradient") if row.source == "groups"]
        return {row.name: load(row.implementation)(self) for row in rows}


def dead(groups: WeightedGroups) -> Tensor:
    """Whether all weights of a group are zero, so that it teaches nothing."""
    return (groups.weights == 0).all(-1)


def concentration(groups: WeightedGroups) -> Tensor:
    """Σw²/(Σ|w|)², between 1/n (all |w| equal) and 1 (a single sample): NaN for dead groups."""
    size = groups.weights.abs()
    share = size / size.amax(-1, keepdim=True)  # squares neither overflow nor vanish
    return share.square().sum(-1) / share.sum(-1).square()


class GroupSums:
    """The sums over all possible groups that the means of their measures are made of."""

    def __init__(self) -> None:
        # By measure: its sum, and the probability of the groups that have a number.
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def add(self, groups: WeightedGroups, chance: Tensor) -> None:
        """Count groups [S, n] of probability `chance` [S]."""
        for name, values in groups.measures().items():
            numbers = values.double()
            self._sums[name][0] += float(chance @ numbers.nan_to_num(0.0))
            self._sums[name][1] += float(chance @ (~numbers.isnan()).double())

    def means(self) -> dict[str, float]:
        """The probability of every event, the mean of every number; NaN where no group has one."""
        return {
            name: total / counted if counted else math.nan
            for name, (total, counted) in self._sums.items()
        }
