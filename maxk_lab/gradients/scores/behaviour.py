"""Behaviour policies: what draws the trajectories where that is not the policy whose gradient is estimated."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from maxk_lab.random_state import isolated_rng


def perturbed(policy: nn.Module, distance: float, seed: int) -> nn.Module:
    """A copy of `policy` whose trainable parameters, taken as one vector, are moved by `distance` (Euclidean).

    The direction is uniformly random and depends on `seed` only, not on the distance: growing distances walk along one line.
    Raises `ValueError` for a negative distance.
    """
    if not distance >= 0:
        raise ValueError(f"distance must be at least 0, got {distance!r}")
    moved = copy.deepcopy(policy)
    parameters = [p for p in moved.parameters() if p.requires_grad]
    with isolated_rng(seed):
        direction = [torch.randn(p.shape, dtype=torch.float64) for p in parameters]
    length = torch.stack([d.square().sum() for d in direction]).sum().sqrt()
    with torch.no_grad():
        for parameter, d in zip(parameters, direction, strict=True):
            parameter.add_((distance / length * d).to(parameter))
    return moved


def divergence(behaviour: Tensor, ratios: Tensor) -> Tensor:
    """KL(behaviour ‖ π) = −E log r: `behaviour` [..., A] the probability of each trajectory, ratios [..., A] π over it → [...]."""
    return -(behaviour * ratios.masked_fill(behaviour == 0, 1.0).log()).sum(-1)


def ratio_std(behaviour: Tensor, ratios: Tensor) -> Tensor:
    """√E(r − 1)², arguments as in `divergence`: the standard deviation of the ratios, whose mean is 1 over all trajectories."""
    return (behaviour * (ratios - 1).square()).sum(-1).sqrt()
