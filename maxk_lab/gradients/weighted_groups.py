"""The measures and values of groups, and the record, that enumerated and sampled cells share.

Measures of single groups say, for one, how many groups have no weight.

Index: Groups are `...`, n samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from maxk_lab.catalogue import load
from maxk_lab.estimators import objective_estimate, off_policy_value
from maxk_lab.estimators.objectives import Objective
from maxk_lab.statistics.measures import measures_of
from maxk_lab.statistics.moments import point_estimates
from maxk_lab.statistics.units import Units


@dataclass(frozen=True)
class WeightedGroups:
    """Groups of n samples: their weights and rewards, [..., n] each."""

    weights: Tensor
    rewards: Tensor

    def measures(self) -> dict[str, Tensor]:
        """Return the measures that the catalogue counts in single groups, by name: [...] each.

        They are bools, true of some groups, or numbers, NaN for groups without one.
        """
        rows = [row for row in measures_of("gradient") if row.source == "groups"]
        return {row.name: load(row.implementation)(self) for row in rows}


def dead(groups: WeightedGroups) -> Tensor:
    """Return whether all weights of a group are zero, so that it teaches nothing."""
    return (groups.weights == 0).all(-1)


def value_estimates(objective: Objective, rewards: Tensor, ratios: Tensor | None) -> Tensor:
    """The objective's unbiased estimates from groups [..., n], with ratios where these count."""
    if ratios is None:
        return objective_estimate(rewards, objective)
    return off_policy_value(rewards, ratios, objective.k)


def cell_record(units: Units, *, coefficients: list[Any] | None, **rest: Any) -> dict[str, Any]:
    """Return the metrics of a cell: its units, point estimates, fitted coefficients and the `rest`.

    A point estimate that is undefined is None, with its reason under `undefined`.
    """
    undefined: dict[str, str] = {}
    metrics = rest | {"undefined": undefined}
    if coefficients is not None:
        metrics["coefficients"] = coefficients
    return metrics | units.as_record() | point_estimates(units, undefined)
