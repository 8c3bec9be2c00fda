"""Estimates of the Kullback-Leibler divergence from an anchor policy, one number per token."""

from __future__ import annotations

import torch
from torch import Tensor


def kl_tokens(log_probs: Tensor, anchor: Tensor, kind: str) -> Tensor:
    """Return k1, k2 or k3 of tokens drawn from π, given log π and that of the anchor a.

    [...] → [...]. With d = log π − log a: k1 = d, k2 = d²/2, k3 = e^{−d} − 1 + d (Schulman 2020,
    "Approximating KL divergence"). Given the tokens before, k1 and k3 have mean KL(π‖a); k3 is
    never negative; k2 is biased. As a *loss*, with the tokens held fixed, their mean gradients are
    other things: that of k1 is zero, that of k2 is ∇KL(π‖a), that of k3 is ∇KL(a‖π). Raises
    `ValueError` for another `kind`.
    """
    difference = log_probs - anchor
    if kind == "k1":
        return difference
    if kind == "k2":
        return difference.square() / 2
    if kind == "k3":
        return torch.expm1(-difference) + difference
    raise ValueError(f"kind must be k1, k2 or k3, got {kind!r}")
