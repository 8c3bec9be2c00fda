"""The metrics of a cell whose every possible group is enumerated: exact moments and exact bias, per instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import effective_k, needed_weight
from maxk_lab.gradients.complete import MULTISETS, Outcomes, complete_moments
from maxk_lab.gradients.exact import exact_gradient_weights, exact_value
from maxk_lab.gradients.points import point_estimates
from maxk_lab.gradients.pool import ScorePool
from maxk_lab.gradients.units import FIELDS, Units


@dataclass(frozen=True)
class ExactUnit:
    """One instance: E‖ĝ‖², ‖E ĝ‖², ⟨E ĝ, ∇J⟩, ‖∇J‖², J, ‖E ĝ − ∇J‖² and the least ‖E ĝ − s∇J‖² over s, all exact."""

    m2: float
    mean_square: float
    inner: float
    truth: float
    value: float
    squared_bias: float
    off_direction: float


def measure_enumerated(pool: ScorePool, cell: Mapping[str, Any]) -> dict[str, Any] | None:
    """The metrics, or None where the pool does not list every trajectory or there are too many groups to enumerate."""
    if not pool.listed:
        return None
    kind = needed_weight(cell["estimator"], cell["baseline"])
    g = None if kind is None else pool.listed_weight(kind)
    outcomes = [
        Outcomes.of(pool.probabilities[i], pool.listed_rewards[i], None if g is None else g[i], pool.gram[i])
        for i in range(len(pool.rewards))
    ]
    if max(instance.multisets(cell["n"]) for instance in outcomes) > MULTISETS:
        return None
    exact = [_exact_unit(instance, cell, kind) for instance in outcomes]

    def column(name: str) -> list[float]:
        return [getattr(unit, name) for unit in exact]

    stratum = [0] * len(exact)
    metrics: dict[str, Any] = {
        "against": "complete",
        "is_reference": False,
        "unit": "instance",
        "replicates": 0,
        "units": {"stratum": stratum} | {name: column(name) for name in FIELDS},
        "bias": {"squared": column("squared_bias"), "off_direction": column("off_direction")},
        "tolerance": pool.tolerance,
        "value": float(np.mean(column("value"))),
        "undefined": {},
    }
    return metrics | point_estimates(Units.from_metrics(metrics), metrics["undefined"])


def _exact_unit(outcomes: Outcomes, cell: Mapping[str, Any], kind: str | None) -> ExactUnit:
    def weigh(rewards: Tensor, g: Tensor | None) -> Tensor:
        weights: Tensor = advantages(
            rewards,
            estimator=cell["estimator"],
            baseline=cell["baseline"],
            k=cell["k"],
            trajectory_weights={} if kind is None or g is None else {kind: g},
        )
        return weights

    k = effective_k(cell["estimator"], cell["k"])
    moments = complete_moments(outcomes, cell["n"], weigh)
    mean, target = (
        outcomes.centred(c)
        for c in (moments.coefficients, exact_gradient_weights(outcomes.probabilities, outcomes.rewards, k))
    )
    inner, truth = outcomes.inner(mean, target), outcomes.inner(target, target)
    off = mean - (inner / truth if truth > 0 else 0.0) * target
    return ExactUnit(
        m2=moments.second,
        mean_square=outcomes.inner(mean, mean),
        inner=inner,
        truth=truth,
        value=float(exact_value(outcomes.probabilities, outcomes.rewards, k)),
        # Below rounding a square can come out negative.
        squared_bias=max(0.0, outcomes.inner(mean - target, mean - target)),
        off_direction=max(0.0, outcomes.inner(off, off)),
    )
