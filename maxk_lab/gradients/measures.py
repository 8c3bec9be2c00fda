"""Everything the lab says about an estimator's gradient, as quadratic forms in the Gram matrix (estimators.md §8)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.estimators import advantages, maxk_reward_estimate
from maxk_lab.estimators.catalogue import effective_k
from maxk_lab.gradients.pool import ScorePool
from maxk_lab.gradients.statistics import FIELDS, STATISTICS, Units, stratified_mean
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
    for n in sorted({cell["n"] for cell in cells}):
        of_n = [cell for cell in cells if cell["n"] == n]
        try:
            layout = pool_layout(pool, n, of_n[0]["partitions"], seed)
            forms = [GroupedForms(pool, order) for order in layout.order]
        except Exception as error:
            yield from ((cell["id"], error) for cell in of_n)
            continue
        for cell in of_n:
            try:
                yield cell["id"], _measure(pool, layout, forms, cell)
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
    return metrics | _points(units, metrics["undefined"])


def _unit_columns(
    pool: ScorePool, form: GroupedForms, cell: Mapping[str, Any], k: int, reference: str
) -> Tensor:
    """m2, mean square, inner and truth of every unit: [4, I·U]."""
    weights = advantages(form.rewards, estimator=cell["estimator"], baseline=cell["baseline"], k=cell["k"])
    within, total = form.within(weights, weights), form.totals(weights)
    mean_square = form.across(total, total, within)
    if pool.exact:
        position = pool.ks.index(k)
        inner = torch.einsum("iua,ia->iu", total, pool.inner[..., position]) / form.replicates
        truth = pool.norm[:, position : position + 1].expand_as(inner)
    else:
        against = advantages(form.rewards, estimator="maxk", baseline=reference, k=k)
        total_against = form.totals(against)
        inner = form.across(total, total_against, form.within(weights, against))
        truth = form.across(total_against, total_against, form.within(against, against))
    return torch.stack([within / form.replicates, mean_square, inner, truth]).flatten(1)


def _points(units: Units, undefined: dict[str, str]) -> dict[str, float | None]:
    """The point estimates; None with its reason where a norm that is divided by is not positive."""
    means = stratified_mean(units.columns(), units.members())
    points: dict[str, float | None] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for name in ("variance", "snr", "mean_square", "squared_bias", "scale", "cosine"):
            points[name] = float(STATISTICS[name](means))
        points["relative_variance"] = 1 / points["snr"] if points["snr"] else math.nan
    positive = {
        "relative_variance": means[1] > 0,
        "scale": means[3] > 0,
        "cosine": means[1] > 0 and means[3] > 0,
        "snr": means[0] > means[1],
    }
    for name, fine in positive.items():
        if not fine:
            points[name] = None
            undefined[name] = "the estimated squared norm it divides by is not positive"
    return points
