"""Environments draw i.i.d. trajectories from a policy, and list them all where they can."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.environments.catalogue import ENVIRONMENTS as ENVIRONMENTS
    from maxk_lab.environments.environment import Environment as Environment
    from maxk_lab.environments.environment import FullEnvironment as FullEnvironment
    from maxk_lab.environments.environment import Optima as Optima
    from maxk_lab.environments.environment import make_environment as make_environment
    from maxk_lab.environments.environment import supports as supports
    from maxk_lab.environments.exact import Bandit as Bandit
    from maxk_lab.environments.exact import Gaussian as Gaussian
    from maxk_lab.environments.exact_rows import GAUSSIAN_REWARDS as GAUSSIAN_REWARDS
    from maxk_lab.environments.language.environment import (
        LanguageEnvironment as LanguageEnvironment,
    )
    from maxk_lab.environments.language.rewards import RewardFunction as RewardFunction
    from maxk_lab.environments.language.rewards import load_rewards as load_rewards
    from maxk_lab.environments.language.rewards import score as score
    from maxk_lab.environments.language.tasks import REWARDS as REWARDS
    from maxk_lab.environments.language.tasks import TASKS as TASKS
    from maxk_lab.environments.rollouts import Rollouts as Rollouts
    from maxk_lab.environments.rollouts import TokenStatistics as TokenStatistics
    from maxk_lab.environments.rollouts import token_statistics as token_statistics
    from maxk_lab.environments.routing.adapter import RL4COEnvironment as RL4COEnvironment
    from maxk_lab.environments.rows import EnvironmentRow as EnvironmentRow
    from maxk_lab.environments.rows import FileFormat as FileFormat
    from maxk_lab.policies.transformer import CausalTransformer as CausalTransformer
else:
    __getattr__, __dir__ = lazy_exports(__name__)
