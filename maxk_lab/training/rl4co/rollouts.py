"""Trajectories of RL4CO's policies: i.i.d. samples, and the decisions that each one took."""

from __future__ import annotations

from typing import Any

import torch
from rl4co.envs import RL4COEnvBase
from rl4co.utils.ops import batchify
from tensordict import TensorDict
from torch import Tensor, nn


def iid_samples(
    policy: nn.Module,
    env: RL4COEnvBase,
    td: TensorDict,
    n: int,
    phase: str,
    *,
    shared_encoding: bool,
    **options: Any,
) -> dict[str, Any]:
    """Return RL4CO's output for n i.i.d. trajectories of every instance, as (n batch).

    With `shared_encoding`, each instance is encoded once for all its samples.
    """
    shared = shared_encoding and n > 1
    out: dict[str, Any] = policy(
        td if shared else batchify(td, n),
        env,
        phase=phase,
        decode_type="sampling",
        num_samples=n if shared else None,
        **options,
    )
    return out


@torch.no_grad()
def decision_counts(env: RL4COEnvBase, td: TensorDict, actions: Tensor, n: int) -> Tensor:
    """Return the number of decisions [(n batch)] that each trajectory took until it was done.

    The trajectories are gone through once more.
    """
    state = batchify(td, n)
    lengths = actions.new_zeros(len(actions))
    for action in actions.unbind(1):
        lengths += ~state["done"].reshape(-1)
        state.set("action", action)
        state = env.step(state)["next"]
    return lengths
