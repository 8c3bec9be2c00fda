"""Measures and values of groups, and the record, for enumerated and sampled cells.

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
        """Return the measures of single groups in the catalogue, by name: [...] each.

        A measure is a boolean per group, or a number that is NaN for groups without a value.
        """
        rows = [row for row in measures_of("gradient") if row.source == "groups"]
        return {row.name: load(row.implementation)(self) for row in rows}


def dead(groups: WeightedGroups) -> Tensor:
    """Return whether all weights of a group are zero, so that it contributes no gradient."""
    return (groups.weights == 0).all(-1)


def value_estimates(objective: Objective, rewards: Tensor, ratios: Tensor | None) -> Tensor:
    """Return the objective's unbiased estimates from groups [..., n], with ratios if they count."""
    if ratios is None:
        return objective_estimate(rewards, objective)
    return off_policy_value(rewards, ratios, objective.k)


def cell_record(units: Units, *, coefficients: list[Any] | None, **rest: Any) -> dict[str, Any]:
    """Return the metrics of a cell: units, point estimates, fitted coefficients and the `rest`.

    An undefined point estimate is None, with its reason under `undefined`.
    """
    undefined: dict[str, str] = {}
    metrics = rest | {"undefined": undefined}
    if coefficients is not None:
        metrics["coefficients"] = coefficients
    return metrics | units.as_record() | point_estimates(units, undefined)
