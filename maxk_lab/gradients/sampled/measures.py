"""The measures of a gradient estimator, as quadratic forms of its score weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.estimators import effective_sample_size, objective_estimate, off_policy_value
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.measures import Enumeration
from maxk_lab.gradients.fitting import SampledFits
from maxk_lab.gradients.sampled.forms import GroupedForms, grouped_forms
from maxk_lab.gradients.sampled.stand_in import StandIn
from maxk_lab.gradients.scores.behaviour import divergence, ratio_std
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.gradients.scores.proxies import proxy_correlations
from maxk_lab.gradients.weighted_groups import WeightedGroups, means_by_unit
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.points import point_estimates
from maxk_lab.statistics.units import Units

# With fewer instances than this, blocks of the pool are resampled instead.
MIN_INSTANCES = 12
MAX_BLOCKS = 16


@dataclass(frozen=True)
class Layout:
    """The pool cut for one n into `units` equal, disjoint parts, each into groups of n.

    A part is an instance, or a block of one.

    order [S, I, U, Rep, n]: for each of S random partitions, positions in the pool of the members
    of each group.
    """

    order: Tensor
    stratum: list[int]
    unit: str


def pool_layout(pool: ScorePool, n: int, partitions: int, seed: int) -> Layout:
    """Return random disjoint groups of n. Raises `ValueError` where a unit has fewer than two.

    The pool is i.i.d., so its blocks are cut in drawing order; only the grouping inside a unit is
    random.
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
    """Yield (id, metrics) of every cell, or (id, exception) of one that failed.

    All cells of one n share groups and gathered products.
    """
    proxies = proxy_correlations(pool)

    @lru_cache(maxsize=1)
    def groups(n: int, partitions: int) -> tuple[Layout, list[GroupedForms], SampledFits]:
        layout = pool_layout(pool, n, partitions, seed)
        forms = [grouped_forms(pool, order) for order in layout.order]
        return layout, forms, SampledFits(forms)

    enumeration = Enumeration(pool, lambda n, partitions: groups(n, partitions)[2])
    for cell in sorted(cells, key=lambda cell: int(cell["n"])):
        try:
            metrics = enumeration.measure(cell) if cell.get("complete") else None
            if metrics is None:
                metrics = _measure(pool, *groups(cell["n"], cell["partitions"]), cell)
            yield cell["id"], metrics | {"proxies": proxies}
        except Exception as error:
            yield cell["id"], error


def _measure(
    pool: ScorePool,
    layout: Layout,
    forms: Sequence[GroupedForms],
    fits: SampledFits,
    cell: Mapping[str, Any],
) -> dict[str, Any]:
    method = Method.of(cell)
    wanted = method.objective
    position = pool.objectives.index(wanted.name) if pool.exact else None
    stand_in = None if pool.exact else StandIn.of(wanted, cell["n"], off_policy=pool.off_policy)
    coefficients = fits.coefficients(cell["estimator"], cell["baseline"], cell["k"])
    weights = [
        form.weights(cell["estimator"], cell["baseline"], cell["k"], fitted)
        for form, fitted in zip(forms, coefficients, strict=True)
    ]
    columns = torch.stack(
        [
            _unit_columns(form, w, position, stand_in, pool, wanted.k)
            for form, w in zip(forms, weights, strict=True)
        ]
    ).mean(0)
    by_ratios = pool.off_policy and method.needs_ratios
    values = [_values(form, wanted, by_ratios=by_ratios) for form in forms]
    m2, mean_square, inner, truth = columns.double().numpy()
    units = Units(
        np.array(layout.stratum),
        m2,
        mean_square,
        inner,
        truth,
        measures={
            name: column.double().flatten().numpy()
            for name, column in _measures(pool, forms, weights, values, position).items()
        },
    )
    undefined: dict[str, str] = {}
    metrics: dict[str, Any] = {
        "against": "exact" if stand_in is None else f"reference:{stand_in.name}",
        "is_reference": stand_in is not None
        and (cell["estimator"], cell["baseline"]) == (stand_in.estimator, stand_in.baseline),
        "unit": layout.unit,
        "replicates": forms[0].replicates,
        "value": float(torch.stack([value.mean() for value in values]).mean())
        if position is None
        else float(pool.value[:, position].mean()),
        "undefined": undefined,
    }
    if coefficients[0] is not None:
        by_instance = [fitted.mean((1, 2)) for fitted in coefficients if fitted is not None]
        metrics["coefficients"] = torch.stack(by_instance).mean(0).tolist()
    return metrics | units.as_record() | point_estimates(units, undefined)


def _unit_columns(
    form: GroupedForms,
    weights: Tensor,
    position: int | None,
    stand_in: StandIn | None,
    pool: ScorePool,
    k: int,
) -> Tensor:
    """m2, mean square, inner and truth of every unit: [4, I·U]."""
    within, total = form.within(weights, weights), form.totals(weights)
    mean_square = form.across(total, total, within)
    if stand_in is None:
        assert position is not None
        inner = form.toward(weights, total, position)
        truth = pool.norm[:, position : position + 1].expand_as(inner)
    else:
        against = form.weights(stand_in.estimator, stand_in.baseline, k)
        total_against = form.totals(against)
        inner = form.across(total, total_against, form.within(weights, against))
        truth = form.across(total_against, total_against, form.within(against, against))
    return torch.stack([within / form.replicates, mean_square, inner, truth]).flatten(1)


def _values(form: GroupedForms, wanted: Objective, *, by_ratios: bool) -> Tensor:
    """Return the objective's unbiased estimate from every group, [I, U, Rep].

    `by_ratios` is for the policy that did not draw the groups.
    """
    values: Tensor = (
        off_policy_value(form.rewards, form.ratios, wanted.k)
        if by_ratios
        else objective_estimate(form.rewards, wanted)
    )
    return values


def _measures(
    pool: ScorePool,
    forms: Sequence[GroupedForms],
    weights: Sequence[Tensor],
    values: Sequence[Tensor],
    position: int | None,
) -> dict[str, Tensor]:
    """One value per unit of every measure beside the moments, [I, U]; NaN where undefined."""
    value = torch.stack(list(values))
    groups = [WeightedGroups(w, form.rewards) for w, form in zip(weights, forms, strict=True)]
    measures = {
        "objective": value.mean((0, 3))
        if position is None
        else _by_unit(pool.value[:, position], forms),
        "value_variance": value.var(3).mean(0),
    } | means_by_unit(groups)
    if pool.off_policy:
        sizes = torch.stack([effective_sample_size(form.ratios) / form.n for form in forms])
        ratios = forms[0].ratios.flatten(2)
        chance = torch.full_like(ratios, 1 / ratios.shape[2])
        measures |= {
            "effective_sample_size": sizes.mean((0, 3)),
            "kl": _by_unit(divergence(pool.behaviour, pool.listed_ratios), forms)
            if pool.listed
            else divergence(chance, ratios),
            "ratio_std": _by_unit(ratio_std(pool.behaviour, pool.listed_ratios), forms)
            if pool.listed
            else ratios.std(2),
        }
    return measures


def _by_unit(values: Tensor, forms: Sequence[GroupedForms]) -> Tensor:
    """A number per instance [I] for each of its units [I, U]."""
    return values.unsqueeze(1).expand(-1, forms[0].blocks)
