"""The measures of a gradient estimator, as quadratic forms of its score weights.

Index: I instances, S partitions, B blocks, Rep groups, n samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators import effective_sample_size
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights
from maxk_lab.gradients.enumerated.measures import Enumeration
from maxk_lab.gradients.plain_methods import plain_method
from maxk_lab.gradients.sampled.blocks import Blocks, mean_of_blocks
from maxk_lab.gradients.sampled.groups import Groups, groups_of
from maxk_lab.gradients.sampled.rare_groups import (
    MOST_MULTISETS,
    RareGroups,
    beyond_rounding,
    drawn_number,
)
from maxk_lab.gradients.scores.pool import Listing, ScorePool, proxy_correlations
from maxk_lab.gradients.weighted_groups import WeightedGroups, cell_record, value_estimates
from maxk_lab.statistics.units import FIELDS, Array, Units


def measure_cells(
    pool: ScorePool, cells: Sequence[Mapping[str, Any]], *, seed: int
) -> Iterator[tuple[str, dict[str, Any] | Exception]]:
    """Yield (id, metrics) of every cell, or (id, exception) of one that failed.

    All cells of one n share groups and gathered products.
    """
    proxies = proxy_correlations(pool)

    @lru_cache(maxsize=1)
    def cut(n: int, partitions: int) -> CutPool:
        return CutPool(groups_of(pool, n, partitions, seed))

    enumeration = Enumeration(pool, lambda n, partitions: cut(n, partitions).groups)
    for cell in sorted(cells, key=lambda cell: int(cell["n"])):
        try:
            metrics = enumeration.measure(cell) if cell.get("complete") else None
            if metrics is None:
                if cell.get("selection", "none") != "none":
                    size = "a smaller n" if pool.listed else "fewer trajectories an instance"
                    raise LabError(f"groups are too many to list: selection needs {size}")
                metrics = cut(cell["n"], cell["partitions"]).measure(cell)
            yield cell["id"], metrics | {"proxies": proxies}
        except Exception as error:
            yield cell["id"], error


class CutPool:
    """A pool cut into blocks of groups of n; results that its cells share are cached."""

    def __init__(self, groups: Groups) -> None:
        self.groups, self._pool = groups, groups.pool
        n, replicates = groups.n, groups.replicates
        self._rare = RareGroups(self._pool, n, replicates) if n < MOST_MULTISETS else None
        self._trajectories = cache(self._trajectories_of)
        self._reference_means = cache(self._reference_means_of)

    def measure(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metrics of a cell with this n."""
        pool, groups, method = self._pool, self.groups, Method.of(cell)
        objective = method.objective_at(groups.n)
        coefficients = groups.coefficients(method)
        weights = groups.weights(method, coefficients)
        blocks = self._blocks(weights, objective)
        carrying, rare, rare_alone = self._groups(method, weights, coefficients)
        by_ratios = pool.off_policy and method.needs_ratios
        values = value_estimates(objective, groups.rewards, groups.ratios if by_ratios else None)
        measured = self._measures(weights, values, objective).items()
        measures = {name: mean_of_blocks(column) for name, column in measured}
        units = Units(
            stratum=np.zeros(len(pool.parts), dtype=np.int64),
            **dict(zip(FIELDS, blocks.columns(), strict=True)),
            within=blocks.within(),
            carrying=carrying,
            rare=rare,
            rare_alone=rare_alone,
            measures={name: mean for name, (mean, _) in measures.items()},
            errors={name: error for name, (_, error) in measures.items()},
            groups=len(pool.parts) * groups.replicates,
            cross_products=pool.cross_products(method, groups.n),
        )
        units = replace(units, deviations=blocks.deviations(units.tested))
        reference = self._reference(objective)
        exact = self._exact_values(objective)
        return cell_record(
            units,
            against="exact" if reference is None else f"reference:{_name_of(reference)}",
            is_reference=method == reference,
            replicates=groups.replicates,
            value=float(values.mean() if exact is None else exact.mean()),
            coefficients=None if coefficients is None else coefficients.mean((1, 2, 3)).tolist(),
        )

    def _measures(self, weights: Tensor, values: Tensor, objective: Objective) -> dict[str, Tensor]:
        """Return every measure besides the moments, a number per block [I, B]; NaN if undefined.

        `values` [I, S, B, Rep] are the objective's unbiased estimates from every group.
        """
        groups, pool = self.groups, self._pool
        distances = values - values.mean((2, 3), keepdim=True)
        count = groups.replicates
        exact = self._exact_values(objective)
        measures = {
            "objective": values.mean((1, 3)) if exact is None else self._repeat_by_block(exact),
            # Unbiased for the variance of an estimate.
            "value_variance": distances.square().mean((1, 3)) * count / (count - 1),
        }
        of_groups = WeightedGroups(weights, groups.rewards).measures()
        # NaN if no group of the block has a number.
        measures |= {name: of.double().nanmean((1, 3)) for name, of in of_groups.items()}
        if pool.off_policy:
            sizes = effective_sample_size(groups.ratios) / groups.n
            measures["effective_sample_size"] = sizes.mean((1, 3))
        return measures

    def _groups(
        self, method: Method, weights: Tensor, coefficients: Tensor | None
    ) -> tuple[Array, Array, Array]:
        """The effective number of draws behind each instance's estimate, and rare groups' share.

        Three columns [I]: the number of draws; what the groups add that are rare in all pools
        together; and what the groups add that are rare in the instance's pool. If trajectories are
        listed, the first is an expectation of the policy.
        """
        squares = self.groups.squares(beyond_rounding(weights, self.groups.rewards))
        size = self._pool.rewards.shape[1]
        drawn = drawn_number(squares, self.groups.replicates, size)
        if self._rare is None:
            return drawn, np.zeros(len(drawn)), np.zeros(len(drawn))
        fitted = None if coefficients is None else coefficients[:, 0, 0, 0]
        by_multiset = self._rare.squares(method, fitted)
        if self._pool.listed:
            expected = self._rare.expected_number(by_multiset)
            drawn = np.minimum(expected, self._trajectories(method.objective_at(self.groups.n)))
        return drawn, *self._rare.rare(by_multiset)

    def _trajectories_of(self, objective: Objective) -> Array:
        """Return the expected number of drawn trajectories that carry ∇J of each instance, [I].

        Let s_a = |p_a (f_a − E f)| ‖ψ_a‖, the length that trajectory a adds to ∇J = Σ_a p_a (f_a −
        E f) ψ_a, and b_a the probability to draw it. The effective number of M draws is M (Σ s)² /
        Σ s²/b (Kish).
        """
        listings = [(instance.listed, instance.squared_norms) for instance in self._pool.parts]
        shares = [
            carrying_share(listing, norms, objective)
            for listing, norms in listings
            if listing is not None
        ]
        return self._pool.rewards.shape[1] * np.array(shares)

    def _repeat_by_block(self, values: Tensor) -> Tensor:
        """Return a number per instance [I] for each of its blocks [I, B]."""
        return values.unsqueeze(1).expand(-1, self.groups.blocks)

    def _exact_values(self, objective: Objective) -> Tensor | None:
        """Return the known J [I]."""
        if not self._pool.exact:
            return None
        position = self._pool.objectives.index(objective.name)
        return torch.stack([instance.value[position] for instance in self._pool.parts])

    def _reference(self, objective: Objective) -> Method | None:
        """Return the reference method of the bias; None if the exact gradient is known."""
        if self._pool.exact:
            return None
        return plain_method(objective, self.groups.n, off_policy=self._pool.off_policy)

    def _blocks(self, weights: Tensor, objective: Objective) -> Blocks:
        """Return the estimates of every block, averaged over the partitions."""
        groups = self.groups
        m2 = groups.squares(weights).mean((1, 3))
        means = groups.means(weights)
        square = groups.dots_between_blocks(means, means)
        if self._pool.exact:
            position = self._pool.objectives.index(objective.name)
            # The exact gradient is the same for all pairs of blocks, [I, B, B].
            cross = groups.dot_with_truth(weights, position).unsqueeze(2).expand_as(square)
            norms = torch.stack([instance.norm[position] for instance in self._pool.parts])
            truth = norms.view(-1, 1, 1).expand_as(square)
        else:
            against, truth = self._reference_means(objective)
            cross = groups.dots_between_blocks(means, against)
        arrays = [products.double().numpy() for products in (m2, square, cross, truth)]
        return Blocks(*arrays, exact=self._pool.exact)

    def _reference_means_of(self, objective: Objective) -> tuple[Tensor, Tensor]:
        """Return the mean estimates of the reference method, and their products."""
        reference = self._reference(objective)
        assert reference is not None
        means = self.groups.means(self.groups.weights(reference))
        return means, self.groups.dots_between_blocks(means, means)


def _name_of(method: Method) -> str:
    """Return the reference's name in records: the baseline; with ratios also the estimator."""
    estimator, baseline = method.estimator.name, method.baseline.name
    return f"{estimator} with {baseline}" if method.needs_ratios else baseline


def carrying_share(listed: Listing, squared_norms: Tensor, objective: Objective) -> float:
    """Return the share of draws that effectively carry the gradient, from 0 to 1."""
    possible = (listed.probabilities > 0) & (listed.behaviour > 0)
    p, chance = listed.probabilities[possible], listed.behaviour[possible]
    weights = exact_gradient_weights(p, listed.rewards[possible], objective)
    lengths = squared_norms[possible].clamp(min=0).sqrt()
    size = (weights - p * weights.sum()).abs() * lengths
    squares = float((size.square() / chance).sum())
    return float(size.sum()) ** 2 / squares if squares > 0 else 0.0
