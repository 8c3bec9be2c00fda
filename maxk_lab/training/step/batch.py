"""The batch of a step: instances, trajectories drawn on them, and the tokens of every decision.

Sampling and tokens take one pass of the policy where the environment can give both.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.checks import checked
from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics
from maxk_lab.seeds import derive_seed
from maxk_lab.training.device import device_of, placed
from maxk_lab.training.settings import Settings


@dataclass(frozen=True)
class Batch:
    """The trajectories of a step, drawn under the policy as it was then, and their tokens.

    Tokens and actions are on the policy's device, everything else of the rollouts on the CPU.
    `anchor_log_probs` are the tokens' log-probabilities under the anchor policy.
    """

    instances: Instances
    rollouts: Rollouts
    tokens: TokenStatistics
    anchor_log_probs: Tensor | None

    @property
    def old_log_probs(self) -> Tensor:
        """The log-probabilities under the policy that drew the batch, [P, n, T].

        They are those of the policy's first pass, which therefore has a ratio of exactly 1.
        """
        return self.tokens.log_probs.detach()

    @cached_property
    def numbers(self) -> TokenStatistics:
        """The tokens without gradient, on the CPU."""
        return TokenStatistics(
            *(getattr(self.tokens, f.name).detach().cpu() for f in fields(TokenStatistics))
        )

    @cached_property
    def truncated(self) -> Tensor:
        """The trajectories that were cut off, [P, n]; none where the environment tells of none."""
        if self.rollouts.truncated is None:
            return torch.zeros(self.rollouts.rewards.shape, dtype=torch.bool)
        return self.rollouts.truncated

    def ratios(self, now: TokenStatistics) -> Tensor:
        """Return π(y) / π_old(y) of every trajectory, from the policy's tokens `now`.

        [P, n] float64 without gradient, on the CPU. Raises `FloatingPointError` where a ratio is 0
        or not finite.
        """
        difference = torch.where(self.tokens.mask, now.log_probs.detach() - self.old_log_probs, 0.0)
        ratios = difference.double().sum(-1).exp().cpu()
        wrong = ratios[~(torch.isfinite(ratios) & (ratios > 0))]
        if wrong.numel():
            raise FloatingPointError(
                f"the ratio of a trajectory is {wrong[0].item()}: "
                "the inner epochs have moved the policy too far"
            )
        return ratios


def draw(
    environment: Environment,
    policy: nn.Module,
    anchor: nn.Module | None,
    settings: Settings,
    n: int,
    seed: int,
) -> Batch:
    """Draw batch / n instances with n trajectories each, from the policy and `seed` alone."""
    made = environment.instances(settings.batch // n, derive_seed("instances", seed))
    instances, rollout_seed = (
        placed(environment, made, device_of(policy)),
        derive_seed("rollouts", seed),
    )
    if supports(environment, "rollout_with_tokens"):
        with forward_precision(policy, settings.amp):
            rollouts, tokens = environment.rollout_with_tokens(
                policy, instances, n, seed=rollout_seed
            )
        tokens = _at_least_single(tokens)
    else:
        with forward_precision(policy, settings.amp):
            rollouts = environment.rollout(policy, instances, n, seed=rollout_seed)
        tokens = tokens_of(environment, policy, instances, rollouts.actions, settings.amp)
    under_anchor = None
    if anchor is not None:
        with torch.no_grad():
            under_anchor = tokens_of(
                environment, anchor, instances, rollouts.actions, settings.amp
            ).log_probs
    return Batch(
        instances, _on_cpu(checked(rollouts, n, settings.batch // n)), tokens, under_anchor
    )


def tokens_of(
    environment: Environment, policy: nn.Module, instances: Instances, actions: Tensor, amp: bool
) -> TokenStatistics:
    """Return the tokens of actions, computed with `amp`, in single precision at least."""
    with forward_precision(policy, amp):
        tokens = environment.tokens(policy, instances, actions)
    return _at_least_single(tokens)


def forward_precision(policy: nn.Module, amp: bool) -> AbstractContextManager[object]:
    """Return the context of bfloat16 autocast on the policy's device, or of nothing."""
    if not amp:
        return nullcontext()
    # Autocast's cache would keep a parameter as it was cast for sampling, without gradient, for the
    # pass after it.
    return torch.autocast(device_of(policy).type, torch.bfloat16, cache_enabled=False)


def _at_least_single(tokens: TokenStatistics) -> TokenStatistics:
    """Return the tokens in float32: sums and exponentials need more digits than bfloat16 has."""
    if tokens.log_probs.dtype != torch.bfloat16:
        return tokens
    return TokenStatistics(
        tokens.log_probs.float(), tokens.entropy.float(), tokens.logit_proxy.float(), tokens.mask
    )


def _on_cpu(rollouts: Rollouts) -> Rollouts:
    """Return the rollouts on the CPU, but for the actions, which the policy will be asked about."""
    values: dict[str, Any] = {f.name: getattr(rollouts, f.name) for f in fields(Rollouts)}
    return Rollouts(
        **{
            name: v.cpu() if name != "actions" and v is not None else v
            for name, v in values.items()
        }
    )
