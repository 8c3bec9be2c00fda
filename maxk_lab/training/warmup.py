"""The warm-up of a gradient study: plain policy gradient up to a stage of training.

Its weights are those of REINFORCE with a leave-one-out mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.calls import Leaving
from maxk_lab.environments.checks import check_scorable, check_shape, checked
from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.environments.rollouts import Rollouts
from maxk_lab.estimators import advantages
from maxk_lab.seeds import derive_seed


@dataclass
class WarmUp:
    """A policy under training: its optimiser and the number of steps taken."""

    policy: nn.Module
    optimizer: torch.optim.Adam
    step: int = 0

    @classmethod
    def start(cls, policy: nn.Module, learning_rate: float) -> WarmUp:
        """Return a warm-up that has taken no step, with Adam at the given rate."""
        return cls(policy, torch.optim.Adam(policy.parameters(), lr=learning_rate))

    def state(self) -> dict[str, Any]:
        """Return all that `torch.save` must keep to go on from here to the same numbers."""
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]


def train_until(
    warmup: WarmUp,
    environment: Environment,
    stop: int,
    *,
    batch: int,
    n: int,
    clip: float,
    seed: int,
    on_step: Callable[[int, int], None] = lambda step, steps: None,
    leaving: Callable[[], bool] = lambda: False,
) -> None:
    """Take the steps up to `stop`.

    Every step's data depend on (seed, step) only, so that an interrupted warm-up repeats itself.
    Raises `FloatingPointError` when the loss is not finite, and `Leaving` after the step at which
    `leaving()` says so, unless it was the last.
    """
    policy = warmup.policy
    while warmup.step < stop:
        step_seed = derive_seed("warmup", seed, warmup.step)
        instances = environment.instances(batch, derive_seed("instances", step_seed))
        rollouts, log_probs = _rollouts(
            environment, policy, instances, n, derive_seed("rollouts", step_seed)
        )
        check_scorable(rollouts.rewards, f" of warm-up step {warmup.step}", "gradient")
        weights = advantages(rollouts.rewards, estimator="reinforce", baseline="centred", k=1)
        loss = -(weights.to(log_probs).detach() * log_probs).sum(-1).mean()
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the warm-up loss is {loss.item()} at step {warmup.step}")
        warmup.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(policy.parameters(), clip)
        warmup.optimizer.step()
        warmup.step += 1
        on_step(warmup.step, stop)
        if warmup.step < stop and leaving():
            raise Leaving


def _rollouts(
    environment: Environment, policy: nn.Module, instances: Instances, n: int, seed: int
) -> tuple[Rollouts, Tensor]:
    """Return trajectories and their log π [B, n], by one pass of the policy where it gives both."""
    if supports(environment, "rollout_with_tokens"):
        rollouts, tokens = environment.rollout_with_tokens(policy, instances, n, seed=seed)
        return checked(rollouts, n), tokens.log_probs.sum(-1)
    rollouts = checked(environment.rollout(policy, instances, n, seed=seed), n)
    log_probs = environment.log_probs(policy, instances, rollouts.actions)
    check_shape("log_probs", log_probs, len(rollouts.rewards), n)
    return rollouts, log_probs
