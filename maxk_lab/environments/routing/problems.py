"""RL4CO's problems: instances from a seed, forced starts, mirrored copies, and fast steps.

Steps of tsp and cvrp also run on plain dictionaries, with RL4CO's own values. RL4CO's tensor
dictionaries cost as much as the arithmetic of a step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from maxk_lab.policies.quiet import without_warnings  # isort: skip

import torch
from rl4co.data.transforms import StateAugmentation
from rl4co.envs import CVRPEnv, RL4COEnvBase, TSPEnv, get_env
from tensordict import TensorDict
from torch import Tensor

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.functions import load_function
from maxk_lab.environments.routing.rows import OWN
from maxk_lab.errors import LabError
from maxk_lab.seeds import isolated_rng

# RL4CO's dihedral augmentation needs exactly the eight symmetries of the square.
DIHEDRAL = 8
# Entries of a first state that are never negative.
AMOUNTS = ("demand", "prize", "expected_prize", "real_prize", "penalty", "prize_required")
AMOUNTS += ("job_due_time", "job_weight", "job_process_time")
# RL4CO's tolerance of a load above the capacity.
OVERLOAD = 1e-5
# OP's reset subtracts this from the longest allowed tour, against rounding.
OP_MARGIN = 1e-6


def make_rl4co(name: str, parameters: Mapping[str, Any]) -> RL4COEnvBase:
    """Return RL4CO's environment of this name or path, with the parameters of its row.

    For sizes without a vehicle capacity or length limit in RL4CO, the values of the nearest listed
    size are used.
    """
    settings = {key: value for key, value in parameters.items() if key not in ("name", *OWN)}
    generator = settings | dict(parameters.get("generator", {}))
    # RL4CO reseeds the global generator when it makes an environment, and warns of the nearest
    # size.
    with isolated_rng(0), without_warnings():
        if parameters.get("env"):
            return _users_environment(parameters["env"], generator)
        _check_generator(name, parameters.get("generator", {}))
        return get_env(name, generator_params=generator, check_solution=False)


def _users_environment(path: str, generator: Mapping[str, Any]) -> RL4COEnvBase:
    """Return the environment that a user's function makes. Raises `LabError` for anything else."""
    make = load_function(path, None, "(**generator) that makes an environment of RL4CO", "env")
    env = make(**generator)
    if not isinstance(env, RL4COEnvBase):
        raise LabError(f"{path} must make an environment of RL4CO, got {type(env).__name__}")
    return env


def _check_generator(name: str, arguments: Mapping[str, Any]) -> None:
    """Raise `LabError` for an argument that RL4CO's generator would ignore."""
    if not arguments:
        return
    generator = type(get_env(name).generator)
    allowed = set(inspect.signature(generator.__init__).parameters) - {"self", "kwargs"}
    for key in arguments:
        if key not in allowed:
            also = did_you_mean(key, allowed)
            names = ", ".join(sorted(allowed))
            raise LabError(f"{generator.__name__} has no argument {key!r}{also}; it has {names}")


def draw_instances(env: RL4COEnvBase, count: int, seed: int, dtype: torch.dtype) -> TensorDict:
    """The first states of `count` new instances on the CPU, floating-point entries as `dtype`."""
    with isolated_rng(seed):  # RL4CO's generators have no generator argument
        state = env.reset(batch_size=[count])
    return cast_floats(state, dtype)


def check_feasible(instances: TensorDict) -> TensorDict:
    """Return first states, after a check that each has a tour.

    Raises `LabError` with the index of the first invalid instance and the reason.
    """
    rules: list[tuple[str, Tensor]] = [
        (f"{key} has entries that are no finite numbers", values.isfinite())
        for key, values in instances.items()
        if values.is_floating_point()
    ]
    rules += [
        (f"{key} has an entry below 0", instances[key] >= 0) for key in AMOUNTS if key in instances
    ]
    if "vehicle_capacity" in instances:
        capacity = instances["vehicle_capacity"]
        rules.append(("the capacity is not above 0", capacity > 0))
        if "demand_with_depot" not in instances:  # sdvrp splits deliveries
            fits = instances["demand"] <= capacity + OVERLOAD
            rules.append(("a demand is above the capacity, so that no tour exists", fits))
    if "max_length" in instances:
        limit = instances["max_length"][:, 0] + OP_MARGIN
        rules.append(("max_length is below 0, so that no tour exists", limit >= 0))
    rules.append(("no first action is possible", instances["action_mask"].any(-1)))
    for problem, holds in rules:
        wrong = ~holds.flatten(1).all(1) if holds.dim() > 1 else ~holds
        if wrong.any():
            raise LabError(f"instance {int(wrong.int().argmax())}: {problem}")
    return instances


def check_steps(steps: int, state: Mapping[str, Tensor], instances: int) -> None:
    """Raise `LabError` with the first of B instances that has no end after many steps.

    The rows of `state` are [(n b)]. Every feasible instance of RL4CO ends before.
    """
    most = 10 * state["action_mask"].shape[-1] + 100
    if steps >= most:
        running = (~state["done"].reshape(-1)).nonzero().squeeze(1) % instances
        raise LabError(f"instance {int(running.min())}: no tour is complete after {most} steps")


def cast_floats(state: TensorDict, dtype: torch.dtype) -> TensorDict:
    """Return the state with floating-point entries as `dtype`."""
    return state.apply(lambda x: x.to(dtype) if x.is_floating_point() else x)


def starts(env: RL4COEnvBase, instances: TensorDict) -> range:
    """Return RL4CO's forced first nodes for trajectories of these instances.

    Unlike `select_start_nodes` of RL4CO, the size is that of the instances, not of the generator,
    and only pickups count.
    """
    lowest = 0 if env.name == "tsp" else 1  # a depot is never a start
    nodes = instances["action_mask"].shape[-1] - lowest
    return range(lowest, lowest + (nodes // 2 if env.name == "pdp" else nodes))


def start_nodes(env: RL4COEnvBase, instances: TensorDict, n: int) -> Tensor:
    """Return POMO's forced first actions of n trajectories per instance, [N]: node i for the i-th.

    After the last node, the first follows again.
    """
    nodes = starts(env, instances)
    chosen = torch.arange(n, device=instances["action_mask"].device) % len(nodes) + nodes.start
    if not instances["action_mask"][:, chosen].all():
        raise LabError(
            f"not every instance of {env.name} can begin at every node that RL4CO would force"
        )
    return chosen.repeat_interleave(len(instances))


def symmetric_copies(env: RL4COEnvBase, instances: TensorDict) -> TensorDict:
    """Return the eight rotated and mirrored copies of every instance, [(8 b)].

    Raises `LabError` for instances without coordinates.
    """
    if instances.get("locs", None) is None:
        raise LabError(f"{env.name} has no coordinates to rotate: no augmentation")
    augmentation = StateAugmentation(num_augment=DIHEDRAL, augment_fn="dihedral8")
    copies: TensorDict = augmentation(instances.clone())
    return copies


# A state: every entry has a row for each of the N trajectories. A step returns changed entries.
Entries = dict[str, Tensor]


def _tsp(state: Entries, actions: Tensor) -> Entries:
    begun = state["i"].any()
    unvisited = state["action_mask"].scatter(1, actions.unsqueeze(1), False)
    return {
        "first_node": state["first_node"] if begun else actions,
        "current_node": actions,
        "i": state["i"] + 1,
        "action_mask": unvisited,
        "done": ~unvisited.any(1),
    }


def _cvrp(state: Entries, actions: Tensor) -> Entries:
    node = actions.unsqueeze(1)
    away = node != 0
    load = state["used_capacity"] + state["demand"].gather(1, (node - 1).clamp(min=0))
    load = load * away
    visited = state["visited"].scatter(1, node, 1)
    unvisited = visited == 0
    fits = state["demand"] + load <= state["vehicle_capacity"] + OVERLOAD
    customers = unvisited[:, 1:] & fits
    # No step from the depot to the depot, unless nothing else is left.
    depot = away | ~customers.any(1, keepdim=True)
    return {
        "current_node": node,
        "used_capacity": load,
        "visited": visited,
        "action_mask": torch.cat((depot, customers), 1),
        "done": ~unvisited.any(1),
    }


# By exact type, because subclasses may change the step.
LEAN: dict[type[RL4COEnvBase], Callable[[Entries, Tensor], Entries]] = {
    TSPEnv: _tsp,
    CVRPEnv: _cvrp,
}
