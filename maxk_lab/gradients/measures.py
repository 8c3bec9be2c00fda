"""Everything the lab says about an estimator's gradient, as quadratic forms in the Gram matrix (estimators.md §8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.estimators import advantages, maxk_reward_estimate
from maxk_lab.estimators.catalogue import effective_k, needed_weight
from maxk_lab.gradients.enumerated import measure_enumerated
from maxk_lab.gradients.points import point_estimates
from maxk_lab.gradients.pool import ScorePool
from maxk_lab.gradients.proxies import proxy_correlations
from maxk_lab.gradients.units import FIELDS, Units
from maxk_lab.seeds import derive_seed

# With fewer instances than this, blocks of the pool are resampled instead.
MIN_INSTANCES = 12
MAX_BLOCKS = 16


@dataclass(frozen=True)
class Layout:
    """The pool cut for one n: `units` equal, disjoint parts (instances, or blocks of them), each into groups of n.

    order [S, I, U, Rep, n]: for each of S random partitions, positions in the pool of the members of each group.
    """

    order: Tensor
    stratum: list[int]
    unit: str


def pool_layout(pool: ScorePool, n: int, partitions: int, seed: int) -> Layout:
    """Random disjoint groups of n. Raises `ValueError` when a unit has fewer than two groups.

    The pool is i.i.d., so its blocks are cut in drawing order; only the grouping inside a unit is random.
    """
    instances, size = pool.rewards.shape
    blocks = 1 if instances >= MIN_INSTANCES else max(1, min(MAX_BLOCKS, size // (4 * n)))
    block_size = size // blocks
    groups = block_size // n
    if groups < 2:
        raise ValueError(f"a pool of {size} holds {groups} group of n = {n}; at least 2 are needed")
    generator = torch.Generator().manual_seed(derive_seed("partitions", seed, n))
    order = torch.stack(
        [
            torch.stack(
                [
                    torch.randperm(block_size, generator=generator)[: groups * n] + b * block_size
                    for b in range(blocks)
                ]
            )
            for _ in range(partitions * instances)
        ]
    ).view(partitions, instances, blocks, groups, n)
    by_block = blocks > 1
    stratum = [i for i in range(instances) for _ in range(blocks)] if by_block else [0] * instances
    return Layout(order, stratum, "block" if by_block else "instance")


def measure_cells(
    pool: ScorePool, cells: Sequence[Mapping[str, Any]], *, seed: int
) -> Iterator[tuple[str, dict[str, Any] | Exception]]:
    """(id, metrics) of every cell, or (id, exception) of one that failed; all cells of one n share groups and gathered products."""
    proxies = proxy_correlations(pool)

    @lru_cache(maxsize=1)
    def groups(n: int, partitions: int) -> tuple[Layout, list[GroupedForms]]:
        layout = pool_layout(pool, n, partitions, seed)
        return layout, [GroupedForms(pool, order) for order in layout.order]

    for cell in sorted(cells, key=lambda cell: int(cell["n"])):
        try:
            metrics = measure_enumerated(pool, cell) if cell.get("complete") else None
            if metrics is None:
                metrics = _measure(pool, *groups(cell["n"], cell["partitions"]), cell)
            yield cell["id"], metrics | {"proxies": proxies}
        except Exception as error:
            yield cell["id"], error


class GroupedForms:
    """Quadratic forms of weights on groups of n under one partition: order [I, U, Rep, n]."""

    def __init__(self, pool: ScorePool, order: Tensor) -> None:
        instances, self.blocks, self.replicates, self.n = order.shape
        flat = order.reshape(instances, -1)
        self.rewards = pool.rewards.gather(1, flat).view(order.shape)
        self.rows = pool.rows.gather(1, flat).view(order.shape)
        self.table = pool.gram
        distinct = pool.gram.shape[1]
        pairs = (self.rows.unsqueeze(-1) * distinct + self.rows.unsqueeze(-2)).reshape(instances, -1)
        self.gram = pool.gram.view(instances, -1).gather(1, pairs).view(*order.shape, self.n)
        self._pool, self._flat = pool, flat

    def weights(self, estimator: str, baseline: str, k: int) -> Tensor:
        """The weights of every group, [I, U, Rep, n]."""
        kind = needed_weight(estimator, baseline)
        g = {} if kind is None else {kind: self._pool.trajectory_weight(kind).gather(1, self._flat)}
        weights: Tensor = advantages(
            self.rewards,
            estimator=estimator,
            baseline=baseline,
            k=k,
            trajectory_weights={kind: values.view(self.rewards.shape) for kind, values in g.items()},
        )
        return weights

    def within(self, a: Tensor, b: Tensor) -> Tensor:
        """Σ_r ⟨ĝ_r(a), ĝ_r(b)⟩ per unit: weights [I, U, Rep, n] → [I, U]."""
        return torch.einsum("iurm,iurmk,iurk->iu", a, self.gram, b)

    def totals(self, weights: Tensor) -> Tensor:
        """Σ_r ĝ_r as weights on the distinct trajectories: [I, U, A]."""
        sums = weights.new_zeros(len(weights), self.blocks, self.table.shape[1])
        return sums.scatter_add_(2, self.rows.flatten(2), weights.flatten(2))

    def across(self, total_a: Tensor, total_b: Tensor, within: Tensor) -> Tensor:
        """mean_{r≠s} ⟨ĝ_r(a), ĝ_s(b)⟩ per unit, unbiased for ⟨E ĝ(a), E ĝ(b)⟩: [I, U]."""
        product = torch.einsum("iua,iab,iub->iu", total_a, self.table, total_b)
        return (product - within) / (self.replicates * (self.replicates - 1))


def _measure(
    pool: ScorePool, layout: Layout, forms: Sequence[GroupedForms], cell: Mapping[str, Any]
) -> dict[str, Any]:
    k = effective_k(cell["estimator"], cell["k"])
    reference = "centred" if k < cell["n"] else "subloo"
    columns = torch.stack([_unit_columns(pool, form, cell, k, reference) for form in forms]).mean(0)
    units = Units(np.asarray(layout.stratum), *columns.numpy())
    values = [maxk_reward_estimate(form.rewards, k).mean() for form in forms]
    position = pool.ks.index(k) if pool.exact else None
    metrics: dict[str, Any] = {
        "against": "exact" if pool.exact else f"reference:{reference}",
        "is_reference": not pool.exact and (cell["estimator"], cell["baseline"]) == ("maxk", reference),
        "unit": layout.unit,
        "replicates": forms[0].replicates,
        "units": {"stratum": layout.stratum} | {name: getattr(units, name).tolist() for name in FIELDS},
        "value": float(torch.stack(values).mean())
        if position is None
        else float(pool.value[:, position].mean()),
        "undefined": {},
    }
    return metrics | point_estimates(units, metrics["undefined"])


def _unit_columns(
    pool: ScorePool, form: GroupedForms, cell: Mapping[str, Any], k: int, reference: str
) -> Tensor:
    """m2, mean square, inner and truth of every unit: [4, I·U]."""
    weights = form.weights(cell["estimator"], cell["baseline"], cell["k"])
    within, total = form.within(weights, weights), form.totals(weights)
    mean_square = form.across(total, total, within)
    if pool.exact:
        position = pool.ks.index(k)
        inner = torch.einsum("iua,ia->iu", total, pool.inner[..., position]) / form.replicates
        truth = pool.norm[:, position : position + 1].expand_as(inner)
    else:
        against = form.weights("maxk", reference, k)
        total_against = form.totals(against)
        inner = form.across(total, total_against, form.within(weights, against))
        truth = form.across(total_against, total_against, form.within(against, against))
    return torch.stack([within / form.replicates, mean_square, inner, truth]).flatten(1)
