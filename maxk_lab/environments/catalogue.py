"""The catalogue of environments: names, parameters and limits. Imports no torch and no RL4CO."""

from __future__ import annotations

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.bandit.rows import BANDIT
from maxk_lab.environments.gaussian.rows import GAUSSIAN, GAUSSIAN_REWARDS, GaussianRewardRow
from maxk_lab.environments.kinds import EnvironmentRow, RewardRow, TaskRow
from maxk_lab.environments.language.rows import REWARDS, TASKS, TOY_LLM
from maxk_lab.environments.routing.rows import ROUTING

__all__ = [
    "ENVIRONMENTS",
    "GAUSSIAN_REWARDS",
    "REWARDS",
    "TASKS",
    "EnvironmentRow",
    "GaussianRewardRow",
    "RewardRow",
    "TaskRow",
]

ENVIRONMENTS: Catalogue[EnvironmentRow] = Catalogue(
    "environment", [*ROUTING, BANDIT, GAUSSIAN, TOY_LLM], "maxk_lab.environments"
)
