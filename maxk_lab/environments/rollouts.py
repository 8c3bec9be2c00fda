"""Trajectories drawn from a policy, what each of their decisions says, and laws of their shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

from torch import Tensor

from maxk_lab.errors import LabError

# The logarithm of a number that is 0 in any precision.
IMPOSSIBLE = -1e4
# The dimension that parts of rollouts have beside instances and trajectories.
_THIRD = {"actions": "T", "reward_parts": "F"}


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
    def from_tokens(
        cls, tokens: TokenStatistics, *, actions: Tensor, rewards: Tensor, **others: Tensor
    ) -> Rollouts:
        """Rollouts whose sums are those of their tokens.

        `others` are the fields that may be None.
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
    """`function` of each field that is there."""
    values = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    return type(statistics)(
        **{name: function(value) for name, value in values.items() if value is not None}
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


def checked(rollouts: Rollouts, n: int, instances: int | None = None) -> Rollouts:
    """Return rollouts of `n` trajectories of each of `instances`; None: of any number.

    Raises `LabError` for a part of another shape, which would be taken for other trajectories.
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
    """Raise `LabError` where a trajectory of a study that needs all of them has no reward."""
    missing = int(rewards.isnan().sum())
    if missing:
        raise LabError(
            f"{missing} of {rewards.numel()} trajectories{where} have no reward (a reward function "
            f"returned None); a {study} study needs a reward for every trajectory: let the "
            "function return a number there, such as 0.0 (None is for training studies, which "
            "leave such a trajectory out)"
        )
