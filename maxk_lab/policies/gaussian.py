"""The Gaussian policy without context: the smallest continuous one."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class DiagonalGaussian(nn.Module):
    """Mean and logarithm of the scale of every coordinate.

    The latter a parameter only where the scale is learned.
    """

    def __init__(self, mean: Tensor, log_scale: Tensor, *, learn_scale: bool) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)
        if learn_scale:
            self.log_scale = nn.Parameter(log_scale)
        else:
            self.register_buffer("log_scale", log_scale)

    def forward(self) -> Tensor:
        """[2, dim]: the mean, then the logarithm of the scale."""
        return torch.stack([self.mean, self.log_scale])


def diagonal_gaussian(
    *, dim: int, mean: float, scale: float, learn_scale: bool
) -> DiagonalGaussian:
    """The initial mean and scale in float64, whatever the seed."""
    return DiagonalGaussian(
        torch.full((dim,), mean, dtype=torch.float64),
        torch.full((dim,), math.log(scale), dtype=torch.float64),
        learn_scale=learn_scale,
    )
