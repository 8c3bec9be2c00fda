"""Behaviour policies: they draw trajectories in place of the policy whose gradient is estimated."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from maxk_lab.gradients.scores.per_trajectory import trained
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.seeds import isolated_rng


def perturbed(policy: nn.Module, distance: float, seed: int) -> nn.Module:
    """Return a copy of `policy` whose trainable parameters are moved by `distance` (Euclidean).

    They are taken as one vector. The direction is uniformly random and depends on `seed` only, not
    on the distance: growing distances walk along one line. Raises `ValueError` for a negative
    distance.
    """
    if not distance >= 0:
        raise ValueError(f"distance must be at least 0, got {distance!r}")
    moved = copy.deepcopy(policy)
    parameters = trained(moved)
    with isolated_rng(seed):
        direction = [torch.randn(p.shape, dtype=torch.float64) for p in parameters]
    length = torch.stack([d.square().sum() for d in direction]).sum().sqrt()
    with torch.no_grad():
        for parameter, d in zip(parameters, direction, strict=True):
            parameter.add_((distance / length * d).to(parameter))
    return moved


def divergence(behaviour: Tensor, ratios: Tensor) -> Tensor:
    """Return KL(behaviour ‖ π) = −E log r, [...].

    `behaviour` [..., A] is the probability of each trajectory, ratios [..., A] are π over it.
    """
    return -(behaviour * ratios.masked_fill(behaviour == 0, 1.0).log()).sum(-1)


def listed_divergence(pool: ScorePool) -> dict[str, Tensor]:
    """How far the behaviour policy is from π where all trajectories are listed, [I] each.

    kl is `divergence`, ratio_std is √E(r − 1)²: over all trajectories the mean of the ratios is 1.
    """
    listed = [part.listed for part in pool.parts if part.listed is not None]
    spread = [(one.behaviour * (one.ratios - 1).square()).sum().sqrt() for one in listed]
    kl = [divergence(one.behaviour, one.ratios) for one in listed]
    return {"kl": torch.stack(kl), "ratio_std": torch.stack(spread)}
