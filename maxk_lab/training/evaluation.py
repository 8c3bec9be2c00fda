"""The Max@K curve of a policy on held-out instances."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maxk_lab.environments.protocol import Environment, Instances
from maxk_lab.estimators import maxk_curve


def evaluate(
    environment: Environment, policy: nn.Module, instances: Instances, samples: int, seed: int
) -> Tensor:
    """ρ̂(samples, K) of every instance, K = 1..samples: [I, samples] float64, each unbiased for the instance's J_K.

    From one set of `samples` i.i.d. trajectories per instance; for rewards of 0 and 1 this is pass@k, 1 − C(n−c,k)/C(n,k).
    Samples that no reward function can score are left out: an instance with m scored ones has its J_K among scorable
    trajectories up to K = m, and NaN beyond.
    """
    rewards = environment.rollout(policy, instances, samples, seed=seed).rewards.double()
    scored = ~rewards.isnan()
    curves = torch.full_like(rewards, torch.nan)
    counts = scored.sum(1)
    for count in sorted(set(counts.tolist())):
        rows = counts == count
        if count:
            curves[rows, :count] = maxk_curve(rewards[rows][scored[rows]].view(-1, count))
    return curves
