"""The catalogue of environments: names, parameters and limits. Imports no torch and no RL4CO."""

from __future__ import annotations

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.bandit.rows import BANDIT
from maxk_lab.environments.gaussian.rewards import GAUSSIAN_REWARDS, GaussianRewardRow
from maxk_lab.environments.gaussian.rows import GAUSSIAN
from maxk_lab.environments.language.reward_functions import REWARDS, RewardRow
from maxk_lab.environments.language.rows import TOY_LLM
from maxk_lab.environments.language.tasks import TASKS, TaskRow
from maxk_lab.environments.routing.rows import ROUTING
from maxk_lab.environments.rows import EnvironmentRow

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
