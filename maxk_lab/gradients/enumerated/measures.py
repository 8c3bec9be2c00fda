"""The metrics of a cell whose groups are all enumerated: moments, bias, anatomy, per instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from maxk_lab.estimators import effective_sample_size, objective_estimate, off_policy_value
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.anatomy import Anatomy, AnatomySums
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights, exact_value
from maxk_lab.gradients.enumerated.moments import CompleteMoments, MomentSums, Outcomes, Weigh
from maxk_lab.gradients.enumerated.weighing import plain_weigh_of, weigh_of
from maxk_lab.gradients.fitting import SampledFits, enumerated_fits
from maxk_lab.gradients.scores.behaviour import divergence, ratio_std
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.gradients.weighted_groups import GroupSums, WeightedGroups
from maxk_lab.statistics.points import point_estimates
from maxk_lab.statistics.units import Array, Units


@dataclass(frozen=True)
class ExactUnit:
    """The exact numbers of one instance.

    They are E‖ĝ‖², ‖E ĝ‖², ⟨E ĝ, ∇J⟩, ‖∇J‖², J, ‖E ĝ − ∇J‖² and the least ‖E ĝ − s∇J‖² over s.
    """

    m2: float
    mean_square: float
    inner: float
    truth: float
    value: float
    squared_bias: float
    off_direction: float


class Enumeration:
    """The cells of one pool by enumeration; what several share is worked out once."""

    def __init__(self, pool: ScorePool, sampled: Callable[[int, int], SampledFits]) -> None:
        """`sampled` gives what the pool's groups of n fit, under so many partitions."""
        self._pool, self._sampled = pool, sampled
        self._off_policy = pool.off_policy
        self._outcomes = cache(self._outcomes_of)
        self._value_variance = cache(self._value_variance_of)
        self._relative_sample_size = cache(self._relative_sample_size_of)

    def measure(self, cell: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the metrics, or None.

        None is for a pool that does not list every trajectory and for too many groups.
        """
        if not self._pool.listed:
            return None
        planned = self._plan(cell)
        if planned is None:
            return None
        outcomes, weighs, coefficients = planned
        method = Method.of(cell)
        ordered = method.is_ordered
        if not all(instance.enumerable(cell["n"], ordered=ordered) for instance in outcomes):
            return None
        target = method.objective
        plain = plain_weigh_of(cell)
        exact, measured = [], []
        for instance, weigh in zip(outcomes, weighs, strict=True):
            moments, of_groups, anatomy = _sums(instance, cell["n"], weigh, plain, ordered=ordered)
            exact.append(_exact_unit(instance, moments, target))
            measured.append(of_groups | asdict(anatomy))
        return self._metrics(cell, target, exact, measured, coefficients)

    def _plan(
        self, cell: Mapping[str, Any]
    ) -> tuple[list[Outcomes], list[Weigh], list[list[float] | None]] | None:
        """Return outcomes, weights and fitted coefficients of every instance.

        None is for a fit that would take too many groups.
        """
        method = Method.of(cell)
        kind = method.needed_weight
        outcomes = [self._outcomes(i, kind) for i in range(len(self._pool.rewards))]
        if method.fit is None:
            return outcomes, [weigh_of(cell, kind)] * len(outcomes), [None] * len(outcomes)
        fits = enumerated_fits(
            outcomes, cell, partial(self._sampled, cell["n"], cell["partitions"])
        )
        if fits is None:
            return None
        return (
            [fit.outcomes for fit in fits],
            [fit.weigh for fit in fits],
            [fit.coefficients for fit in fits],
        )

    def _outcomes_of(self, i: int, kind: str | None) -> Outcomes:
        pool = self._pool
        g = None if kind is None else pool.listed_weight(kind)[i]
        drawn = (pool.listed_ratios[i], pool.behaviour[i]) if self._off_policy else (None, None)
        return Outcomes.of(pool.probabilities[i], pool.listed_rewards[i], g, pool.gram[i], *drawn)

    def _metrics(
        self,
        cell: Mapping[str, Any],
        target: Objective,
        exact: Sequence[ExactUnit],
        measured: Sequence[dict[str, float]],
        coefficients: Sequence[list[float] | None],
    ) -> dict[str, Any]:
        def column(name: str) -> Array:
            return np.array([getattr(unit, name) for unit in exact])

        units = Units(
            np.zeros(len(exact), dtype=np.int64),
            m2=column("m2"),
            mean_square=column("mean_square"),
            inner=column("inner"),
            truth=column("truth"),
            squared_bias=column("squared_bias"),
            off_direction=column("off_direction"),
            tolerance=self._pool.tolerance,
            measures=self._measures(cell, target, exact, measured),
        )
        undefined: dict[str, str] = {}
        metrics: dict[str, Any] = {
            "against": "complete",
            "is_reference": False,
            "replicates": 0,
            "value": float(np.mean(column("value"))),
            "undefined": undefined,
        }
        if any(row is not None for row in coefficients):
            metrics["coefficients"] = list(coefficients)
        return metrics | units.as_record() | point_estimates(units, undefined)

    def _measures(
        self,
        cell: Mapping[str, Any],
        target: Objective,
        exact: Sequence[ExactUnit],
        measured: Sequence[Mapping[str, float]],
    ) -> dict[str, Array]:
        """One value per instance of every measure beside the moments; NaN where undefined."""
        n, instances = int(cell["n"]), range(len(exact))
        by_ratios = self._off_policy and Method.of(cell).needs_ratios
        columns: dict[str, Sequence[float]] = {
            "objective": [unit.value for unit in exact],
            "value_variance": [self._value_variance(i, target, n, by_ratios) for i in instances],
        }
        columns |= {name: [unit[name] for unit in measured] for name in measured[0]}
        if self._off_policy:
            drawn, ratios = self._pool.behaviour, self._pool.listed_ratios
            columns |= {
                "effective_sample_size": [self._relative_sample_size(i, n) for i in instances],
                "kl": divergence(drawn, ratios).tolist(),
                "ratio_std": ratio_std(drawn, ratios).tolist(),
            }
        return {name: np.array(column, dtype=float) for name, column in columns.items()}

    def _value_variance_of(self, i: int, target: Objective, n: int, by_ratios: bool) -> float:
        """Return Var of the objective's estimate over groups of n; `by_ratios`: with ratios."""
        outcomes = self._outcomes(i, None)
        chances = outcomes.probabilities if by_ratios else outcomes.drawn
        if not by_ratios:  # the fewest classes that the estimate can tell apart
            outcomes = replace(outcomes, ratios=None)
        classes = outcomes.table
        mean = exact_value(chances, outcomes.rewards, target)
        first, second = 0.0, 0.0
        for rows, chance in classes.groups(n):
            rewards, _, ratios = classes.arguments(rows)
            values = (
                objective_estimate(rewards, target)
                if ratios is None
                else off_policy_value(rewards, ratios, target.k)
            )
            first += float(chance @ (values - mean))
            second += float(chance @ (values - mean).square())
        return second - first**2

    def _relative_sample_size_of(self, i: int, n: int) -> float:
        """The mean effective sample size of groups of n, as a share of n."""
        classes = self._outcomes(i, None).table
        total = 0.0
        for rows, chance in classes.groups(n):
            _, _, ratios = classes.arguments(rows)
            assert ratios is not None
            total += float(chance @ effective_sample_size(ratios))
        return total / n


def _sums(
    outcomes: Outcomes, n: int, weigh: Weigh, plain: Weigh | None, *, ordered: bool
) -> tuple[CompleteMoments, dict[str, float], Anatomy]:
    """The moments, the measures of single groups and the anatomy of one instance."""
    classes = outcomes.table
    moments, parts, of_groups = MomentSums(classes), AnatomySums(classes, n), GroupSums()
    for rows, chance in classes.groups(n, ordered=ordered):
        arguments = classes.arguments(rows)
        weights = weigh(*arguments).double()
        form = classes.forms(rows)
        moments.add(rows, chance, weights, form)
        parts.add(
            rows, chance, weights, None if plain is None else plain(*arguments).double(), form
        )
        of_groups.add(WeightedGroups(weights, arguments[0]), chance)
    found = moments.moments()
    return found, of_groups.means(), parts.anatomy(outcomes, found)


def _exact_unit(outcomes: Outcomes, moments: CompleteMoments, target: Objective) -> ExactUnit:
    mean, gradient = (
        outcomes.centred(c)
        for c in (
            moments.coefficients,
            exact_gradient_weights(outcomes.probabilities, outcomes.rewards, target),
        )
    )
    inner, truth = outcomes.inner(mean, gradient), outcomes.inner(gradient, gradient)
    off = mean - (inner / truth if truth > 0 else 0.0) * gradient
    return ExactUnit(
        m2=moments.second,
        mean_square=outcomes.inner(mean, mean),
        inner=inner,
        truth=truth,
        value=float(exact_value(outcomes.probabilities, outcomes.rewards, target)),
        # Below rounding a square can come out negative.
        squared_bias=max(0.0, outcomes.inner(mean - gradient, mean - gradient)),
        off_direction=max(0.0, outcomes.inner(off, off)),
    )
