"""RL4CO's environments as they are made here, and instances drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxk_lab.policies.quiet import without_warnings  # isort: skip

import torch
from rl4co.envs import RL4COEnvBase, get_env
from tensordict import TensorDict

from maxk_lab.environments.routing import repairs
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.random_state import isolated_rng


def make_rl4co(row: EnvironmentRow, parameters: Mapping[str, Any]) -> RL4COEnvBase:
    """RL4CO's environment of this row; `parameters` are the row's own, `name` among them or not.

    Sizes that RL4CO has no vehicle capacity or length limit for get those of the nearest size that
    it lists.
    """
    generator = {key: value for key, value in parameters.items() if key != "name"}
    if "num_agents" in generator:
        agents = generator.pop("num_agents")
        generator |= {"min_num_agents": agents, "max_num_agents": agents}
    # RL4CO reseeds the global generator when an environment is made, and warns of the nearest size.
    with isolated_rng(0), without_warnings():
        repaired = repairs.ENVIRONMENTS.get(row.name)
        if repaired is not None:
            return repaired(generator_params=generator, check_solution=False)
        return get_env(row.name, generator_params=generator, check_solution=False)


def draw_instances(env: RL4COEnvBase, count: int, seed: int, dtype: torch.dtype) -> TensorDict:
    """The first states of `count` new instances on the CPU, floating-point entries as `dtype`."""
    with isolated_rng(seed):  # RL4CO's generators take no generator of their own
        state = env.reset(batch_size=[count])
    return in_precision(state, dtype)


def in_precision(state: TensorDict, dtype: torch.dtype) -> TensorDict:
    """The same with its floating-point entries as `dtype`."""
    return state.apply(lambda x: x.to(dtype) if x.is_floating_point() else x)
