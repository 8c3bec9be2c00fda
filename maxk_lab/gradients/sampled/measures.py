"""The measures of a gradient estimator, as quadratic forms of its score weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxk_lab.estimators import effective_sample_size
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.exact import exact_gradient_weights
from maxk_lab.gradients.enumerated.measures import Enumeration
from maxk_lab.gradients.enumerated.oracle import plain_baseline
from maxk_lab.gradients.sampled.blocks import Blocks, mean_of_blocks, trusted_by
from maxk_lab.gradients.sampled.groups import Groups, groups_of
from maxk_lab.gradients.scores.pool import Listing, ScorePool, proxy_correlations
from maxk_lab.gradients.weighted_groups import WeightedGroups, cell_record, value_estimates
from maxk_lab.statistics.deviations import plain as plain_numbers
from maxk_lab.statistics.units import FIELDS, Array, Units

# Trajectories that must be expected to carry the gradient, effectively, for a test of its estimate:
# with 16, a few draws fewer make the mean and its error small together, and 5 of 12 reports on a
# trained toy LLM called an unbiased estimator biased; with 64 none.
LEAST_CARRYING = 64.0
# A smaller share stands for none at all: the pool that it would take is beyond any number of draws.
_LEAST_SHARE = 1e-60


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
                metrics = cut(cell["n"], cell["partitions"]).measure(cell)
            yield cell["id"], metrics | {"proxies": proxies}
        except Exception as error:
            yield cell["id"], error


class CutPool:
    """A pool cut into blocks of groups of n; what its cells share is worked out once."""

    def __init__(self, groups: Groups) -> None:
        self.groups, self._pool = groups, groups.pool
        self._evidence = cache(self._evidence_of)
        self._reference_means = cache(self._reference_means_of)

    def measure(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metrics of a cell of this n."""
        pool, groups, method = self._pool, self.groups, Method.of(cell)
        wanted = method.objective
        coefficients = groups.coefficients(method)
        weights = groups.weights(method, coefficients)
        blocks, (trusted, pool_for) = self._blocks(weights, wanted), self._evidence(wanted)
        tested_from = pool_for(blocks)
        by_ratios = pool.off_policy and method.needs_ratios
        values = value_estimates(wanted, groups.rewards, groups.ratios if by_ratios else None)
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
            against="exact" if reference is None else f"reference:{_name_of(reference)}",
            is_reference=method == reference,
            replicates=groups.replicates,
            tested_from=plain_numbers(tested_from),
            value=float(values.mean() if exact is None else exact.mean()),
            coefficients=None if coefficients is None else coefficients.mean((1, 2, 3)).tolist(),
        )

    def _measures(self, weights: Tensor, values: Tensor, wanted: Objective) -> dict[str, Tensor]:
        """One number per block of every measure beside the moments, [I, B]; NaN where undefined.

        `values` [I, S, B, Rep] are the objective's unbiased estimates from every group.
        """
        groups, pool = self.groups, self._pool
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
        if pool.off_policy:
            sizes = effective_sample_size(groups.ratios) / groups.n
            measures["effective_sample_size"] = sizes.mean((1, 3))
        return measures

    def _by_block(self, values: Tensor) -> Tensor:
        """A number per instance [I] for each of its blocks [I, B]."""
        return values.unsqueeze(1).expand(-1, self.groups.blocks)

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
        estimator = _unbiased_estimator(wanted, off_policy=self._pool.off_policy)
        return Method.parse(estimator, plain_baseline(self.groups.n, wanted.k), wanted.k)

    def _controls(self, wanted: Objective) -> list[Method]:
        """The methods, unbiased by proof, in which a bias can only be a badly drawn instance."""
        if self._pool.off_policy and not wanted.is_max:
            return []
        estimator = _unbiased_estimator(wanted, off_policy=self._pool.off_policy)
        controls = [Method.parse(estimator, name, wanted.k) for name in ("centred", "subloo")]
        return [control for control in controls if control.refusal(self.groups.n) is None]

    def _evidence_of(
        self, wanted: Objective
    ) -> tuple[NDArray[np.bool_] | None, Callable[[Blocks], Array]]:
        """The instances that show no bias of what is unbiased by proof, and the pools for tests.

        The second is a function of an estimate's blocks. It returns the pool [I] from which on each
        instance is tested for a bias. Where trajectories are not listed it is 0 where these blocks
        and those of the unbiased controls are enough and NaN where not.
        """
        groups, pool, methods = self.groups, self._pool, self._controls(wanted)
        reference = self._reference(wanted)
        others = (method for method in methods if method != reference)
        controls = [self._blocks(groups.weights(method), wanted) for method in others]
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
        groups = self.groups
        m2 = groups.squares(weights).mean((1, 3))
        means = groups.means(weights)
        square = groups.across(means, means)
        if self._pool.exact:
            position = self._pool.objectives.index(wanted.name)
            # The exact gradient is the same for all pairs of blocks, [I, B, B].
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
        means = self.groups.means(self.groups.weights(reference))
        return means, self.groups.across(means, means)


def _unbiased_estimator(wanted: Objective, *, off_policy: bool) -> str:
    """The estimator whose mean stands for the gradient of an objective that is not known.

    Raises `ValueError` where trajectories of another policy have no unbiased estimator.
    """
    if not off_policy:
        return "maxk" if wanted.form == "max" else wanted.form
    if wanted.is_max:
        return "off_policy_maxk"
    raise ValueError(
        f"{wanted.name} under a behaviour policy needs the exact gradient to be judged against: "
        "only the expected maximum has an unbiased estimator with importance ratios"
    )


def _name_of(method: Method) -> str:
    """The reference's name in records: the baseline, for methods with ratios the estimator, too."""
    estimator, baseline = method.estimator.name, method.baseline.name
    return f"{estimator} with {baseline}" if method.needs_ratios else baseline


def pool_to_test(pool: ScorePool, wanted: Objective) -> Array:
    """The least pool [I] in which so many trajectories are expected to carry the gradient.

    For pools whose trajectories are all listed. With s_a = |p_a (f_a − E f)| ‖ψ_a‖, the length that
    trajectory a adds to ∇J = Σ_a p_a (f_a − E f) ψ_a, and b_a the chance of drawing it, M draws
    have effectively M (Σ s)² / Σ s²/b that carry it (Kish): about M b_a where one trajectory is
    all, M where all have alike shares. It follows from the policy alone: instances are not chosen
    by what was drawn of them. Infinite where the gradient is 0.
    """
    listings = [(part.listed, part.squared_norms) for part in pool.parts]
    shares = [carrying_share(one, norms, wanted) for one, norms in listings if one is not None]
    return LEAST_CARRYING / np.array(shares)


def carrying_share(listed: Listing, squared_norms: Tensor, wanted: Objective) -> float:
    """How many draws effectively carry the gradient, by draw: from 0, as `_LEAST_SHARE`, to 1."""
    possible = (listed.probabilities > 0) & (listed.behaviour > 0)
    p, chance = listed.probabilities[possible], listed.behaviour[possible]
    weights = exact_gradient_weights(p, listed.rewards[possible], wanted)
    lengths = squared_norms[possible].clamp(min=0).sqrt()
    size = (weights - p * weights.sum()).abs() * lengths
    squares = float((size.square() / chance).sum())
    return max(float(size.sum()) ** 2 / squares, _LEAST_SHARE) if squares > 0 else _LEAST_SHARE
