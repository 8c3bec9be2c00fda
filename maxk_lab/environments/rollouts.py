"""Trajectories drawn from a policy, the statistics of their decisions, and checks of shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

from torch import Tensor

from maxk_lab.errors import LabError

# The logarithm of a number that underflows in every precision.
IMPOSSIBLE = -1e4
# The dimension of rollout fields besides instances and trajectories.
_THIRD = {"actions": "T", "reward_parts": "F"}


@dataclass(frozen=True)
class TokenStatistics:
    """The statistics of every decision of n trajectories per instance.

    T is the width of the given actions. log_probs, entropy, logit_proxy: [B, n, T] floating, zero
    after the end; log_probs and entropy are differentiable. mask: [B, n, T] bool, True for a
    decision. Sums over T are the fields of `Rollouts` with the same name.
    """

    log_probs: Tensor
    entropy: Tensor
    logit_proxy: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Rollouts:
    """n trajectories per instance, i.i.d. along n given the instance.

    B instances, T the longest trajectory. rewards, log_probs, entropy, logit_proxy: [B, n]
    floating; lengths: [B, n] decisions before the end; actions: [B, n, T], padded after the end.
    Rewards are higher-is-better. `entropy` sums the policy's entropy over steps. `logit_proxy` is
    Σ_t (1 − 2π_t + Σ_a π_t(a)²), the squared norm of the gradient with respect to the logits.

    Optional fields: truncated [B, n] bool, cut at the longest allowed length instead of ended by
    the policy; reward_parts [B, n, F], the value of each of F reward functions before weighting,
    NaN if a function returned None. `rewards` is NaN exactly if a reward function returned None:
    the trajectory is unscorable, not worth zero.
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
    def from_tokens(
        cls, tokens: TokenStatistics, *, actions: Tensor, rewards: Tensor, **others: Tensor
    ) -> Rollouts:
        """Return rollouts whose sums are those of their tokens.

        `others` are the optional fields.
        """
        return cls(
            rewards=rewards,
            log_probs=tokens.log_probs.sum(-1),
            actions=actions,
            lengths=tokens.mask.sum(-1),
            logit_proxy=tokens.logit_proxy.sum(-1),
            entropy=tokens.entropy.sum(-1),
            **others,
        )


Statistics = TypeVar("Statistics", TokenStatistics, Rollouts)


def mapped(function: Callable[[Tensor], Tensor], statistics: Statistics) -> Statistics:
    """Return the statistics with `function` applied to each field that is present."""
    values = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    return type(statistics)(
        **{name: function(value) for name, value in values.items() if value is not None}
    )


def logit_proxy(policy: Tensor, actions: Tensor) -> Tensor:
    """Return 1 − 2π_c + Σ_a π_a² of actions c [...] under `policy` [..., A], without gradient.

    It is computed as (Σ_{a≠c} π_a)² + Σ_{a≠c} π_a², which is never negative. The first form would
    cancel for a confident float32 policy.
    """
    others = policy.detach().scatter(-1, actions.unsqueeze(-1), 0.0)
    return others.sum(-1).square() + others.square().sum(-1)


def surprise(log_policy: Tensor) -> Tensor:
    """Return −log π, with a finite number instead of ∞ if π is 0: its factor is 0 there."""
    return -log_policy.clamp(min=IMPOSSIBLE)


def token_statistics(
    log_policy: Tensor, actions: Tensor, mask: Tensor, policy: Tensor | None = None
) -> TokenStatistics:
    """Return the statistics of actions [..., T] from log_policy [..., T, A], if `mask` is True.

    They are differentiable in `log_policy`, also if an action is impossible (−∞): its entropy term
    and gradient are zero. `policy` are the probabilities if the caller has them: they cost the most
    time.
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


def checked(rollouts: Rollouts, n: int, instances: int | None = None) -> Rollouts:
    """Return rollouts of `n` trajectories of each of `instances`; None accepts any number.

    Raises `LabError` for a field of another shape, which would be misread as other trajectories.
    """
    rewards = rollouts.rewards
    if instances is None:
        instances = len(rewards) if isinstance(rewards, Tensor) and rewards.dim() else 0
    for field in fields(rollouts):
        values, more = getattr(rollouts, field.name), _THIRD.get(field.name, ())
        is_tensor = isinstance(values, Tensor)
        if is_tensor and values.dim() == 2 + len(more) and values.shape[:2] == (instances, n):
            continue
        if values is not None or field.default is not None:
            shape = ", ".join(map(str, (instances, n, *more)))
            got = list(values.shape) if is_tensor else type(values).__name__
            raise LabError(
                f"the {field.name} of its rollout must be a tensor [{shape}] (instances, "
                f"trajectories of each), got {got}: the environment does not keep the protocol of "
                "maxk_lab.environments"
            )
    return rollouts


def check_scorable(rewards: Tensor, where: str, study: str) -> None:
    """Raise `LabError` if a trajectory has no reward in a study that needs all rewards."""
    missing = int(rewards.isnan().sum())
    if missing:
        raise LabError(
            f"{missing} of {rewards.numel()} trajectories{where} have no reward (a reward function "
            f"returned None); a {study} study needs a reward for every trajectory: let the "
            "function return a number there, such as 0.0 (None is for training studies, which "
            "leave such a trajectory out)"
        )
