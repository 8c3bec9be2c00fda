"""The tabular softmax bandit: the smallest policy on which everything is known exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.catalogue import EnvironmentRow
from maxk_lab.environments.decisions import logit_proxy, token_statistics
from maxk_lab.environments.protocol import Rollouts, TokenStatistics
from maxk_lab.environments.rng import isolated_rng


class SoftmaxTable(nn.Module):
    """One vector of logits, shared by all instances; the score of arm a is e_a − π."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self) -> Tensor:
        """Log-probabilities [arms]."""
        return torch.log_softmax(self.logits, dim=-1)


class Bandit:
    """Instances are reward tables [B, arms], N(0, 1) + `reward_shift`; one trajectory is one arm."""

    def __init__(self, row: EnvironmentRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
        self.arms: int = parameters["arms"]
        self.reward_shift: float = parameters["reward_shift"]
        self.init_std: float = policy["init_std"]
        self.dtype: torch.dtype = getattr(torch, policy["dtype"])
        self.enumerable = row.enumerable(parameters)

    def policy(self, seed: int) -> nn.Module:
        with isolated_rng(seed):
            return SoftmaxTable(self.init_std * torch.randn(self.arms, dtype=self.dtype)).eval()

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Tensor:
        with isolated_rng(seed):
            return torch.randn(count, self.arms, dtype=torch.float64) + self.reward_shift

    def select(self, instances: Tensor, index: int) -> Tensor:
        return instances[index : index + 1]

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: Tensor, n: int, *, seed: int) -> Rollouts:
        log_policy = policy()
        probabilities = log_policy.exp()
        with isolated_rng(seed):
            arms = torch.multinomial(probabilities.expand(len(instances), -1), n, replacement=True)
        chosen = log_policy[arms]
        entropy = -(probabilities * log_policy).sum()
        return Rollouts(
            rewards=instances.gather(1, arms),
            log_probs=chosen,
            actions=arms.unsqueeze(-1),
            lengths=torch.ones_like(arms),
            logit_proxy=logit_proxy(log_policy.expand(*arms.shape, -1), arms),
            entropy=entropy.expand_as(chosen),
        )

    def log_probs(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> Tensor:
        log_policy: Tensor = policy()
        return log_policy[actions[..., 0]]

    def tokens(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        mask = torch.zeros_like(actions, dtype=torch.bool)
        mask[..., 0] = True
        log_policy = policy().expand(*actions.shape, -1)
        return token_statistics(log_policy, actions, mask)

    def trajectory_inputs(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        return (actions[..., :1].reshape(-1, 1),)

    def trajectory_log_prob(self, policy: Callable[..., Tensor], *row: Tensor) -> Tensor:
        return policy().gather(0, row[0]).squeeze(0)

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(self.arms).unsqueeze(-1), instances[0]
