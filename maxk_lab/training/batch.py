"""The batch of a step: instances, trajectories, tokens, and the log.

Each name of the log has one meaning; undefined numbers are NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, checked, mapped
from maxk_lab.seeds import derive_seed
from maxk_lab.training.evaluation import device_of, placed
from maxk_lab.training.loss import kl_tokens

# name → meaning. Each is over the whole batch; "scored" excludes samples with a reward of None.
METRICS: dict[str, str] = {
    "reward/mean": "mean raw reward of the scored completions",
    "reward/std": "standard deviation (ddof 1) of the raw rewards within a group, "
    "mean over groups of at least two scored",
    "reward_with_kl/mean": "mean reward that the advantages see: after scale, clip and KL penalty",
    "advantage/mean": "mean of n w_i; 0 for completions that are left out",
    "kl/sequence": "the KL estimate of the settings, summed over a completion's tokens, "
    "mean over completions",
    "kl/token": "the KL estimate of the settings, mean over all tokens",
    "entropy": "entropy of the policy, summed over a completion's tokens, mean over completions",
    "clip_ratio/low": "fraction of the ratios in the loss below 1 - epsilon_low, "
    "mean over inner epochs",
    "clip_ratio/high": "fraction of the ratios in the loss above 1 + epsilon_high, "
    "mean over inner epochs",
    "frac_reward_zero_std": "fraction of the groups of at least two scored whose raw rewards "
    "are all equal",
    "frac_unscorable": "fraction of the completions to which a reward function gave None",
    "frac_truncated": "fraction of the completions cut off before their end",
    "frac_unusable_groups": "fraction of the groups with too few completions left for their "
    "weights",
    "length/mean": "mean number of tokens of a completion",
    "length/min": "least number of tokens of a completion",
    "length/max": "largest number of tokens of a completion",
    "grad_norm": "norm of the gradient before it is clipped, mean over inner epochs",
    "loss": "the whole loss: surrogate, KL and entropy terms, mean over inner epochs",
}
# Logged in addition if K follows a schedule.
SCHEDULE_METRICS: dict[str, str] = {"k": "the K that the step trained for"}
# Logged in addition for estimators that need ratios.
OFF_POLICY_METRICS: dict[str, str] = {
    "ess": "effective sample size of a group's ratios, divided by n, mean over groups and inner "
    "epochs; 1 in the first",
}


@dataclass(frozen=True)
class Batch:
    """The trajectories of a step, drawn under the policy before the step, and their tokens.

    Shapes are [P, n, T]: P instances, n trajectories of each, at most T tokens. Tokens and actions
    are on the policy's device, other fields of the rollouts on the CPU. `anchor_log_probs` are the
    tokens' log-probabilities under the anchor policy. `truncated` [P, n] marks trajectories that
    were cut; all False if the environment does not report it.
    """

    instances: Instances
    rollouts: Rollouts
    tokens: TokenStatistics
    truncated: Tensor
    anchor_log_probs: Tensor | None

    @property
    def drawn(self) -> tuple[Instances, Tensor]:
        """The instances and the actions on them."""
        return self.instances, self.rollouts.actions

    @property
    def old_log_probs(self) -> Tensor:
        """The tokens' log-probabilities [P, n, T] under the policy that drew the batch."""
        return self.tokens.log_probs.detach()

    @cached_property
    def numbers(self) -> TokenStatistics:
        """The tokens without gradient, on the CPU."""
        return mapped(lambda values: values.detach().cpu(), self.tokens)

    def ratios(self, now: TokenStatistics) -> Tensor:
        """Return π(y) / π_old(y) of every trajectory, from the policy's tokens `now`.

        [P, n] float64 without gradient, on the CPU. Raises `FloatingPointError` if a ratio is 0 or
        not finite.
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

        None without an anchor. Raises `FloatingPointError` if an estimate is not finite.
        """
        if self.anchor_log_probs is None:
            return None
        kl = kl_tokens(self.numbers.log_probs, self.anchor_log_probs.cpu(), kind)
        if not torch.isfinite(kl[self.numbers.mask]).all():
            raise FloatingPointError(
                "the KL estimate of a token is not finite: the reference gives it no chance"
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
    """Return `count` instances with n trajectories each, drawn by the policy with `seed`.

    Sampling and tokens take one pass of the policy if the environment supports it.
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
    # The policy evaluates the actions again; everything else runs on the CPU.
    on_cpu = replace(mapped(lambda values: values.cpu(), rollouts), actions=rollouts.actions)
    rollouts = checked(on_cpu, n, count)
    truncated = rollouts.truncated
    if truncated is None:
        truncated = torch.zeros(rollouts.rewards.shape, dtype=torch.bool)
    return Batch(instances, rollouts, tokens, truncated, under_anchor)


def batch_metrics(
    batch: Batch, shaped: Tensor, weights: Tensor, unusable: Tensor, kl: Tensor | None
) -> dict[str, float]:
    """Return the log of a batch with shaped rewards [P, n] and weights [P, n].

    Rewards are NaN for unscorable samples; unusable: [P]; kl: [P, n, T].
    """
    raw, mask = batch.rollouts.rewards, batch.numbers.mask
    scored = ~raw.isnan()
    enough = scored.sum(1) >= 2
    scored_in, filled = scored[enough], raw.double()[enough].nan_to_num(0.0)
    counts = scored_in.sum(1)
    means = filled.sum(1) / counts
    squares = torch.where(scored_in, (filled - means.unsqueeze(1)).square(), 0.0).sum(1)
    highest = filled.masked_fill(~scored_in, -torch.inf).amax(1)
    lowest = filled.masked_fill(~scored_in, torch.inf).amin(1)
    lengths = mask.sum(-1).double()
    return {
        "reward/mean": _mean(raw[scored]),
        "reward/std": _mean((squares / (counts - 1)).sqrt()),
        "reward_with_kl/mean": _mean(shaped[scored]),
        "frac_reward_zero_std": _mean(highest == lowest),
        "frac_unscorable": _mean(~scored),
        "advantage/mean": mask.shape[1] * _mean(weights),
        "kl/sequence": math.nan if kl is None else _mean(torch.where(mask, kl, 0.0).sum(-1)),
        "kl/token": math.nan if kl is None else _mean(kl[mask]),
        "entropy": _mean(torch.where(mask, batch.numbers.entropy, 0.0).sum(-1)),
        "frac_truncated": _mean(batch.truncated),
        "frac_unusable_groups": _mean(unusable),
        "length/mean": _mean(lengths),
        "length/min": lengths.min().item(),
        "length/max": lengths.max().item(),
    }


def _mean(values: Tensor) -> float:
    """Return the mean in float64; NaN without values."""
    return values.detach().double().mean().item()
