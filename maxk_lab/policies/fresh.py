"""Fresh policies by the name that the catalogue has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from maxk_lab.catalogue import load
from maxk_lab.policies.catalogue import POLICIES
from maxk_lab.random_state import isolated_rng


def fresh_policy(parameters: Mapping[str, Any], seed: int, **problem: Any) -> nn.Module:
    """The policy `parameters["name"]`, freshly initialised from `seed`, in evaluation mode.

    `problem` is what the environment says of itself, such as its number of actions.
    """
    row = POLICIES.get(parameters["name"])
    own = {name: value for name, value in parameters.items() if name != "name"}
    with isolated_rng(seed):
        policy: nn.Module = load(row.implementation)(**problem, **own)
    return policy.eval()
