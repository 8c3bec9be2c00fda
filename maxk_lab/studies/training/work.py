"""One unit of a training study in a worker: a policy trained and evaluated for each cell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.calls import leaving
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import Environment, make_environment
from maxk_lab.gradients.scores.sampler import check_drawn
from maxk_lab.gradients.scores.trajectories import trajectory_grams, trajectory_squared_norms
from maxk_lab.seeds import derive_seed
from maxk_lab.studies.training.held_out import evaluation_set, optima_record, tuning_set
from maxk_lab.studies.training.outcome import training_metrics
from maxk_lab.studies.training.spec import checkpoint_file, evaluation_seed, snapshot_file
from maxk_lab.sweeps.parts import Event, Measured
from maxk_lab.sweeps.plan.identity import canonical_json
from maxk_lab.sweeps.run.checkpoints import initial_policy
from maxk_lab.training.evaluation import Decoded, decoded, sampled, trajectories_of_extras
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.settings import Settings
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer, train


def measure(
    unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], *, cache: Path | None, event: Event
) -> Iterator[Measured]:
    """Yield (cell id, metrics or exception) of every cell of a unit.

    The unit has one environment, policy, seed and set of training settings. All cells of a seed
    start from the same policy, see the same instances at every step and are evaluated on the same
    held-out ones, always with i.i.d. samples. `cache` is a folder for checkpoints, from which an
    interrupted cell goes on; the last one, `training-<cell id>.pt`, holds the trained policy under
    `policy`, as do the snapshots, `policy-<cell id>-<step>.pt`. `event("training", {"step",
    "steps"})` is told of every step.
    """
    torch.set_num_threads(1)
    # A process in which RL4CO's own trainer was made multiplies in bfloat16.
    torch.set_float32_matmul_precision("highest")
    for cell in cells:
        try:
            result: dict[str, Any] | Exception = _measure(unit, cell, cache, event)
        except Exception as error:
            result = error
        yield cell["id"], result


def _measure(
    unit: Mapping[str, Any], cell: Mapping[str, Any], cache: Path | None, event: Event
) -> dict[str, Any]:
    environment = make_environment(unit["environment"], unit["policy"])
    settings = Settings.from_mapping(unit["training"])
    held_out_seed = evaluation_seed(unit)
    held_out, data = evaluation_set(environment, settings.evaluate, held_out_seed, cache)
    # Before the training, which would be in vain where there are none.
    optima = optima_record(environment, held_out, settings.evaluate.reference, cache, data)

    def rewards(policy: nn.Module, step: int) -> Tensor:
        seed = derive_seed("rollouts", held_out_seed, step)
        there, rollouts = sampled(environment, policy, held_out, settings.evaluate.samples, seed)
        if step in (0, settings.steps):
            check_drawn(environment, policy, there, rollouts.actions)
        return rollouts.rewards.cpu().double()

    sets = {"held_out": (held_out, held_out_seed)}
    if settings.evaluate.tuning:
        tuning_seed = derive_seed("tuning", unit["environment"], unit["seed"])
        sets["tuning"] = tuning_set(environment, settings.evaluate.tuning, tuning_seed), tuning_seed

    def decode(policy: nn.Module, step: int) -> dict[str, Decoded]:
        return {
            name: decoded(
                environment,
                policy,
                instances,
                settings.evaluate,
                # Held-out samples at temperature 1 are those of the evaluation itself.
                temperatures=[
                    each for each in settings.evaluate.temperatures if name == "tuning" or each != 1
                ],
                seed=derive_seed("rollouts", seed, step),
                extras_seed=derive_seed("extras", seed),
            )
            for name, (instances, seed) in sets.items()
        }

    def snapshot(folder: Path, step: int) -> Path:
        return folder / snapshot_file(cell["id"], step)

    path = None if cache is None else cache / checkpoint_file(cell["id"])
    snapshots = None if cache is None else partial(snapshot, cache)
    trainer = _resumed(partial(_start, environment, settings, unit, cell), path, snapshots)
    train(
        trainer,
        evaluate=rewards,
        decode=decode,
        checkpoint=path,
        snapshot=snapshots,
        on_step=lambda step, steps: event("training", {"step": step, "steps": steps}),
        leaving=leaving,
    )
    costs = trajectories_of_extras(environment, held_out, settings.evaluate.samples)
    within = ENVIRONMENTS.get(unit["environment"]["name"]).reward_range(unit["environment"])
    found = training_metrics(trainer, cell["k"], costs, within)
    return found | {"reference": optima, "data": data}


def _start(
    environment: Environment, settings: Settings, unit: Mapping[str, Any], cell: Mapping[str, Any]
) -> Trainer:
    weighting = Weighting(cell["estimator"], cell["baseline"], cell["n"], cell["k"])
    one_step = Step(environment, settings, weighting, trajectory_squared_norms, trajectory_grams)
    # The checkpoint that training started from is no parameter of the policy.
    parameters = {name: value for name, value in unit["policy"].items() if name != "checkpoint"}
    return Trainer.start(
        one_step,
        initial_policy(environment, unit),
        seed=derive_seed("training", unit["environment"], unit["seed"]),
        about=json.loads(
            canonical_json({"environment": unit["environment"], "policy_parameters": parameters})
        ),
    )


def _resumed(
    start: Callable[[], Trainer], path: Path | None, snapshot: Callable[[int], Path] | None
) -> Trainer:
    """Return the training as its checkpoint left it, or at its beginning.

    It begins again where the checkpoint is missing or damaged, or where a policy that was to be
    kept before it is not there.
    """
    trainer = start()
    if path is None or snapshot is None or not path.exists():
        return trainer
    try:
        trainer.load(torch.load(path, map_location="cpu", weights_only=True))
    except Exception:  # a damaged file is no reason to fail: train again
        path.unlink(missing_ok=True)
        return start()
    passed = [step for step in trainer.one_step.settings.snapshots if step < trainer.steps]
    return trainer if all(snapshot(step).exists() for step in passed) else start()
