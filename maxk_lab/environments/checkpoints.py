"""Policies from checkpoints of our trainings, and of Lightning."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError, first_line, shortened

# The most letters of differences in a message.
MOST_LETTERS = 400
# The name of the policy within the state of a Lightning module.
PREFIX = "policy."


def check_checkpoint(environment: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
    """Raise `LabError` if the checkpoint of a resolved policy is unreadable or does not fit it."""
    load_policy(make_environment(environment, policy).policy(0), policy["checkpoint"]["path"])


def load_policy(policy: nn.Module, path: str | Path) -> None:
    """Load the parameters in a checkpoint into `policy`.

    Raises `LabError` that names the parameters that do not fit.
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
    `LabError` for an absent or unreadable file, a file that torch does not load safely, and a file
    without a policy.
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
    except Exception as error:  # torch raises errors of many types for a damaged file
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise LabError(f"{path} is no checkpoint: {reason}") from None
    content = content if isinstance(content, Mapping) else {}
    state, lightning = content.get("policy"), content.get("state_dict")
    if state is None and isinstance(lightning, Mapping):
        named = [(str(name), value) for name, value in lightning.items()]
        state = {n.removeprefix(PREFIX): v for n, v in named if n.startswith(PREFIX)} or None
    if not isinstance(state, Mapping) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    ):
        raise LabError(
            f"{path} holds no policy: it must have parameters under policy, as the lab's own "
            "checkpoints, or under state_dict with names beginning with policy., as Lightning's"
        )
    return dict(state)
