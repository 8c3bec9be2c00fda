"""The metrics of a cell whose groups are all enumerated: moments, bias, anatomy, per instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.estimators import effective_sample_size, objective_estimate, off_policy_value
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.anatomy import anatomy
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights, exact_value
from maxk_lab.gradients.enumerated.moments import MomentSums, Outcomes, Weigh
from maxk_lab.gradients.fitting import EnumeratedFit, SampledFits, enumerated_fits
from maxk_lab.gradients.scores.behaviour import listed_divergence
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.gradients.weighted_groups import GroupSums, WeightedGroups
from maxk_lab.statistics.moments import point_estimates
from maxk_lab.statistics.units import Array, Units


class Enumeration:
    """The cells of one pool by enumeration; what several share is worked out once."""

    def __init__(self, pool: ScorePool, sampled: Callable[[int, int], SampledFits]) -> None:
        """`sampled` gives what the pool's groups of n fit, under so many partitions."""
        self._pool, self._sampled = pool, sampled
        self._outcomes = cache(self._outcomes_of)
        self._value_variance = cache(self._value_variance_of)
        self._relative_sample_size = cache(self._relative_sample_size_of)

    def measure(self, cell: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the metrics, or None.

        None is for a pool that does not list every trajectory and for too many groups.
        """
        if not self._pool.listed:
            return None
        method, n = Method.of(cell), int(cell["n"])
        kind = method.needed_weight
        outcomes = [self._outcomes(i, kind) for i in range(len(self._pool.parts))]
        fits: list[EnumeratedFit] | None
        if method.fit is None:
            weigh = _weigh_of(method)
            fits = [EnumeratedFit(instance, weigh, None) for instance in outcomes]
        else:
            fits = enumerated_fits(
                outcomes, method, n, partial(self._sampled, n, cell["partitions"])
            )
        ordered = method.is_ordered
        if fits is None or not all(fit.outcomes.enumerable(n, ordered=ordered) for fit in fits):
            return None
        rows = [_measured(fit, method, n) for fit in fits]
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        units = Units(
            np.zeros(len(rows), dtype=np.int64),
            m2=columns.pop("m2"),
            mean_square=columns.pop("mean_square"),
            inner=columns.pop("inner"),
            truth=columns.pop("truth"),
            squared_bias=columns.pop("squared_bias"),
            off_direction=columns.pop("off_direction"),
            tolerance=self._pool.tolerance,
            measures=columns | self._shared(method, n),
        )
        coefficients = [fit.coefficients for fit in fits]
        return cell_record(
            units,
            against="complete",
            is_reference=False,
            replicates=0,
            value=float(np.mean(columns["objective"])),
            coefficients=coefficients if any(row is not None for row in coefficients) else None,
        )

    def _outcomes_of(self, i: int, kind: str | None) -> Outcomes:
        part = self._pool.parts[i]
        listed = part.listed
        assert listed is not None
        g = None if kind is None else part.trajectory_weight(kind, listed=True)
        drawn = (listed.ratios, listed.behaviour) if self._pool.off_policy else (None, None)
        return Outcomes.of(listed.probabilities, listed.rewards, g, part.products, *drawn)

    def _shared(self, method: Method, n: int) -> dict[str, Array]:
        """The measures [I] that do not depend on the baseline."""
        instances = range(len(self._pool.parts))
        by_ratios = self._pool.off_policy and method.needs_ratios
        variances = [self._value_variance(i, method.objective, n, by_ratios) for i in instances]
        measures = {"value_variance": np.array(variances)}
        if self._pool.off_policy:
            sizes = [self._relative_sample_size(i, n) for i in instances]
            measures["effective_sample_size"] = np.array(sizes)
            for name, values in listed_divergence(self._pool).items():
                measures[name] = values.numpy()
        return measures

    def _value_variance_of(self, i: int, wanted: Objective, n: int, by_ratios: bool) -> float:
        """Return Var of the objective's estimate over groups of n; `by_ratios`: with ratios."""
        outcomes = self._outcomes(i, None)
        chances = outcomes.probabilities if by_ratios else outcomes.drawn
        if not by_ratios:  # the fewest classes that the estimate can tell apart
            outcomes = replace(outcomes, ratios=None)
        mean = exact_value(chances, outcomes.rewards, wanted)

        def powers(rewards: Tensor, ratios: Tensor | None) -> Tensor:
            values = (
                objective_estimate(rewards, wanted)
                if ratios is None
                else off_policy_value(rewards, ratios, wanted.k)
            )
            return torch.stack([values - mean, (values - mean).square()], 1)

        first, second = outcomes.classes.expectation(n, powers).tolist()
        return float(second - first**2)

    def _relative_sample_size_of(self, i: int, n: int) -> float:
        """The mean effective sample size of groups of n, as a share of n."""

        def size(rewards: Tensor, ratios: Tensor | None) -> Tensor:
            assert ratios is not None
            return effective_sample_size(ratios)

        return float(self._outcomes(i, None).classes.expectation(n, size)) / n


def _weigh_of(method: Method) -> Weigh:
    """The weights of groups by their rewards, trajectory weights and ratios."""
    kind = method.needed_weight

    def weigh(rewards: Tensor, g: Tensor | None, ratios: Tensor | None) -> Tensor:
        if not method.needs_ratios:
            ratios = None
        elif ratios is None:
            ratios = torch.ones_like(rewards)
        given = {} if kind is None or g is None else {kind: g}
        return method.weights(rewards, trajectory_weights=given, ratios=ratios)

    return weigh


def _measured(fit: EnumeratedFit, method: Method, n: int) -> dict[str, float]:
    """Moments, bias, measures of single groups and anatomy of one instance, in one pass."""
    classes = fit.outcomes.classes
    sums, of_groups, mixed = MomentSums(classes), GroupSums(), 0.0
    weigh_plain, plain = None, None
    if method.takes_baseline and method.baseline.name != "none":
        weigh_plain = _weigh_of(Method.parse(method.estimator.name, "none", method.k))
        plain = MomentSums(classes)
    for rows, chance in classes.groups(n, ordered=method.is_ordered):
        arguments, form = classes.arguments(rows), classes.forms(rows)
        weights = fit.weigh(*arguments).double()
        sums.add(rows, chance, weights, form)
        of_groups.add(WeightedGroups(weights, arguments[0]), chance)
        if plain is not None and weigh_plain is not None:
            without = weigh_plain(*arguments).double()
            plain.add(rows, chance, without, form)
            mixed += float(chance @ form(without, weights))
    parts = asdict(anatomy(fit.outcomes, n, sums, plain, mixed))
    return _exact(fit.outcomes, sums, method.objective) | of_groups.means() | parts


def _exact(outcomes: Outcomes, moments: MomentSums, wanted: Objective) -> dict[str, float]:
    """J, E‖ĝ‖², ‖E ĝ‖², ⟨E ĝ, ∇J⟩, ‖∇J‖², ‖E ĝ − ∇J‖² and the least ‖E ĝ − s∇J‖² over s."""
    mean = outcomes.centred(moments.coefficients)
    weights = exact_gradient_weights(outcomes.probabilities, outcomes.rewards, wanted)
    gradient = outcomes.centred(weights)
    inner, truth = outcomes.inner(mean, gradient), outcomes.inner(gradient, gradient)
    off = mean - (inner / truth if truth > 0 else 0.0) * gradient
    return {
        "objective": float(exact_value(outcomes.probabilities, outcomes.rewards, wanted)),
        "m2": moments.second,
        "mean_square": outcomes.inner(mean, mean),
        "inner": inner,
        "truth": truth,
        # Below rounding a square can come out negative.
        "squared_bias": max(0.0, outcomes.inner(mean - gradient, mean - gradient)),
        "off_direction": max(0.0, outcomes.inner(off, off)),
    }


def cell_record(units: Units, *, coefficients: list[Any] | None, **rest: Any) -> dict[str, Any]:
    """The metrics of a cell: its units, point estimates, fitted coefficients and the `rest`.

    A point estimate that is undefined is None, with its reason under `undefined`.
    """
    undefined: dict[str, str] = {}
    metrics = rest | {"undefined": undefined}
    if coefficients is not None:
        metrics["coefficients"] = coefficients
    return metrics | units.as_record() | point_estimates(units, undefined)
