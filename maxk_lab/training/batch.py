"""The batch of a step: instances, trajectories drawn on them, and the tokens of every decision."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from maxk_lab.environments.checks import checked
from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics
from maxk_lab.seeds import derive_seed
from maxk_lab.training.evaluation import device_of, placed
from maxk_lab.training.loss import kl_tokens


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
        """The trajectories that were cut off, [P, n]; none where the environment reports none."""
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

    def kl(self, kind: str) -> Tensor | None:
        """Return the KL estimate of every drawn token, [P, n, T] without gradient.

        None without an anchor. Raises `FloatingPointError` where an estimate is not finite.
        """
        if self.anchor_log_probs is None:
            return None
        kl = kl_tokens(self.numbers.log_probs, self.anchor_log_probs.cpu(), kind)
        if not torch.isfinite(kl[self.numbers.mask]).all():
            raise FloatingPointError(
                "the KL estimate of a token is not finite: the reference gives it no chance "
                "(top_p below 1?)"
            )
        return kl


def draw(
    environment: Environment,
    policy: nn.Module,
    anchor: nn.Module | None,
    count: int,
    n: int,
    seed: int,
) -> Batch:
    """Draw `count` instances with n trajectories each, from the policy and `seed` alone.

    Sampling and tokens take one pass of the policy where the environment can give both.
    """
    instances = environment.instances(count, derive_seed("instances", seed))
    instances = placed(environment, instances, device_of(policy))
    rollout_seed = derive_seed("rollouts", seed)
    if supports(environment, "rollout_with_tokens"):
        rollouts, tokens = environment.rollout_with_tokens(policy, instances, n, seed=rollout_seed)
    else:
        rollouts = environment.rollout(policy, instances, n, seed=rollout_seed)
        tokens = environment.tokens(policy, instances, rollouts.actions)
    under_anchor = None
    if anchor is not None:
        with torch.no_grad():
            under_anchor = environment.tokens(anchor, instances, rollouts.actions).log_probs
    # The policy is asked about the actions again; all else is arithmetic of the CPU.
    on_cpu = {
        f.name: value.cpu()
        for f in fields(Rollouts)
        if f.name != "actions" and (value := getattr(rollouts, f.name)) is not None
    }
    rollouts = checked(replace(rollouts, **on_cpu), n, count)
    return Batch(instances, rollouts, tokens, under_anchor)
