"""Environments sample i.i.d. trajectories from a policy, and list them all if possible."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.environments.environment import Environment as Environment
    from maxk_lab.environments.environment import FullEnvironment as FullEnvironment
    from maxk_lab.environments.environment import Optima as Optima
    from maxk_lab.environments.environment import make_environment as make_environment
    from maxk_lab.environments.environment import supports as supports
    from maxk_lab.environments.rollouts import Rollouts as Rollouts
    from maxk_lab.environments.rollouts import token_statistics as token_statistics
    from maxk_lab.environments.rows import EnvironmentRow as EnvironmentRow
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "environment": "Environment FullEnvironment Optima make_environment supports",
            "rollouts": "Rollouts token_statistics",
            "rows": "EnvironmentRow",
        },
    )
