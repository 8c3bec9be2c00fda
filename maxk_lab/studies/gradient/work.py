"""The work of a gradient unit: train the policy to its stage, draw the pool, measure the cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from maxk_lab.environments.environment import Environment, make_environment, supports
from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.execution.checkpoints import initial_policy
from maxk_lab.files import save_atomically
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.draw import draw_pool, perturbed
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.leaving import Leaving, leaving
from maxk_lab.planning.identity import environment_key, policy_key
from maxk_lab.seeds import derive_seed
from maxk_lab.studies.gradient.spec import policy_file, policy_stem, pool_file, stage_of
from maxk_lab.sweep_file.studies import Event, Measured
from maxk_lab.training.trainer import train, warm_up


def measure(
    unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], *, cache: Path | None, event: Event
) -> Iterator[Measured]:
    """Yield (cell id, metrics or exception) of every cell of a unit.

    `cache` is a folder for trained policies and pools: a baseline that is added later costs no
    rollouts. `event` gets the steps "warmup", "scores" and "cells".
    """
    torch.set_num_threads(1)
    pool = _pool(unit, cells, cache, event)
    for done, (cell_id, result) in enumerate(
        measure_cells(pool, cells, seed=unit["seed"]), start=1
    ):
        event("cells", {"done": done, "of": len(cells)})
        yield cell_id, result


def _objectives(cells: Sequence[Mapping[str, Any]]) -> dict[str, Objective]:
    """Return the objectives of the cells by name.

    A cell without objective fails in its own measurement, and does not affect other cells.
    """
    objectives = {}
    for cell in cells:
        try:
            objective = Method.parse(cell["estimator"], k=cell["k"]).objective_at(cell["n"])
        except LabError:
            continue
        objectives[objective.name] = objective
    return objectives


def _pool(
    unit: Mapping[str, Any],
    cells: Sequence[Mapping[str, Any]],
    cache: Path | None,
    event: Event,
) -> ScorePool:
    objectives = _objectives(cells)
    path = None if cache is None else cache / pool_file(unit)
    if path is not None and path.exists():
        cached = ScorePool.from_state(torch.load(path, weights_only=True))
        if set(objectives) <= set(cached.gradient_products):
            return cached
    # Imported late: an environment may take seconds to import.
    environment = make_environment(unit["environment"], unit["policy"])
    policy = _policy_at_stage(unit, environment, cache, event)
    if "scores" in unit:
        _freeze_others(policy, unit["scores"]["parameters"])
    data_seed = derive_seed("study", environment_key(unit["environment"]), unit["seed"])
    instances = environment.instances(unit["instances"], derive_seed("instances", data_seed))
    starts = 1
    if unit.get("start", "iid") == "multistart":
        assert supports(environment, "forced_starts", "start_count")
        starts, environment = environment.start_count(instances), environment.forced_starts()
    pool = draw_pool(
        environment,
        policy,
        instances,
        unit["instances"],
        unit["pool"],
        objectives=[objectives[name] for name in sorted(objectives)],
        seed=derive_seed("pool", data_seed),
        behaviour=_behaviour(unit, policy),
        starts=starts,
        on_instance=lambda done, of: event("scores", {"done": done, "of": of}),
    )
    if path is not None:
        save_atomically(path, lambda file: torch.save(pool.state(), file))
    return pool


def _freeze_others(policy: nn.Module, pattern: str) -> None:
    """Turn off gradients of all parameters whose names do not match the pattern."""
    named = dict(policy.named_parameters())
    matching = [name for name in named if re.search(pattern, name)]
    if not matching:
        raise LabError(f"scores.parameters {pattern!r} matches none of {', '.join(named)}")
    for name, parameter in named.items():
        parameter.requires_grad_(name in matching)


def _behaviour(unit: Mapping[str, Any], policy: nn.Module) -> nn.Module | None:
    """Return the policy that draws the trajectories, or None if it is `policy`.

    All distances of a seed lie in one direction.
    """
    if "behaviour" not in unit:
        return None
    seed = derive_seed(
        "behaviour",
        environment_key(unit["environment"]),
        policy_key(unit["policy"], unit["environment"]),
        unit["seed"],
    )
    return perturbed(policy, unit["behaviour"]["distance"], seed)


def _policy_at_stage(
    unit: Mapping[str, Any], environment: Environment, cache: Path | None, event: Event
) -> nn.Module:
    """Return the policy after `stage` steps, from the latest saved earlier stage of the training.

    Stage 0 is the initial policy, which may be a checkpoint.
    """
    policy = initial_policy(environment, unit)
    stage = unit["stage"]
    if stage == 0:
        return policy
    seed = derive_seed("training", environment_key(unit["environment"]), unit["seed"])
    trainer = warm_up(environment, policy, steps=stage, seed=seed, **unit["warmup"])
    files = [] if cache is None else cache.glob(f"{policy_stem(unit)}-*.pt")
    earlier = [path for path in files if stage_of(path) <= stage]
    if earlier:
        trainer.load(torch.load(max(earlier, key=stage_of), weights_only=True))
    interruption: Leaving | None = None
    try:
        train(
            trainer,
            on_step=lambda step, steps: event("warmup", {"step": step, "steps": steps}),
            leaving=leaving,
        )
    except Leaving as error:
        interruption = error  # a later unit resumes from the saved policy
    if cache is not None:
        trainer.save(cache / policy_file(unit, trainer.steps))
    if interruption is not None:
        raise interruption
    return trainer.policy
