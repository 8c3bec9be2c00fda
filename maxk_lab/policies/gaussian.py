"""The Gaussian policy without context: the smallest continuous one."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class DiagonalGaussian(nn.Module):
    """Mean and logarithm of the scale of every coordinate, float64, the same for every seed.

    The latter is a parameter only where the scale is learned.
    """

    def __init__(self, *, dim: int, mean: float, scale: float, learn_scale: bool) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.full((dim,), mean, dtype=torch.float64))
        log_scale = torch.full((dim,), math.log(scale), dtype=torch.float64)
        if learn_scale:
            self.log_scale = nn.Parameter(log_scale)
        else:
            self.register_buffer("log_scale", log_scale)

    def forward(self) -> Tensor:
        """[2, dim]: the mean, then the logarithm of the scale."""
        return torch.stack([self.mean, self.log_scale])
