"""The tabular softmax bandit: the smallest policy on which everything is known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.catalogue import EnvironmentRow
from maxk_lab.environments.exact_rows import EXPONENTIAL_RATE
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, token_statistics
from maxk_lab.policies.catalogue import fresh_policy
from maxk_lab.seeds import isolated_rng


class Bandit:
    """Instances are reward tables [B, arms], those of `rewards` + `reward_shift`.

    One trajectory is one arm.
    """

    def __init__(
        self, row: EnvironmentRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.arms: int = parameters["arms"]
        self.reward_shift: float = parameters["reward_shift"]
        self.rewards: str = parameters.get("rewards", "gaussian")
        self.policy_parameters = dict(policy)
        self.enumerable = row.enumerable(parameters)

    def policy(self, seed: int) -> nn.Module:
        return fresh_policy(self.policy_parameters, seed, arms=self.arms)

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Tensor:
        """Gaussian tables are drawn, the others are the same for every seed and instance."""
        if self.rewards != "gaussian":
            return _table(self.rewards, self.arms).repeat(count, 1) + self.reward_shift
        with isolated_rng(seed):
            return torch.randn(count, self.arms, dtype=torch.float64) + self.reward_shift

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: Tensor, n: int, *, seed: int) -> Rollouts:
        probabilities = policy().exp().expand(len(instances), -1)
        with isolated_rng(seed):
            arms = torch.multinomial(probabilities, n, replacement=True)
        actions = arms.unsqueeze(-1)
        tokens = self.tokens(policy, instances, actions)
        return Rollouts.of_tokens(tokens, actions=actions, rewards=instances.gather(1, arms))

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


def _table(name: str, arms: int) -> Tensor:
    """The rewards of a table that is not drawn, [arms], ascending from 0 to 1."""
    position = torch.linspace(0, 1, arms, dtype=torch.float64)
    if name == "linear":
        return position
    if name == "exponential":
        return torch.expm1(EXPONENTIAL_RATE * position) / math.expm1(EXPONENTIAL_RATE)
    return (position == 1).double()
