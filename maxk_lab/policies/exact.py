"""The smallest policies, with exact gradients: a softmax table, a Gaussian."""

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
        """Return log-probabilities [actions]."""
        return torch.log_softmax(self.repeated(self.logits, ()), dim=-1)


def softmax_table(
    *, arms: int, init_std: float, dtype: str, success_probability: float = 0.0
) -> SoftmaxTable:
    """Return random logits; fixed logits if the last arm has a given probability.

    The other arms then share the remaining probability evenly.
    """
    kind: torch.dtype = getattr(torch, dtype)
    if not success_probability:
        return SoftmaxTable(init_std * torch.randn(arms, dtype=kind))
    rest = math.log1p(-success_probability) - math.log(arms - 1)
    logits = torch.full((arms,), rest, dtype=torch.float64)
    logits[-1] = math.log(success_probability)
    return SoftmaxTable(logits.to(kind))


class DiagonalGaussian(nn.Module):
    """Mean and logarithm of the scale of every coordinate, float64, equal for every seed.

    The scale is a parameter only if it is learned.
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
        """Return [2, dim]: the mean, then the logarithm of the scale."""
        return torch.stack([self.repeated(each, ()) for each in (self.mean, self.log_scale)])
