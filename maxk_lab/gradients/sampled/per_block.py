"""The measures beside the moments of a gradient estimate, one number per block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from maxk_lab.estimators import effective_sample_size, objective_estimate, off_policy_value
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.sampled.forms import GroupedForms
from maxk_lab.gradients.scores.behaviour import divergence, ratio_std
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.gradients.weighted_groups import WeightedGroups, means_by_block


def values_of(form: GroupedForms, wanted: Objective, *, by_ratios: bool) -> Tensor:
    """Return the objective's unbiased estimate from every group, [I, U, Rep].

    `by_ratios` is for the policy that did not draw the groups.
    """
    values: Tensor = (
        off_policy_value(form.rewards, form.ratios, wanted.k)
        if by_ratios
        else objective_estimate(form.rewards, wanted)
    )
    return values


def measures_by_block(
    pool: ScorePool,
    forms: Sequence[GroupedForms],
    weights: Sequence[Tensor],
    values: Sequence[Tensor],
    position: int | None,
) -> dict[str, Tensor]:
    """One value per block of every measure beside the moments, [I, B]; NaN where undefined."""
    value = torch.stack(list(values))
    groups = [WeightedGroups(w, form.rewards) for w, form in zip(weights, forms, strict=True)]
    measures = {
        "objective": value.mean((0, 3))
        if position is None
        else _by_block(pool.value[:, position], forms),
        "value_variance": _squared_distances(value),
    } | means_by_block(groups)
    if pool.off_policy:
        sizes = torch.stack([effective_sample_size(form.ratios) / form.n for form in forms])
        ratios = forms[0].ratios.flatten(2)
        chance = torch.full_like(ratios, 1 / ratios.shape[2])
        measures |= {
            "effective_sample_size": sizes.mean((0, 3)),
            "kl": _by_block(divergence(pool.behaviour, pool.listed_ratios), forms)
            if pool.listed
            else divergence(chance, ratios),
            "ratio_std": _by_block(ratio_std(pool.behaviour, pool.listed_ratios), forms)
            if pool.listed
            else ratios.flatten(1).std(1, keepdim=True),
        }
    return measures


def _squared_distances(values: Tensor) -> Tensor:
    """Return block means of (v − v̄)², unbiased for Var v: [S, I, B, g] → [I, B]."""
    groups = values.shape[2] * values.shape[3]
    far = values - values.mean((2, 3), keepdim=True)
    return far.square().mean((0, 3)) * groups / (groups - 1)


def _by_block(values: Tensor, forms: Sequence[GroupedForms]) -> Tensor:
    """A number per instance [I] for each of its blocks [I, B]."""
    return values.unsqueeze(1).expand(-1, forms[0].blocks)
