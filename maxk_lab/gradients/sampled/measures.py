"""The measures of a gradient estimator, as quadratic forms of its score weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxk_lab.estimators import effective_sample_size, objective_estimate, off_policy_value
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.measures import Enumeration, cell_record
from maxk_lab.gradients.fitting import SampledFits
from maxk_lab.gradients.sampled.blocks import (
    Blocks,
    mean_of_blocks,
    trusted_by,
)
from maxk_lab.gradients.sampled.groups import Groups, groups_of
from maxk_lab.gradients.sampled.references import (
    control_methods,
    pool_to_test,
    reference_method,
    reference_name,
)
from maxk_lab.gradients.scores.behaviour import divergence, listed_divergence
from maxk_lab.gradients.scores.pool import ScorePool, proxy_correlations
from maxk_lab.gradients.weighted_groups import WeightedGroups
from maxk_lab.statistics.deviations import plain
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

    enumeration = Enumeration(pool, lambda n, partitions: cut(n, partitions).fits)
    for cell in sorted(cells, key=lambda cell: int(cell["n"])):
        try:
            metrics = enumeration.measure(cell) if cell.get("complete") else None
            if metrics is None:
                metrics = cut(cell["n"], cell["partitions"]).measure(cell)
            yield cell["id"], metrics | {"proxies": proxies}
        except Exception as error:
            yield cell["id"], error


class CutPool:
    """A pool cut into blocks of groups of n; what its cells share is worked out once."""

    def __init__(self, groups: Groups) -> None:
        self._groups, self._pool = groups, groups.pool
        self._evidence = cache(self._evidence_of)
        self._reference_means = cache(self._reference_means_of)
        self.fits = SampledFits(groups)

    def measure(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metrics of a cell of this n."""
        pool, groups, method = self._pool, self._groups, Method.of(cell)
        wanted = method.objective
        coefficients = self.fits.coefficients(method)
        weights = groups.weights(method, coefficients)
        blocks, (trusted, pool_for) = self._blocks(weights, wanted), self._evidence(wanted)
        tested_from = pool_for(blocks)
        values: Tensor = (
            off_policy_value(groups.rewards, groups.ratios, wanted.k)
            if pool.off_policy and method.needs_ratios
            else objective_estimate(groups.rewards, wanted)
        )
        measured = self._measures(weights, values, wanted).items()
        measures = {name: mean_of_blocks(column) for name, column in measured}
        units = Units(
            stratum=np.zeros(len(pool.parts), dtype=np.int64),
            **dict(zip(FIELDS, blocks.columns(), strict=True)),
            within=blocks.within(),
            deviations=blocks.deviations(trusted, tested_from <= pool.rewards.shape[1]),
            measures={name: mean for name, (mean, _) in measures.items()},
            errors={name: error for name, (_, error) in measures.items()},
            groups=len(pool.parts) * groups.replicates,
        )
        reference = self._reference(wanted)
        exact = self._exact_values(wanted)
        return cell_record(
            units,
            against="exact" if reference is None else f"reference:{reference_name(reference)}",
            is_reference=method == reference,
            replicates=groups.replicates,
            tested_from=plain(tested_from),
            value=float(values.mean() if exact is None else exact.mean()),
            coefficients=None if coefficients is None else coefficients.mean((1, 2, 3)).tolist(),
        )

    def _measures(self, weights: Tensor, values: Tensor, wanted: Objective) -> dict[str, Tensor]:
        """One number per block of every measure beside the moments, [I, U]; NaN where undefined.

        `values` [I, S, U, Rep] are the objective's unbiased estimates from every group.
        """
        groups, pool = self._groups, self._pool
        far = values - values.mean((2, 3), keepdim=True)
        count = groups.replicates
        exact = self._exact_values(wanted)
        measures = {
            "objective": values.mean((1, 3)) if exact is None else self._by_block(exact),
            # Unbiased for the variance of an estimate.
            "value_variance": far.square().mean((1, 3)) * count / (count - 1),
        }
        of_groups = WeightedGroups(weights, groups.rewards).measures()
        # NaN where no group of the block has a number.
        measures |= {name: of.double().nanmean((1, 3)) for name, of in of_groups.items()}
        if not pool.off_policy:
            return measures
        sizes = effective_sample_size(groups.ratios) / groups.n
        measures["effective_sample_size"] = sizes.mean((1, 3))
        if pool.listed:
            return measures | {
                name: self._by_block(column) for name, column in listed_divergence(pool).items()
            }
        ratios = groups.ratios[:, 0].flatten(2)
        chance = torch.full_like(ratios, 1 / ratios.shape[2])
        deviation = ratios.flatten(1).std(1, keepdim=True)
        return measures | {"kl": divergence(chance, ratios), "ratio_std": deviation}

    def _by_block(self, values: Tensor) -> Tensor:
        """A number per instance [I] for each of its blocks [I, U]."""
        return values.unsqueeze(1).expand(-1, self._groups.blocks)

    def _exact_values(self, wanted: Objective) -> Tensor | None:
        """J [I] where it is known."""
        if not self._pool.exact:
            return None
        position = self._pool.objectives.index(wanted.name)
        return torch.stack([part.value[position] for part in self._pool.parts])

    def _reference(self, wanted: Objective) -> Method | None:
        """The method that is judged against, None where the exact gradient is known."""
        if self._pool.exact:
            return None
        return reference_method(wanted, self._groups.n, off_policy=self._pool.off_policy)

    def _evidence_of(
        self, wanted: Objective
    ) -> tuple[NDArray[np.bool_] | None, Callable[[Blocks], Array]]:
        """The instances that show no bias of what is unbiased by proof, and the pools for tests.

        These are a function of the blocks of an estimate: the pool [I] from which on each instance
        is tested for a bias. Where trajectories are not listed it is 0 where these blocks and those
        of the unbiased controls are enough and NaN where not.
        """
        groups, pool = self._groups, self._pool
        methods = control_methods(wanted, groups.n, off_policy=pool.off_policy)
        reference = self._reference(wanted)
        controls = [
            self._blocks(groups.weights(method), wanted)
            for method in methods
            if method != reference
        ]
        trusted = trusted_by(controls)
        if pool.listed:
            needed = pool_to_test(pool, wanted)
            return trusted, lambda blocks: needed
        plain: Array | float = -np.inf
        if methods:
            without = Method.parse(methods[0].estimator.name, "none", wanted.k)
            plain = self._blocks(groups.weights(without), wanted).columns()[0]

        def tested_from(blocks: Blocks) -> Array:
            carried = np.all([one.carried() for one in (blocks, *controls)], axis=0)
            return np.where(carried & blocks.above_rounding_of(plain), 0.0, np.nan)

        return trusted, tested_from

    def _blocks(self, weights: Tensor, wanted: Objective) -> Blocks:
        """The estimates of every block, means over the partitions."""
        groups = self._groups
        m2 = groups.squares(weights).mean((1, 3))
        means = groups.means(weights)
        square = groups.across(means, means)
        if self._pool.exact:
            position = self._pool.objectives.index(wanted.name)
            cross = groups.toward(weights, position).unsqueeze(2).expand_as(square)
            norms = torch.stack([part.norm[position] for part in self._pool.parts])
            other = norms.view(-1, 1, 1).expand_as(square)
        else:
            against, other = self._reference_means(wanted)
            cross = groups.across(means, against)
        arrays = [part.double().numpy() for part in (m2, square, cross, other)]
        return Blocks(*arrays, exact=self._pool.exact)

    def _reference_means_of(self, wanted: Objective) -> tuple[Tensor, Tensor]:
        """The mean estimates of the method that is judged against, and their products."""
        reference = self._reference(wanted)
        assert reference is not None
        means = self._groups.means(self._groups.weights(reference))
        return means, self._groups.across(means, means)
