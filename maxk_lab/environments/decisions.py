"""What one decision contributes to a trajectory's statistics, given the whole distribution it was drawn from."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.environments.protocol import TokenStatistics


def logit_proxy(log_policy: Tensor, actions: Tensor) -> Tensor:
    """1 − 2π_c + Σ_a π_a² of the actions c [...] under log_policy [..., A], without gradient: never negative.

    As (Σ_{a≠c} π_a)² + Σ_{a≠c} π_a², for the first form cancels: a confident float32 policy would leave nothing of it.
    """
    others = log_policy.detach().exp().scatter(-1, actions.unsqueeze(-1), 0.0)
    return others.sum(-1).square() + others.square().sum(-1)


def token_statistics(log_policy: Tensor, actions: Tensor, mask: Tensor) -> TokenStatistics:
    """Of the distributions log_policy [..., T, A] the actions [..., T] were drawn from, where `mask` [..., T] is True.

    Differentiable in `log_policy`, also where an action is impossible (−∞): its entropy term and the gradient of it are zero.
    """
    chosen = log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    probabilities = log_policy.exp()
    finite = log_policy.masked_fill(log_policy == -torch.inf, 0.0)
    entropy = -(probabilities * finite).sum(-1)
    return TokenStatistics(
        log_probs=chosen.masked_fill(~mask, 0.0),
        entropy=entropy.masked_fill(~mask, 0.0),
        logit_proxy=logit_proxy(log_policy, actions).masked_fill(~mask, 0.0),
        mask=mask,
    )
