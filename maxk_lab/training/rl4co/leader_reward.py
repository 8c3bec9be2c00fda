"""Leader Reward on RL4CO's POMO: an extra share for the best sample of every instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rl4co.envs import RL4COEnvBase
from torch import nn

from maxk_lab.errors import LabError
from maxk_lab.training.rl4co.maxk_pomo import MaxKPOMO


class LeaderRewardPOMO(MaxKPOMO):
    """POMO with advantages R_i − mean R + α (max R − mean R) for the best i.

    Samples tied for the best share α equally. α = 0 is POMO's loss exactly; with start="multistart"
    it is POMO. `k` is only that of validation. All other arguments are those of `MaxKPOMO`. Biased
    for every J_K. Wang et al. 2024, arXiv 2405.13947. Raises `LabError` for α < 0.
    """

    not_kept: ClassVar[tuple[str, ...]] = (
        *MaxKPOMO.not_kept,
        "estimator",
        "baseline",
        "variance_reduction",
    )

    def __init__(
        self,
        env: RL4COEnvBase,
        policy: nn.Module | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        baseline: str = "shared",
        *,
        alpha: float = 1.0,
        **kwargs: Any,
    ) -> None:
        if baseline != "shared":
            raise LabError(
                f"Leader Reward has its own baseline, which RL4CO calls shared, got {baseline!r}"
            )
        for name in ("estimator", "variance_reduction"):
            if name in kwargs:
                raise LabError(
                    f"Leader Reward is an estimator of its own: no {name}, got {kwargs[name]!r}"
                )
        super().__init__(env, policy, policy_kwargs, estimator=f"leader_reward[{alpha}]", **kwargs)
