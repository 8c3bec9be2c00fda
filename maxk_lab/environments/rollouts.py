"""Trajectories drawn from a policy, and what each of their decisions says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

from torch import Tensor

# The logarithm of a number that is 0 in any precision.
IMPOSSIBLE = -1e4


@dataclass(frozen=True)
class TokenStatistics:
    """The statistics of every decision of n trajectories per instance.

    T is the width of the actions asked about. log_probs, entropy, logit_proxy: [B, n, T] floating,
    zero after the end; log_probs and entropy are differentiable. mask: [B, n, T] bool, whether the
    trajectory still took a decision there. Sums over T are the fields of `Rollouts` of the same
    name.
    """

    log_probs: Tensor
    entropy: Tensor
    logit_proxy: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Rollouts:
    """n trajectories per instance, i.i.d. along n given the instance.

    B instances, T the longest trajectory. rewards, log_probs, entropy, logit_proxy: [B, n]
    floating; lengths: [B, n] decisions taken before done; actions: [B, n, T], padded after done.
    Rewards are higher-is-better. `entropy` sums the policy's entropy over steps; `logit_proxy` is
    Σ_t (1 − 2π_t + Σ_a π_t(a)²), the squared norm of the gradient with respect to the logits.

    Where an environment has them: truncated [B, n] bool, cut at the longest allowed length instead
    of ended by the policy; reward_parts [B, n, F], the value of each of F reward functions before
    weighting, NaN where one returned None. `rewards` is NaN exactly where a reward function
    returned None: that trajectory is unscorable, not worth zero.
    """

    rewards: Tensor
    log_probs: Tensor
    actions: Tensor
    lengths: Tensor
    logit_proxy: Tensor
    entropy: Tensor
    truncated: Tensor | None = None
    reward_parts: Tensor | None = None

    @classmethod
    def of_tokens(
        cls, tokens: TokenStatistics, *, actions: Tensor, rewards: Tensor, **known: Tensor
    ) -> Rollouts:
        """Rollouts whose sums are those of their tokens.

        `known` are the fields that may be None.
        """
        return cls(
            rewards=rewards,
            log_probs=tokens.log_probs.sum(-1),
            actions=actions,
            lengths=tokens.mask.sum(-1),
            logit_proxy=tokens.logit_proxy.sum(-1),
            entropy=tokens.entropy.sum(-1),
            **known,
        )


Statistics = TypeVar("Statistics", TokenStatistics, Rollouts)


def mapped(function: Callable[[Tensor], Tensor], statistics: Statistics) -> Statistics:
    """`function` of each field that is there."""
    given = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    return type(statistics)(
        **{name: function(value) for name, value in given.items() if value is not None}
    )


def logit_proxy(policy: Tensor, actions: Tensor) -> Tensor:
    """1 − 2π_c + Σ_a π_a² of the actions c [...] under `policy` [..., A], without gradient.

    Computed as (Σ_{a≠c} π_a)² + Σ_{a≠c} π_a², never negative: the first form cancels, and a
    confident float32 policy would leave nothing of it.
    """
    others = policy.detach().scatter(-1, actions.unsqueeze(-1), 0.0)
    return others.sum(-1).square() + others.square().sum(-1)


def surprise(log_policy: Tensor) -> Tensor:
    """−log π, with a number instead of ∞ where π is 0: what it is multiplied with is 0 there."""
    return -log_policy.clamp(min=IMPOSSIBLE)


def token_statistics(
    log_policy: Tensor, actions: Tensor, mask: Tensor, policy: Tensor | None = None
) -> TokenStatistics:
    """The statistics of actions [..., T] drawn from log_policy [..., T, A], where `mask` is True.

    Differentiable in `log_policy`, also where an action is impossible (−∞): its entropy term and
    the gradient of it are zero. `policy` are the probabilities, where somebody has them already:
    they are the dearest part.
    """
    policy = log_policy.exp() if policy is None else policy
    chosen = log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    entropy = (policy * surprise(log_policy)).sum(-1)
    return TokenStatistics(
        log_probs=chosen.masked_fill(~mask, 0.0),
        entropy=entropy.masked_fill(~mask, 0.0),
        logit_proxy=logit_proxy(policy, actions).masked_fill(~mask, 0.0),
        mask=mask,
    )
