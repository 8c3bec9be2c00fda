"""Greedy decoding of RL4CO's environments: once, over symmetric copies, or over forced starts."""

from __future__ import annotations

import torch
from rl4co.data.transforms import StateAugmentation
from rl4co.envs import RL4COEnvBase
from rl4co.utils.ops import batchify, unbatchify
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.routing.decoding import (
    Decoded,
    decode,
    encode,
    greedily,
    next_log_policy,
    replayed,
    start_nodes,
)
from maxk_lab.errors import LabError

# RL4CO's dihedral augmentation has the eight symmetries of the square, and no other number of them.
DIHEDRAL = 8


@torch.no_grad()
def greedy_rewards(
    env: RL4COEnvBase, policy: nn.Module, instances: TensorDict, *, shared_encoding: bool
) -> Tensor:
    """[B]: the reward of taking the most likely action throughout."""
    decoded = _greedy(env, policy, instances, 1, shared_encoding)
    return env.get_reward(decoded.state, decoded.actions)


@torch.no_grad()
def augmented_rewards(
    env: RL4COEnvBase, policy: nn.Module, instances: TensorDict, *, shared_encoding: bool
) -> Tensor:
    """[B]: the best greedy solution of the eight symmetric copies, scored on the original instance.

    Raises `LabError` where instances have no coordinates.
    """
    if instances.get("locs", None) is None:
        raise LabError(f"{env.name} has no coordinates to rotate: no augmentation")
    side = _side(env)
    unit = instances.clone().set("locs", instances["locs"] / side)
    copies = StateAugmentation(num_augment=DIHEDRAL, augment_fn="dihedral8")(unit)
    copies.set("locs", copies["locs"] * side)
    actions = _greedy(env, policy, copies, 1, shared_encoding).actions
    original = decode(env, batchify(instances.clone(), DIHEDRAL), replayed(actions))
    return unbatchify(env.get_reward(original.state, original.actions), DIHEDRAL).amax(1)


@torch.no_grad()
def multistart_rewards(
    env: RL4COEnvBase, policy: nn.Module, instances: TensorDict, *, shared_encoding: bool
) -> Tensor:
    """[B]: the best of the greedy solutions from every start that RL4CO has."""
    n = env.get_num_starts(instances)
    first = start_nodes(env, instances, n)
    decoded = _greedy(env, policy, instances, n, shared_encoding, first)
    return unbatchify(env.get_reward(decoded.state, decoded.actions), n).amax(1)


def _side(env: RL4COEnvBase) -> float:
    """The side of the square in which `env` draws its coordinates.

    RL4CO mirrors at the middle of the unit square, outside cvrptw's.
    """
    if env.name != "cvrptw":
        return 1.0
    generator = env.generator
    return float(generator.max_loc / generator.max_time if generator.scale else generator.max_loc)


def _greedy(
    env: RL4COEnvBase,
    policy: nn.Module,
    instances: TensorDict,
    n: int,
    shared_encoding: bool,
    first: Tensor | None = None,
) -> Decoded:
    start = encode(policy, instances, n, shared_encoding=shared_encoding)
    return decode(
        env, start.state, lambda state: greedily(next_log_policy(policy, start, state)), first
    )
