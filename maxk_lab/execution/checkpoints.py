"""The initial policy of a unit: a fresh policy, or a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from maxk_lab.environments.checkpoints import load_policy
from maxk_lab.environments.environment import Environment
from maxk_lab.files import resolved_file
from maxk_lab.planning.identity import environment_key, policy_key
from maxk_lab.seeds import derive_seed


def policy_seed(unit: Mapping[str, Any]) -> int:
    """Return the seed of a unit's fresh policy, which no path of a checkpoint changes."""
    environment = unit["environment"]
    policy = policy_key(unit["policy"], environment)
    return derive_seed("policy", environment_key(environment), policy, unit["seed"])


def initial_policy(environment: Environment, unit: Mapping[str, Any]) -> nn.Module:
    """Return the policy that a unit (as sent to a worker) begins with.

    Raises `LabError` if the checkpoint is absent, changed since the plan, or does not fit.
    """
    policy = environment.policy(policy_seed(unit))
    checkpoint = unit["policy"].get("checkpoint")
    if checkpoint is not None:
        load_policy(policy, resolved_file(checkpoint, "checkpoint")["path"])
    return policy
