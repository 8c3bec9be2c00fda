"""The first actions that RL4CO forces its trajectories to begin with, one node for each."""

from __future__ import annotations

import torch
from rl4co.envs import RL4COEnvBase
from tensordict import TensorDict
from torch import Tensor

from maxk_lab.errors import LabError

# Environments without a depot, which is never a start.
ANY_START = ("tsp", "flp", "mcp")


def start_count(env: RL4COEnvBase, instances: TensorDict) -> int:
    """The number of nodes at which RL4CO would force a trajectory of these instances to begin."""
    return _starts(env, instances)[1]


def start_nodes(env: RL4COEnvBase, instances: TensorDict, n: int) -> Tensor:
    """POMO's forced first actions of n trajectories per instance, [N]: node i for the i-th.

    After the last node, the first follows again. Those of RL4CO's `select_start_nodes`, but by the
    size of the instances instead of that of the generator, and pickups only.
    """
    lowest, count = _starts(env, instances)
    chosen = torch.arange(n, device=instances["action_mask"].device) % count + lowest
    if not instances["action_mask"][:, chosen].all():
        raise LabError(
            f"not every instance of {env.name} can begin at every node that RL4CO would force"
        )
    return chosen.repeat_interleave(len(instances))


def _starts(env: RL4COEnvBase, instances: TensorDict) -> tuple[int, int]:
    """The first node at which a trajectory may be forced to begin, and how many there are."""
    lowest = 0 if env.name in ANY_START else 1
    nodes = instances["action_mask"].shape[-1] - lowest
    return lowest, nodes // 2 if env.name == "pdp" else nodes
