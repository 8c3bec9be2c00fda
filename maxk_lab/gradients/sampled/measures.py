"""Everything the lab says about an estimator's gradient, as quadratic forms of its weights (estimators.md §8)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators import effective_sample_size, objective_estimate, off_policy_value
from maxk_lab.estimators.catalogue import needs_ratios, objective
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.measures import Enumeration
from maxk_lab.gradients.fitting import SampledFits
from maxk_lab.gradients.group_measures import concentrations
from maxk_lab.gradients.sampled.forms import GroupedForms, grouped_forms
from maxk_lab.gradients.scores.behaviour import divergence, ratio_std
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.gradients.scores.proxies import proxy_correlations
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.points import point_estimates
from maxk_lab.statistics.units import FIELDS, Units

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


@dataclass(frozen=True)
class Reference:
    """The estimator and baseline that stand for the exact gradient where that is not known; unbiased."""

    estimator: str
    baseline: str

    @property
    def name(self) -> str:
        """What rows are said to be judged against: the baseline, for rows of its own estimator; with ratios, both."""
        return (
            f"{self.estimator} with {self.baseline}"
            if needs_ratios(self.estimator)
            else self.baseline
        )

    @classmethod
    def of(cls, wanted: Objective, n: int, *, off_policy: bool) -> Reference:
        """That of an objective. Raises `ValueError` where trajectories of another policy have no unbiased estimator."""
        baseline = "centred" if wanted.k < n else "subloo"
        if not off_policy:
            return cls("maxk" if wanted.form == "max" else wanted.form, baseline)
        if not wanted.is_max:
            raise ValueError(
                f"{wanted.name} under a behaviour policy needs the exact gradient to be judged against: "
                "only the expected maximum has an unbiased estimator with importance ratios"
            )
        return cls("off_policy_maxk", baseline)


def _measure(
    pool: ScorePool,
    layout: Layout,
    forms: Sequence[GroupedForms],
    fits: SampledFits,
    cell: Mapping[str, Any],
) -> dict[str, Any]:
    wanted = objective(cell["estimator"], cell["k"])
    position = pool.objectives.index(wanted.name) if pool.exact else None
    reference = None if pool.exact else Reference.of(wanted, cell["n"], off_policy=pool.off_policy)
    coefficients = fits.coefficients(cell["estimator"], cell["baseline"], cell["k"])
    weights = [
        form.weights(cell["estimator"], cell["baseline"], cell["k"], fitted)
        for form, fitted in zip(forms, coefficients, strict=True)
    ]
    columns = torch.stack(
        [
            _unit_columns(form, w, position, reference, pool, wanted.k)
            for form, w in zip(forms, weights, strict=True)
        ]
    ).mean(0)
    by_ratios = pool.off_policy and needs_ratios(cell["estimator"])
    values = [_values(form, wanted, by_ratios=by_ratios) for form in forms]
    metrics: dict[str, Any] = {
        "against": "exact" if reference is None else f"reference:{reference.name}",
        "is_reference": reference is not None
        and (cell["estimator"], cell["baseline"]) == (reference.estimator, reference.baseline),
        "unit": layout.unit,
        "replicates": forms[0].replicates,
        "units": {"stratum": layout.stratum} | dict(zip(FIELDS, columns.tolist(), strict=True)),
        "measures": _measures(pool, forms, weights, values, position),
        "value": float(torch.stack([value.mean() for value in values]).mean())
        if position is None
        else float(pool.value[:, position].mean()),
        "undefined": {},
    }
    if coefficients[0] is not None:
        by_instance = [fitted.mean((1, 2)) for fitted in coefficients if fitted is not None]
        metrics["coefficients"] = torch.stack(by_instance).mean(0).tolist()
    return metrics | point_estimates(Units.from_metrics(metrics), metrics["undefined"])


def _unit_columns(
    form: GroupedForms,
    weights: Tensor,
    position: int | None,
    reference: Reference | None,
    pool: ScorePool,
    k: int,
) -> Tensor:
    """m2, mean square, inner and truth of every unit: [4, I·U]."""
    within, total = form.within(weights, weights), form.totals(weights)
    mean_square = form.across(total, total, within)
    if reference is None:
        assert position is not None
        inner = form.toward(weights, total, position)
        truth = pool.norm[:, position : position + 1].expand_as(inner)
    else:
        against = form.weights(reference.estimator, reference.baseline, k)
        total_against = form.totals(against)
        inner = form.across(total, total_against, form.within(weights, against))
        truth = form.across(total_against, total_against, form.within(against, against))
    return torch.stack([within / form.replicates, mean_square, inner, truth]).flatten(1)


def _values(form: GroupedForms, wanted: Objective, *, by_ratios: bool) -> Tensor:
    """The unbiased estimate of the objective from every group, [I, U, Rep]; `by_ratios`: of the policy that did not draw it."""
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
) -> dict[str, list[float | None]]:
    """One value per unit of every measure beside the moments, None where undefined."""
    value = torch.stack(list(values))
    concentration = torch.stack([concentrations(w) for w in weights])
    measures = {
        "objective": value.mean((0, 3))
        if position is None
        else _by_unit(pool.value[:, position], forms),
        "value_variance": value.var(3).mean(0),
        "dead_gradient_rate": concentration.isnan().double().mean((0, 3)),
        "weight_concentration": concentration.nanmean((0, 3)),
    }
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
    return {
        name: [None if math.isnan(x) else x for x in unit.flatten().tolist()]
        for name, unit in measures.items()
    }


def _by_unit(values: Tensor, forms: Sequence[GroupedForms]) -> Tensor:
    """A number per instance [I] for each of its units [I, U]."""
    return values.unsqueeze(1).expand(-1, forms[0].blocks)
