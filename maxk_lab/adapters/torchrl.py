"""TorchRL: groups of trajectories in a replay buffer with Max@K advantages."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.objectives.llm import MCAdvantage

from maxk_lab.adapters.groups import Weighting
from maxk_lab.errors import LabError, LabWarning


class MaxKAdvantage(MCAdvantage):  # type: ignore[misc]  # TorchRL has no types
    """`MCAdvantage` with the advantages of the catalogue, not divided by a deviation.

    grpo_size: n, the trajectories of a group. `k`, `estimator` and `baseline` are as in
    `maxk_lab.advantages`; the length of a trajectory is the number of its steps. All other
    arguments go to TorchRL; the default of `trajectory_return` is "sum". A return of NaN is
    missing: its trajectory has advantages of 0 and does not enter the weights of the group.

    Raises `LabError` for returns per step, for candidates chosen by their returns, and for a pair
    that needs more than rewards or does not take n samples.
    """

    def __init__(
        self,
        grpo_size: int,
        *args: Any,
        k: int | None = None,
        estimator: str = "maxk",
        baseline: str | None = None,
        trajectory_return: str | None = "sum",
        **options: Any,
    ) -> None:
        if trajectory_return is None:
            raise LabError(
                "trajectory_return must be sum, max or mean: Max@K needs one return a trajectory"
            )
        super().__init__(grpo_size, *args, trajectory_return=trajectory_return, **options)
        if self.candidate_group_size > grpo_size:
            raise LabError(
                f"candidate_group_size must be grpo_size, {grpo_size}: a choice by returns biases "
                "every estimate"
            )
        if self.keep_return_bounds is not None:
            warnings.warn(
                "keep_return_bounds drops groups by their returns: a bias, unless all advantages "
                "of a dropped group are 0, as with (0, 1) for returns of 0 and 1",
                LabWarning,
                stacklevel=2,
            )
        self.weighting = Weighting.chosen(
            k=k, estimator=estimator, baseline=baseline, n=grpo_size, lengths=()
        )

    def _trajectory_advantage(self, trajs: list[TensorDictBase]) -> TensorDictBase | None:
        """Return a group with its advantages, or None if TorchRL drops it."""
        if super()._trajectory_advantage(trajs) is None:
            return None
        rewards = [trajectory.get(self.rewards_key) for trajectory in trajs]
        advantages = self.weighting.advantages(
            self._trajectory_returns(rewards),
            torch.zeros(len(trajs)),
            lengths=[len(trajectory) for trajectory in trajs],
            small_groups="zero",
        )
        for trajectory, reward, advantage in zip(trajs, rewards, advantages, strict=True):
            trajectory.set(self.advantage_key, advantage.expand(reward.shape).clone())
        return self._cat_tensordicts(trajs, -1)
