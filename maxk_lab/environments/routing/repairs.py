"""RL4CO's environments whose defects would stop a run or falsify it, repaired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rl4co.envs import MCPEnv, MTSPEnv, MTVRPEnv, RL4COEnvBase
from rl4co.envs.graph.mcp.generator import MCPGenerator, remove_repeat
from tensordict import TensorDict
from torch import Tensor


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
    """A finished trajectory stays as it is while others go on, and forced starts are cities.

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

    def select_start_nodes(self, td: TensorDict, num_starts: int) -> Tensor:
        cities = td["action_mask"].shape[-1] - 1
        return (
            torch.arange(num_starts, device=td.device).repeat_interleave(td.shape[0]) % cities + 1
        )


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


ENVIRONMENTS: dict[str, Callable[..., RL4COEnvBase]] = {
    "mtvrp": RepairedMTVRP,
    "mtsp": RepairedMTSP,
    "mcp": RepairedMCP,
}
