"""The smallest policies, on which everything is known exactly: a softmax table, a Gaussian."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from maxk_lab.policies.repeated import Repeated


class SoftmaxTable(nn.Module):
    """One vector of logits, shared by all instances; the score of action a is e_a − π."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)
        self.repeated = Repeated()

    def forward(self) -> Tensor:
        """Log-probabilities [actions]."""
        return torch.log_softmax(self.repeated(self.logits, ()), dim=-1)


def softmax_table(
    *, arms: int, init_std: float, dtype: str, success_probability: float = 0.0
) -> SoftmaxTable:
    """Random logits; the same for every seed where the last arm has a given probability.

    The other arms then share the rest evenly.
    """
    kind: torch.dtype = getattr(torch, dtype)
    if not success_probability:
        return SoftmaxTable(init_std * torch.randn(arms, dtype=kind))
    rest = math.log1p(-success_probability) - math.log(arms - 1)
    logits = torch.full((arms,), rest, dtype=torch.float64)
    logits[-1] = math.log(success_probability)
    return SoftmaxTable(logits.to(kind))


class DiagonalGaussian(nn.Module):
    """Mean and logarithm of the scale of every coordinate, float64, the same for every seed.

    The latter is a parameter only where the scale is learned.
    """

    def __init__(self, *, dim: int, mean: float, scale: float, learn_scale: bool) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.full((dim,), mean, dtype=torch.float64))
        self.repeated = Repeated()
        log_scale = torch.full((dim,), math.log(scale), dtype=torch.float64)
        if learn_scale:
            self.log_scale = nn.Parameter(log_scale)
        else:
            self.register_buffer("log_scale", log_scale)

    def forward(self) -> Tensor:
        """[2, dim]: the mean, then the logarithm of the scale."""
        return torch.stack([self.repeated(each, ()) for each in (self.mean, self.log_scale)])
