"""Policies out of checkpoints: those of the lab's own trainings, and those of Lightning's."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, make_environment
from maxk_lab.errors import LabError, shortened
from maxk_lab.files import resolved_file
from maxk_lab.planning.identity import without_paths
from maxk_lab.seeds import derive_seed

# The letters of differences that a message lists.
MOST_LETTERS = 400
# The name of the policy within the state of a module of Lightning's.
PREFIX = "policy."


def policy_seed(unit: Mapping[str, Any]) -> int:
    """Return the seed of a unit's fresh policy, which no path of a checkpoint changes."""
    return derive_seed("policy", unit["environment"], without_paths(unit["policy"]), unit["seed"])


def initial_policy(environment: Environment, unit: Mapping[str, Any]) -> nn.Module:
    """Return the policy that a unit (as sent to a worker) begins with: fresh, or of its checkpoint.

    Raises `LabError` where the checkpoint is not there, is no longer the file that was planned
    with, or does not fit.
    """
    policy = environment.policy(policy_seed(unit))
    checkpoint = unit["policy"].get("checkpoint")
    if checkpoint is not None:
        load_policy(policy, resolved_file(checkpoint, "checkpoint")["path"])
    return policy


def check_checkpoint(environment: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
    """Raise `LabError` where the checkpoint of a resolved policy is none, or does not fit it."""
    load_policy(make_environment(environment, policy).policy(0), policy["checkpoint"]["path"])


def load_policy(policy: nn.Module, path: str | Path) -> None:
    """Give `policy` the parameters in a checkpoint.

    Raises `LabError` that names those that do not fit.
    """
    state = policy_state(path)
    try:
        policy.load_state_dict(state)
    except RuntimeError as error:
        _, *differences = str(error).split("\n\t")
        raise LabError(
            f"{path} does not fit the policy that environment and policy describe: "
            + shortened(" ".join(differences), MOST_LETTERS)
        ) from None


def policy_state(path: str | Path) -> dict[str, Tensor]:
    """Return the parameters of the policy in a checkpoint, by name.

    They are under `policy`, or under `state_dict` with names that begin with `policy.`. Raises
    `LabError` where there is no readable file, no checkpoint that torch loads safely, or no policy.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise LabError(f"{path} does not exist") from None
    except pickle.UnpicklingError:
        raise LabError(
            f"{path} is no checkpoint that can be loaded safely: "
            "it is damaged, or holds more than tensors, as RL4CO's own do"
        ) from None
    except (OSError, RuntimeError, EOFError, ValueError, LookupError) as error:
        raise LabError(f"{path} is no checkpoint: {str(error).strip().splitlines()[0]}") from None
    content = content if isinstance(content, Mapping) else {}
    state, whole = content.get("policy"), content.get("state_dict")
    if state is None and isinstance(whole, Mapping):
        named = [(name, value) for name, value in whole.items() if name.startswith(PREFIX)]
        state = {name.removeprefix(PREFIX): value for name, value in named} or None
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise LabError(
            f"{path} holds no policy: it must have parameters under policy, as the lab's own "
            "checkpoints, or under state_dict with names beginning with policy., as Lightning's"
        )
    return dict(state)
