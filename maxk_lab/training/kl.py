"""Estimates of the Kullback-Leibler divergence from a reference policy, one number per token."""

from __future__ import annotations

import torch
from torch import Tensor


def kl_tokens(log_probs: Tensor, reference: Tensor, kind: str) -> Tensor:
    """k1, k2 or k3 of tokens drawn from π, from their log-probabilities under π and under the reference: [...] → [...].

    With d = log π − log ref: k1 = d, k2 = d²/2, k3 = e^{−d} − 1 + d (Schulman 2020, "Approximating KL divergence"). Given the
    tokens before, k1 and k3 have mean KL(π‖ref); k3 is never negative; k2 is biased. As a *loss*, with the tokens held fixed,
    their mean gradients are other things: that of k1 is zero, that of k2 is ∇KL(π‖ref), that of k3 is ∇KL(ref‖π).
    """
    difference = log_probs - reference
    if kind == "k1":
        return difference
    if kind == "k2":
        return difference.square() / 2
    if kind == "k3":
        return torch.expm1(-difference) + difference
    raise ValueError(f"kind must be k1, k2 or k3, got {kind!r}")
