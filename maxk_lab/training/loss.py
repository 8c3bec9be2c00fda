"""The terms of a step's loss: shaped rewards, the KL estimates, and the clipped surrogate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.training.settings import LossSettings


def shape_rewards(
    rewards: Tensor,
    *,
    scale: float = 1.0,
    penalty: Tensor | None,
    clip: Sequence[float] | None,
) -> Tensor:
    """Return `scale` times rewards [..., n], clipped, then minus the penalty.

    NaN (unscorable) stays NaN. `penalty` [..., n] is β times the KL estimate of each trajectory, or
    None; it carries no gradient. With k1 the result is R − β Σ_t (log π_old − log π_anchor). At
    K = 1 its policy gradient is unbiased for ∇J − β ∇KL(π‖anchor). At larger K the penalty is
    inside the maximum.
    """
    if scale != 1:
        rewards = scale * rewards
    if clip is not None:
        rewards = rewards.clamp(*clip)
    return rewards if penalty is None else rewards - penalty.detach().to(rewards)


def kl_tokens(log_probs: Tensor, anchor: Tensor, kind: str) -> Tensor:
    """Return k1 or k3 of tokens drawn from π, from log π and the anchor's log a.

    [...] → [...]. With d = log π − log a: k1 = d, k3 = e^{−d} − 1 + d (Schulman 2020,
    "Approximating KL divergence"). Given the tokens before, both have mean KL(π‖a), and k3 is never
    negative. As a *loss*, with the tokens held fixed, the mean gradient of k1 is zero, and that of
    k3 is ∇KL(a‖π).
    """
    difference = log_probs - anchor
    return difference if kind == "k1" else torch.expm1(-difference) + difference


@dataclass(frozen=True)
class Surrogate:
    """The loss to minimise, and the fractions of its ratios below and above the clip range.

    The fractions are NaN without ratios.
    """

    loss: Tensor
    below: Tensor
    above: Tensor


def surrogate(
    log_probs: Tensor,
    old_log_probs: Tensor,
    weights: Tensor,
    mask: Tensor,
    settings: LossSettings,
    ratios: Tensor | None = None,
) -> Surrogate:
    """Return −Σ_i c_i Σ_t min(r w, clip(r, 1 − ε_low, 1 + ε_high) w) of P instances.

    Each has n sequences of at most T tokens. log_probs, old_log_probs: [P, n, T]; mask: [P, n, T],
    the tokens in the loss; weights: [P, n], from `advantages` (they carry 1/n), without gradient.
    The ratio r is per token, or per sequence; a sequence ratio replaces the sum over t by one term.
    The factors c:

        seq_sum     1 / P               unbiased: at r = 1 the gradient is −mean over instances of
                                        Σ_i w_i ∇log π_i
        seq_mean    1 / (P |y_i|)       each sequence's mean over its tokens: biased if lengths
                                        differ
        token_mean  n / Σ_i |y_i|       the mean over all tokens of n w_i: biased, because the
                                        divisor is random
        fixed       1 / (P divisor)     the unbiased gradient, divided by a constant

    Clipping biases as soon as r leaves 1. Weights [P, n] that already contain the sequences'
    `ratios` [P, n] are weights of log π(y_i). They are not clipped, so they are not biased.
    """
    weights = weights.detach().to(log_probs)
    difference = torch.where(mask, log_probs - old_log_probs, 0.0)
    if ratios is not None:
        ratio, counted = ratios.to(mask.device), mask.any(-1)
        terms = weights * torch.where(mask, log_probs, 0.0).sum(-1)
    else:
        if settings.ratio == "token":
            ratio, counted = difference.exp(), mask
            weights = weights.unsqueeze(-1)
        else:
            ratio, counted = difference.sum(-1).exp(), mask.any(-1)
        clipped = ratio.clamp(1 - settings.epsilon_low, 1 + settings.epsilon_high)
        terms = torch.minimum(ratio * weights, clipped * weights)
        terms = torch.where(counted, terms, 0.0)
    ratio = ratio.detach()[counted]
    below = (ratio < 1 - settings.epsilon_low).double().mean()
    above = (ratio > 1 + settings.epsilon_high).double().mean()
    per_sequence = terms if terms.dim() == 2 else terms.sum(-1)
    return Surrogate(_aggregated(per_sequence, mask.sum(-1), settings), below, above)


def _aggregated(per_sequence: Tensor, lengths: Tensor, settings: LossSettings) -> Tensor:
    """Minus the sum of the terms [P, n] of sequences of these lengths, with the factors c."""
    instances, n = per_sequence.shape
    if settings.aggregation == "seq_sum":
        return -per_sequence.sum() / instances
    if settings.aggregation == "seq_mean":
        return -(per_sequence / lengths.clamp(min=1)).sum() / instances
    if settings.aggregation == "token_mean":
        return -per_sequence.sum() * n / lengths.sum().clamp(min=1)
    assert settings.divisor is not None
    return -per_sequence.sum() / (instances * settings.divisor)


def token_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of `values` [..., T] over the tokens of `mask`; 0 without tokens."""
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)


def sequence_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over sequences of the sum of `values` [..., T] over their tokens.

    Sequences without a token in `mask` do not count; 0 if no sequence counts.
    """
    return torch.where(mask, values, 0.0).sum() / mask.any(-1).sum().clamp(min=1)
