"""What RL4CO makes for an environment: the environment itself, the attention policy, and instances drawn from a seed."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# RL4CO imports matplotlib, which complains on stderr when it cannot write its cache.
os.environ.setdefault("MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), "maxk-lab-matplotlib"))

import torch
from rl4co.envs import RL4COEnvBase, get_env
from rl4co.models.zoo.am.policy import AttentionModelPolicy
from tensordict import TensorDict
from torch import nn

from maxk_lab.environments.routing import repairs as rl4co_repairs
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.random_state import isolated_rng


def make_rl4co(row: EnvironmentRow, parameters: Mapping[str, Any]) -> RL4COEnvBase:
    """RL4CO's environment of this row; `parameters` are the row's own, `name` among them or not.

    Sizes that RL4CO has no vehicle capacity or length limit for get those of the nearest size that it lists.
    """
    generator = {key: value for key, value in parameters.items() if key != "name"}
    if "num_agents" in generator:
        agents = generator.pop("num_agents")
        generator |= {"min_num_agents": agents, "max_num_agents": agents}
    # RL4CO reseeds the global generator when an environment is made, and warns of the nearest size.
    with isolated_rng(0), _without_warnings():
        repaired = rl4co_repairs.ENVIRONMENTS.get(row.name)
        if repaired is not None:
            return repaired(generator_params=generator, check_solution=False)
        return get_env(row.name, generator_params=generator, check_solution=False)


def make_policy(
    name: str, parameters: Mapping[str, Any], dtype: torch.dtype, seed: int
) -> nn.Module:
    """The attention model with instance normalisation: batch normalisation would couple the instances' scores.

    `parameters` are those of `ATTENTION_POLICY` but `dtype`.
    """
    with isolated_rng(seed), _without_warnings():
        policy = AttentionModelPolicy(
            env_name=name, normalization="instance", use_graph_context=False, **parameters
        )
        rl4co_repairs.repair_policy(policy, name, policy.decoder.embed_dim)
    return policy.to(dtype).eval()


def draw_instances(env: RL4COEnvBase, count: int, seed: int, dtype: torch.dtype) -> TensorDict:
    """The first states of `count` new instances on the CPU, their floating-point entries as `dtype`."""
    with isolated_rng(seed):  # RL4CO's generators take no generator of their own
        state = env.reset(batch_size=[count])
    return state.apply(lambda x: x.to(dtype) if x.is_floating_point() else x)


@contextmanager
def _without_warnings() -> Iterator[None]:
    logger = logging.getLogger("rl4co")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
