"""Metrics of a cell from all possible groups, enumerated: moments and bias per instance.

Index: I instances, A trajectories, S groups, n samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators import effective_sample_size
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights, exact_value
from maxk_lab.gradients.enumerated.moments import MomentSums, Outcomes, Weigh
from maxk_lab.gradients.enumerated.oracle import joint_optimum
from maxk_lab.gradients.enumerated.selection import Selected, selected
from maxk_lab.gradients.fitting import check_on_policy, oracle_coefficients
from maxk_lab.gradients.sampled.groups import Groups
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.gradients.weighted_groups import (
    WeightedGroups,
    cell_record,
    value_estimates,
)
from maxk_lab.statistics.units import FIELDS, Array, Units


class Enumeration:
    """The cells of one pool by enumeration; results that several cells share are cached."""

    def __init__(self, pool: ScorePool, groups: Callable[[int, int], Groups]) -> None:
        """Keep the pool and its groups of (n, partitions), which a cross-fit needs."""
        self._pool, self._groups = pool, groups
        self._outcomes = cache(self._outcomes_of)
        self._value_variance = cache(self._value_variance_of)
        self._relative_sample_size = cache(self._relative_sample_size_of)

    def measure(self, cell: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the metrics, or None if enumeration is impossible.

        Enumeration needs a pool that lists every trajectory, and few enough groups.
        """
        method, n = Method.of(cell), int(cell["n"])
        fits = self._fits(method, n, cell["partitions"]) if self._pool.listed else None
        if fits is None:
            return None
        prompts = [outcomes for outcomes, _, _ in fits]
        remaining = selected(prompts, n, cell.get("selection", "none"))
        rows = [
            _measured(outcomes, weigh, method, n, groups)
            for (outcomes, weigh, _), groups in zip(fits, remaining, strict=True)
        ]
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        names = (*FIELDS, "squared_bias", "off_direction")
        moments: dict[str, Any] = {name: columns.pop(name) for name in names}
        units = Units(
            np.zeros(len(rows), dtype=np.int64),
            **moments,
            tolerance=self._pool.tolerance,
            measures=columns | self._shared(method, n),
            cross_products=self._pool.cross_products(method, n),
        )
        coefficients = [coefficients for _, _, coefficients in fits]
        return cell_record(
            units,
            against="complete",
            is_reference=False,
            replicates=0,
            value=float(np.mean(columns["objective"])),
            coefficients=coefficients if any(row is not None for row in coefficients) else None,
        )

    def _fits(
        self, method: Method, n: int, partitions: int
    ) -> list[tuple[Outcomes, Weigh, list[float] | None]] | None:
        """Return each instance's outcomes, its function of weights, and its coefficients.

        None if there are too many groups. Raises `ValueError` if the method cannot run at this n.
        """
        baseline, fit = method.baseline.row.name, method.fit
        outcomes = [self._outcomes(i, method.needed_weight) for i in range(len(self._pool.parts))]
        method.check_size(n)
        # The method needs the identity of trajectories, so g holds their row in the Gram matrix
        # instead of a weight. Each trajectory is its own class, and `_weigh_of` reads the rows.
        by_row = baseline == "joint_optimum"
        if by_row:
            numbers = [
                torch.arange(len(instance.rewards), dtype=torch.float64) for instance in outcomes
            ]
            outcomes = [
                replace(instance, g=g) for instance, g in zip(outcomes, numbers, strict=True)
            ]
        if not all(instance.enumerable(n) for instance in outcomes):
            return None
        alphas: list[Tensor | None] = [None] * len(outcomes)
        if fit == "cross_fit":
            alphas = list(self._groups(n, partitions).cross_fit(method.k, baseline))
        elif fit is not None and not by_row:
            alphas = [oracle_coefficients(instance, n, method.k, baseline) for instance in outcomes]
        return [
            (instance, _weigh_of(instance, method, n, a), None if a is None else a.tolist())
            for instance, a in zip(outcomes, alphas, strict=True)
        ]

    def _outcomes_of(self, i: int, kind: str | None) -> Outcomes:
        instance = self._pool.parts[i]
        listed = instance.listed
        assert listed is not None
        g = None if kind is None else instance.trajectory_weight(kind, listed=True)
        drawn = (listed.ratios, listed.behaviour) if self._pool.off_policy else (None, None)
        return Outcomes(
            listed.probabilities, listed.rewards, g, instance.products, *drawn
        ).possible()

    def _shared(self, method: Method, n: int) -> dict[str, Array]:
        """Return the measures [I] that do not depend on the baseline."""
        instances = range(len(self._pool.parts))
        objective = method.objective_at(n)
        by_ratios = self._pool.off_policy and method.needs_ratios
        variances = [self._value_variance(i, objective, n, by_ratios) for i in instances]
        measures = {"value_variance": np.array(variances)}
        if self._pool.off_policy:
            sizes = [self._relative_sample_size(i, n) for i in instances]
            measures["effective_sample_size"] = np.array(sizes)
        return measures

    def _value_variance_of(self, i: int, objective: Objective, n: int, by_ratios: bool) -> float:
        """Return Var of the objective's estimate over groups of n, with ratios if `by_ratios`."""
        outcomes = self._outcomes(i, None)
        chances = outcomes.probabilities if by_ratios else outcomes.drawn
        if not by_ratios:  # the fewest classes that the estimate can distinguish
            outcomes = replace(outcomes, ratios=None)
        mean = exact_value(chances, outcomes.rewards, objective)

        def powers(rewards: Tensor, ratios: Tensor | None) -> Tensor:
            distances = value_estimates(objective, rewards, ratios) - mean
            return torch.stack([distances, distances.square()], 1)

        first, second = outcomes.classes.expectation(n, powers).tolist()
        return float(second - first**2)

    def _relative_sample_size_of(self, i: int, n: int) -> float:
        """Return the mean effective sample size of groups of n, as a share of n."""
        classes = self._outcomes(i, None).classes
        return float(classes.expectation(n, lambda _, ratios: effective_sample_size(ratios))) / n


def _weigh_of(outcomes: Outcomes, method: Method, n: int, alpha: Tensor | None) -> Weigh:
    """Return the function from groups to weights, with coefficients `alpha` or fitted ones."""
    best, kind, baseline = None, method.needed_weight, method.baseline.row.name
    if method.uses_other_prompts:
        raise LabError(f"{baseline} needs groups of other instances: set complete: false")
    if baseline == "joint_optimum":
        check_on_policy(outcomes)
        best = joint_optimum(outcomes, n, method.k)

    def weigh(rewards: Tensor, g: Tensor | None, ratios: Tensor | None) -> Tensor:
        if alpha is not None:
            return method.weights(rewards, coefficients=alpha)
        if method.fit is None:
            by_kind = {} if kind is None or g is None else {kind: g}
            if ratios is None and method.needs_ratios:
                ratios = torch.ones_like(rewards)
            ratios = ratios if method.needs_ratios else None
            return method.weights(rewards, trajectory_weights=by_kind, ratios=ratios)
        assert g is not None
        assert best is not None
        return best.weights(rewards, g.long())  # `g` holds the rows; see `_fits`

    return weigh


def _measured(
    outcomes: Outcomes, weigh: Weigh, method: Method, n: int, selection: Selected
) -> dict[str, float]:
    """Return moments, bias and measures of single groups of one instance, in one pass."""
    classes = outcomes.classes
    sums = MomentSums(classes)
    # For each measure of single groups: its sum, and the probability of groups with a number.
    totals, counted = defaultdict[str, float](float), defaultdict[str, float](float)
    for rows, chance in classes.groups(n):
        arguments = classes.arguments(rows)
        if (remaining := selection.remaining(arguments[0])) is not None:
            rows, chance = rows[remaining], chance[remaining]
            arguments = classes.arguments(rows)
        weights = weigh(*arguments).double()
        sums.add(rows, chance, weights)
        for name, values in WeightedGroups(weights, arguments[0]).measures().items():
            numbers = values.double()
            totals[name] += float(chance @ numbers.nan_to_num(0.0))
            counted[name] += float(chance @ (~numbers.isnan()).double())
    of_groups = {
        name: total / counted[name] if counted[name] else math.nan for name, total in totals.items()
    }
    return _exact(outcomes, sums, method.objective_at(n), selection) | of_groups


def _exact(
    outcomes: Outcomes, moments: MomentSums, objective: Objective, selection: Selected
) -> dict[str, float]:
    """Return the exact moments, the squared bias, and the squared bias up to a scale.

    These are J, E‖ĝ‖², ‖E ĝ‖², ⟨E ĝ, ∇J⟩, ‖∇J‖², ‖E ĝ − ∇J‖² and min over s of ‖E ĝ − s∇J‖².
    """
    mean = outcomes.centred(moments.coefficients / selection.divisor)
    mean_square = outcomes.inner(mean, mean)
    weights = exact_gradient_weights(outcomes.probabilities, outcomes.rewards, objective)
    gradient = outcomes.centred(weights)
    inner, truth = outcomes.inner(mean, gradient), outcomes.inner(gradient, gradient)
    off = mean - (inner / truth if truth > 0 else 0.0) * gradient
    return {
        "objective": float(exact_value(outcomes.probabilities, outcomes.rewards, objective)),
        "m2": selection.second_moment(moments.second, mean_square),
        "mean_square": mean_square,
        "inner": inner,
        "truth": truth,
        # Rounding can make a square negative.
        "squared_bias": max(0.0, outcomes.inner(mean - gradient, mean - gradient)),
        "off_direction": max(0.0, outcomes.inner(off, off)),
    }
