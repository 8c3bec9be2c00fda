"""The work of a weights unit: draw groups of rewards and give them the weights of each cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache as remembered
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maxk_lab.catalogue import load
from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.rollouts import check_scorable, checked
from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.execution.checkpoints import initial_policy
from maxk_lab.planning.identity import environment_key
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.measures import measures_of
from maxk_lab.studies.weights.spec import rewards_only_refusal
from maxk_lab.sweep_file.studies import Event, Measured


def measure(
    unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], *, cache: Path | None, event: Event
) -> Iterator[Measured]:
    """Yield (cell id, metrics or exception) of every cell of a unit.

    All cells of one n see the same `groups` groups, one of each instance, which depend on no other
    cell. `event` is told of every cell, as "cells"; `cache` is not used.
    """
    torch.set_num_threads(1)
    rewards = remembered(lambda n: _groups(unit, n))
    for done, cell in enumerate(cells, start=1):
        try:
            result: dict[str, Any] | Exception = _measure(rewards(cell["n"]), cell)
        except Exception as error:
            result = error
        event("cells", {"done": done, "of": len(cells)})
        yield cell["id"], result


def _groups(unit: Mapping[str, Any], n: int) -> Tensor:
    """Return the rewards of the groups in drawing order, [groups, n] float64."""
    environment = make_environment(unit["environment"], unit["policy"])
    policy = initial_policy(environment, unit)
    data_seed = derive_seed("study", environment_key(unit["environment"]), unit["seed"])
    instances = environment.instances(unit["groups"], derive_seed("instances", data_seed))
    drawn = environment.rollout(policy, instances, n, seed=derive_seed("weights", data_seed, n))
    rewards = checked(drawn, n, unit["groups"]).rewards
    check_scorable(rewards, "", "weights")
    return rewards.double()


def _measure(rewards: Tensor, cell: Mapping[str, Any]) -> dict[str, Any]:
    method = Method.of(cell)
    refused = rewards_only_refusal(method)
    if refused is not None:
        raise LabError(refused)
    weights = method.weights(rewards)
    numbers = {row.name: load(row.implementation)(weights) for row in measures_of("weights")}
    return {"rewards": rewards.tolist(), "weights": weights.tolist()} | numbers
