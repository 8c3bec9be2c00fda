"""The batch of a step: instances, trajectories drawn on them, and what every decision says, in one pass where there is one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.capabilities import SamplingWithTokens
from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics
from maxk_lab.seeds import derive_seed
from maxk_lab.training.device import device_of, placed
from maxk_lab.training.settings import Settings


@dataclass(frozen=True)
class Batch:
    """What was drawn for a step, under the policy as it was then: its tokens, and their log-probabilities under the reference.

    Tokens and actions are on the policy's device, everything else of the rollouts on the CPU.
    """

    instances: Instances
    rollouts: Rollouts
    tokens: TokenStatistics
    reference_log_probs: Tensor | None

    @property
    def old_log_probs(self) -> Tensor:
        """[P, n, T]: the rollouts are the policy's own, so its first pass gives them, and a ratio of exactly 1."""
        return self.tokens.log_probs.detach()

    @cached_property
    def numbers(self) -> TokenStatistics:
        """The tokens without gradient, on the CPU."""
        return TokenStatistics(
            *(getattr(self.tokens, f.name).detach().cpu() for f in fields(TokenStatistics))
        )

    @cached_property
    def truncated(self) -> Tensor:
        """[P, n]; an environment that says nothing of it cuts nothing off."""
        if self.rollouts.truncated is None:
            return torch.zeros(self.rollouts.rewards.shape, dtype=torch.bool)
        return self.rollouts.truncated


def draw(
    environment: Environment,
    policy: nn.Module,
    reference: nn.Module | None,
    settings: Settings,
    n: int,
    seed: int,
) -> Batch:
    """batch / n instances with n trajectories each; they depend on the policy and `seed` only."""
    made = environment.instances(settings.batch // n, derive_seed("instances", seed))
    instances, rollout_seed = (
        placed(environment, made, device_of(policy)),
        derive_seed("rollouts", seed),
    )
    if isinstance(environment, SamplingWithTokens):
        with forward_precision(policy, settings.amp):
            rollouts, tokens = environment.rollout_with_tokens(
                policy, instances, n, seed=rollout_seed
            )
        tokens = _at_least_single(tokens)
    else:
        with forward_precision(policy, settings.amp):
            rollouts = environment.rollout(policy, instances, n, seed=rollout_seed)
        tokens = tokens_of(environment, policy, instances, rollouts.actions, settings.amp)
    under_reference = None
    if reference is not None:
        with torch.no_grad():
            under_reference = tokens_of(
                environment, reference, instances, rollouts.actions, settings.amp
            ).log_probs
    return Batch(instances, _on_cpu(rollouts), tokens, under_reference)


def tokens_of(
    environment: Environment, policy: nn.Module, instances: Instances, actions: Tensor, amp: bool
) -> TokenStatistics:
    """`environment.tokens` in the precision of the settings, its numbers in single precision at least."""
    with forward_precision(policy, amp):
        tokens = environment.tokens(policy, instances, actions)
    return _at_least_single(tokens)


def forward_precision(policy: nn.Module, amp: bool) -> AbstractContextManager[object]:
    """bfloat16 autocast on the policy's device, or nothing.

    Without autocast's cache: a weight first cast for sampling, without gradient, would stay without one in the pass after it.
    """
    if not amp:
        return nullcontext()
    return torch.autocast(device_of(policy).type, torch.bfloat16, cache_enabled=False)


def _at_least_single(tokens: TokenStatistics) -> TokenStatistics:
    """Log-probabilities that are added up and exponentiated need more digits than the pass that made them."""
    if tokens.log_probs.dtype != torch.bfloat16:
        return tokens
    return TokenStatistics(
        tokens.log_probs.float(), tokens.entropy.float(), tokens.logit_proxy.float(), tokens.mask
    )


def _on_cpu(rollouts: Rollouts) -> Rollouts:
    """The rollouts with everything but the actions, which the policy will be asked about again, on the CPU."""
    values: dict[str, Any] = {f.name: getattr(rollouts, f.name) for f in fields(Rollouts)}
    return Rollouts(
        **{
            name: v.cpu() if name != "actions" and v is not None else v
            for name, v in values.items()
        }
    )
