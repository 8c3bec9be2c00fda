"""A softmax bandit so small that all A^n outcomes of n draws can be listed: means without sampling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from maxk_lab.estimators.dispatch import advantages


@dataclass(frozen=True)
class TinyBandit:
    """Logits and rewards per arm; everything is float64.

    The score of arm a is e_a - p, with p the probabilities.
    """

    logits: tuple[float, ...]
    rewards: tuple[float, ...]

    def probabilities(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits, dim=-1)

    def objective(self, logits: Tensor, k: int) -> Tensor:
        """J_K = sum_j R_(j) (F_j^K - F_(j-1)^K) over the distinct rewards, F the cumulative probability."""
        p = self.probabilities(logits)
        levels = sorted(set(self.rewards))
        arm_rewards = torch.tensor(self.rewards, dtype=torch.float64)
        below = [p[arm_rewards <= level].sum() ** k for level in levels]
        # F = 1 exactly at the top, whatever the rounding of the sum.
        below[-1] = torch.ones((), dtype=torch.float64)
        masses = [below[0], *(b - a for a, b in pairwise(below))]
        return torch.stack([level * mass for level, mass in zip(levels, masses, strict=True)]).sum()

    def gradient(self, k: int) -> Tensor:
        """The exact gradient of J_K with respect to the logits, `[arms]`."""
        logits = torch.tensor(self.logits, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(self.objective(logits, k), logits)
        return gradient

    def mean_estimate(self, n: int, k: int, *, estimator: str, baseline: str) -> Tensor:
        """E[sum_i w_i score_i] over all outcomes of n i.i.d. draws, `[arms]`."""
        p = self.probabilities(torch.tensor(self.logits, dtype=torch.float64))
        arms = _outcomes(len(self.logits), n)
        chance = p[arms].prod(dim=-1, keepdim=True)
        rewards = torch.tensor(self.rewards, dtype=torch.float64)[arms]
        weights = advantages(rewards, estimator=estimator, baseline=baseline, k=k)
        scores = torch.eye(len(self.logits), dtype=torch.float64) - p
        estimates = (weights.unsqueeze(-1) * scores[arms]).sum(dim=1)
        return (chance * estimates).sum(dim=0)


@lru_cache(maxsize=8)
def _outcomes(arms: int, n: int) -> Tensor:
    """Every n-tuple of arms, `[arms^n, n]`."""
    return torch.cartesian_prod(*[torch.arange(arms)] * n).reshape(-1, n)
