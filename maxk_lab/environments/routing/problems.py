"""RL4CO's problems as they are made here: repaired, seeded, with forced starts and mirrored copies.

Repaired is what would stop a run or falsify it; tests/environments/routing show each fault. Steps
of tsp and cvrp come on plain dictionaries, too, with the values of RL4CO's own: its states are
tensor dictionaries, whose bookkeeping costs as much as the arithmetic of a step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from maxk_lab.policies.quiet import without_warnings  # isort: skip

import torch
from rl4co.data.transforms import StateAugmentation
from rl4co.envs import CVRPEnv, MCPEnv, MTSPEnv, MTVRPEnv, RL4COEnvBase, TSPEnv, get_env
from rl4co.envs.graph.mcp.generator import MCPGenerator, remove_repeat
from tensordict import TensorDict
from torch import Tensor

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.functions import load_function
from maxk_lab.environments.routing.rows import OWN
from maxk_lab.errors import LabError
from maxk_lab.seeds import isolated_rng

# RL4CO's dihedral augmentation has the eight symmetries of the square, and no other number of them.
DIHEDRAL = 8
# Environments without a depot, which is never a start.
ANY_START = ("tsp", "flp", "mcp")


def make_rl4co(name: str, parameters: Mapping[str, Any]) -> RL4COEnvBase:
    """RL4CO's environment of this name; `parameters` are those of its row, `name` may be one.

    Sizes that RL4CO has no vehicle capacity or length limit for get those of the nearest size that
    it lists.
    """
    settings = {key: value for key, value in parameters.items() if key not in ("name", *OWN)}
    generator = settings | dict(parameters.get("generator", {}))
    if "num_agents" in generator:
        agents = generator.pop("num_agents")
        generator |= {"min_num_agents": agents, "max_num_agents": agents}
    # RL4CO reseeds the global generator when an environment is made, and warns of the nearest size.
    with isolated_rng(0), without_warnings():
        if parameters.get("env"):
            return _of_user(name, parameters["env"], generator)
        _check_generator(name, parameters.get("generator", {}))
        if name in REPAIRED:
            return REPAIRED[name](generator_params=generator, check_solution=False)
        return get_env(name, generator_params=generator, check_solution=False)


def _of_user(name: str, path: str, generator: Mapping[str, Any]) -> RL4COEnvBase:
    """The environment that a function of the user's own makes. Raises `LabError` for another."""
    make = load_function(path, None, "(**generator) that makes an environment of RL4CO", "env")
    env = make(**generator)
    if not isinstance(env, RL4COEnvBase) or env.name != name:
        got = f"one named {env.name!r}" if isinstance(env, RL4COEnvBase) else type(env).__name__
        raise LabError(f"{path} must make an environment of RL4CO named {name!r}, got {got}")
    return env


def _check_generator(name: str, arguments: Mapping[str, Any]) -> None:
    """Raise `LabError` for an argument that RL4CO's generator does not have: it passes it over."""
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
    with isolated_rng(seed):  # RL4CO's generators take no generator of their own
        state = env.reset(batch_size=[count])
    return cast_floats(state, dtype)


def cast_floats(state: TensorDict, dtype: torch.dtype) -> TensorDict:
    """The same with its floating-point entries as `dtype`."""
    return state.apply(lambda x: x.to(dtype) if x.is_floating_point() else x)


def starts(env: RL4COEnvBase, instances: TensorDict) -> range:
    """The nodes at which RL4CO would force trajectories of these instances to begin.

    Those of RL4CO's `select_start_nodes`, but by the size of the instances instead of that of the
    generator, and pickups only.
    """
    lowest = 0 if env.name in ANY_START else 1
    nodes = instances["action_mask"].shape[-1] - lowest
    return range(lowest, lowest + (nodes // 2 if env.name == "pdp" else nodes))


def start_nodes(env: RL4COEnvBase, instances: TensorDict, n: int) -> Tensor:
    """POMO's forced first actions of n trajectories per instance, [N]: node i for the i-th.

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
    """The eight rotated and mirrored copies of every instance, [(8 b)].

    Raises `LabError` where instances have no coordinates.
    """
    if instances.get("locs", None) is None:
        raise LabError(f"{env.name} has no coordinates to rotate: no augmentation")
    side = 1.0
    if env.name == "cvrptw":  # RL4CO mirrors at the middle of the unit square, outside cvrptw's
        generator = env.generator
        side = generator.max_loc / (generator.max_time if generator.scale else 1)
    unit = instances.clone().set("locs", instances["locs"] / side)
    copies = StateAugmentation(num_augment=DIHEDRAL, augment_fn="dihedral8")(unit)
    return copies.set("locs", copies["locs"] * side)


class RepairedMTVRP(MTVRPEnv):
    """A vehicle may be full, within a tolerance.

    RL4CO compares sums of fractions exactly, so that rounding decides which full loads it refuses.
    The tolerance is that of RL4CO's own cvrp; loads are whole numbers over a capacity of some tens.
    """

    @staticmethod
    def get_action_mask(td: TensorDict) -> Tensor:
        tolerant = td.clone(recurse=False).set("vehicle_capacity", td["vehicle_capacity"] + 1e-5)
        return MTVRPEnv.get_action_mask(tolerant)


class RepairedMTSP(MTSPEnv):
    """A finished trajectory stays as it is while others go on.

    RL4CO adds the last way home once more at the first step of padding, so that a reward would
    depend on the other trajectories.
    """

    def _step(self, td: TensorDict) -> TensorDict:
        finished = td["done"].reshape(td.batch_size)
        before = {key: td[key] for key in ("max_subtour_length", "current_length")}
        td = MTSPEnv._step(td)
        return td.update(
            {key: torch.where(finished, value, td[key]) for key, value in before.items()}
        )

    def _get_reward(self, td: TensorDict, actions: Tensor) -> Tensor:
        return -td["max_subtour_length"]


class RepairedMCPGenerator(MCPGenerator):
    """Draws instances in which no set happens to be of the largest size, too.

    RL4CO's shapes do not match then.
    """

    def _generate(self, batch_size: Any) -> TensorDict:
        count = batch_size[0]
        weights = self.weight_sampler.sample((count, self.num_items)).floor()
        sizes = self.size_sampler.sample((count, self.num_sets)).floor().long()
        sizes = sizes.clamp(self.min_size, self.max_size)
        members = torch.randint(1, self.num_items + 1, (count, self.num_sets, self.max_size))
        members = members * (torch.arange(self.max_size) < sizes.unsqueeze(-1))
        return TensorDict(
            {
                "membership": remove_repeat(members).float(),
                "weights": weights.clamp(self.min_weight, self.max_weight),
                "n_sets_to_choose": torch.full((count, 1), float(self.n_sets_to_choose)),
            },
            batch_size=count,
        )


class RepairedMCP(MCPEnv):
    """`done` has one entry per trajectory.

    RL4CO's compares [B] with [B, 1] and has B × B of them.
    """

    def __init__(self, generator_params: dict[str, Any], check_solution: bool) -> None:
        super().__init__(RepairedMCPGenerator(**generator_params), check_solution=check_solution)

    def _reset(self, td: TensorDict | None = None, batch_size: Any = None) -> TensorDict:
        state = super()._reset(td, batch_size)
        return state.set("n_sets_to_choose", state["n_sets_to_choose"].reshape(state.batch_size))


REPAIRED = {"mtvrp": RepairedMTVRP, "mtsp": RepairedMTSP, "mcp": RepairedMCP}

# A state: every entry has a row for each of the N trajectories. A step gives those that change.
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
    # The tolerance is RL4CO's.
    fits = state["demand"] + load <= state["vehicle_capacity"] + 1e-5
    customers = unvisited[:, 1:] & fits
    # Not from the depot to the depot, unless nothing else is left.
    depot = away | ~customers.any(1, keepdim=True)
    return {
        "current_node": node,
        "used_capacity": load,
        "visited": visited,
        "action_mask": torch.cat((depot, customers), 1),
        "done": ~unvisited.any(1),
    }


# By exact type: subclasses step as they please.
LEAN: dict[type[RL4COEnvBase], Callable[[Entries, Tensor], Entries]] = {
    TSPEnv: _tsp,
    CVRPEnv: _cvrp,
}
