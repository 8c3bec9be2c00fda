"""A policy on held-out instances: rewards of i.i.d. samples, their Max@K curve and quantiles."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maxk_lab.environments.checks import checked
from maxk_lab.environments.environment import Environment, Instances
from maxk_lab.environments.rollouts import Rollouts
from maxk_lab.estimators import maxk_curve
from maxk_lab.training.device import device_of, placed


def sample_rewards(
    environment: Environment, policy: nn.Module, instances: Instances, samples: int, seed: int
) -> Tensor:
    """Return the rewards of `samples` i.i.d. trajectories of every instance.

    [I, samples] float64 on the CPU, NaN where unscorable.
    """
    _, rollouts = sampled(environment, policy, instances, samples, seed)
    return rollouts.rewards.cpu().double()


def sampled(
    environment: Environment, policy: nn.Module, instances: Instances, samples: int, seed: int
) -> tuple[Instances, Rollouts]:
    """Return the instances where the policy is, and `samples` i.i.d. trajectories of each."""
    there = placed(environment, instances, device_of(policy))
    return there, checked(environment.rollout(policy, there, samples, seed=seed), samples)


def max_curves(rewards: Tensor) -> Tensor:
    """Return ρ̂(n, K) of every instance, K = 1..n: rewards [I, n] of i.i.d. samples → [I, n].

    Each is unbiased for the instance's J_K; for rewards of 0 and 1 it is pass@k,
    1 − C(n−c,k)/C(n,k). Samples that no reward function can score (NaN) are left out: an instance
    with m scored ones has its J_K among scorable trajectories up to K = m, and NaN beyond.
    """
    scored = ~rewards.isnan()
    curves = torch.full_like(rewards, torch.nan)
    counts = scored.sum(1)
    for count in sorted(set(counts.tolist())):
        rows = counts == count
        if count:
            curves[rows, :count] = maxk_curve(rewards[rows][scored[rows]].view(-1, count))
    return curves


def reward_quantiles(rewards: Tensor, fraction: float) -> Tensor:
    """Return a quantile of each instance's scored samples: rewards [I, n] → [I].

    It is linear between order statistics, and NaN without a scored sample.
    """
    return rewards.nanquantile(fraction, dim=1, interpolation="linear")
