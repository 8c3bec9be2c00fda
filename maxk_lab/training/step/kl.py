"""Estimates of the Kullback-Leibler divergence from an anchor policy, one number per token."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.training.step.batch import Batch


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


def drawn_kl(batch: Batch, kind: str) -> Tensor | None:
    """Return the KL estimate of every drawn token, [P, n, T] without gradient, or None.

    None is for a batch without an anchor. Raises `FloatingPointError` where an estimate is not
    finite.
    """
    if batch.anchor_log_probs is None:
        return None
    kl = kl_tokens(batch.numbers.log_probs, batch.anchor_log_probs.cpu(), kind)
    if not torch.isfinite(kl[batch.numbers.mask]).all():
        raise FloatingPointError(
            "the KL estimate of a token is not finite: the reference gives it no chance "
            "(top_p below 1?)"
        )
    return kl
