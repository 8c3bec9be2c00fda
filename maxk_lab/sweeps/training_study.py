"""One unit of a training study in a worker: train a policy with each cell's weights and evaluate its held-out Max@K curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maxk_lab.environments.protocol import make_environment
from maxk_lab.gradients.statistics import Interval, bootstrap, undefined
from maxk_lab.gradients.trajectories import trajectory_grams, trajectory_squared_norms
from maxk_lab.seeds import derive_seed
from maxk_lab.sweeps.training_schema import evaluated_ks
from maxk_lab.training.evaluation import evaluate
from maxk_lab.training.settings import Settings, Weighting
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer, train

Event = Callable[[str, dict[str, Any]], None]
LEVEL = 0.95
LOG_POINTS = 200
DIGITS = 6


def measure_training(
    unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], *, cache: Path | None, event: Event
) -> Iterator[tuple[str, dict[str, Any] | Exception]]:
    """(cell id, metrics or exception) of every cell of a unit: one environment, policy, seed and set of training settings.

    All cells of a seed start from the same policy, see the same instances at every step and are evaluated on the same held-out
    ones. `cache` is a folder for checkpoints, from which an interrupted cell goes on; the last one, `training-<cell id>.pt`,
    holds the trained policy under `policy`. `event("training", {"step", "steps"})` is told of every step.
    """
    torch.set_num_threads(1)
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
    settings = Settings.from_mapping({key: value for key, value in unit["training"].items() if key != "grid"})
    weighting = Weighting(cell["estimator"], cell["baseline"], cell["n"], cell["k"])
    method = Step(
        environment,
        settings,
        weighting,
        partial(trajectory_squared_norms, environment),
        partial(trajectory_grams, environment),
    )
    data_seed = derive_seed("training", unit["environment"], unit["seed"])
    evaluation_seed = derive_seed("evaluation", unit["environment"], unit["seed"])
    held_out = environment.instances(
        settings.evaluate.instances, derive_seed("instances", evaluation_seed), held_out=True
    )

    def start() -> Trainer:
        policy_seed = derive_seed("policy", unit["environment"], unit["policy"], unit["seed"])
        return Trainer.start(method, environment.policy(policy_seed), seed=data_seed)

    def curves(policy: nn.Module, step: int) -> Tensor:
        seed = derive_seed("rollouts", evaluation_seed, step)
        return evaluate(environment, policy, held_out, settings.evaluate.samples, seed)

    path = None if cache is None else cache / f"training-{cell['id']}.pt"
    trainer = _resumed(start, path)
    train(
        trainer,
        evaluate=curves,
        checkpoint=path,
        on_step=lambda step, steps: event("training", {"step": step, "steps": steps}),
    )
    return _metrics(trainer, cell["k"])


def _resumed(start: Callable[[], Trainer], path: Path | None) -> Trainer:
    """The training as its checkpoint left it; from the beginning where there is none, or a damaged one."""
    trainer = start()
    if path is None or not path.exists():
        return trainer
    try:
        trainer.load(torch.load(path, weights_only=True))
    except Exception:  # a damaged file is no reason to fail: train again
        path.unlink(missing_ok=True)
        return start()
    return trainer


def _metrics(trainer: Trainer, k: int) -> dict[str, Any]:
    samples = trainer.method.settings.evaluate.samples
    ks = list(evaluated_ks(samples, k))
    reasons: dict[str, str] = {}
    series = [[_interval(evaluation.curves, at, reasons) for at in ks] for evaluation in trainer.evaluations]
    last = trainer.evaluations[-1].curves
    final = [_interval(last, at, reasons) for at in range(1, samples + 1)]
    batch = trainer.method.settings.batch
    return {
        "steps": trainer.steps,
        "rollouts": trainer.steps * batch,
        "evaluations": {
            "step": [evaluation.step for evaluation in trainer.evaluations],
            "rollouts": [evaluation.step * batch for evaluation in trainer.evaluations],
            "ks": ks,
        }
        | {name: [_ends(row, name) for row in series] for name in ("value", "low", "high")},
        "final": {name: _ends(final, name) for name in ("value", "low", "high")}
        | {"ks": ks, "per_instance": [[_plain(value) for value in last[:, at - 1].tolist()] for at in ks]},
        "log": _thinned(trainer.log, trainer.steps),
        "undefined": reasons,
        "timings": {"evaluations_seconds": [round(e.seconds, 6) for e in trainer.evaluations]},
    }


def _interval(curves: Tensor, k: int, reasons: dict[str, str]) -> Interval:
    """Mean over instances of ρ̂(samples, k), curves [I, samples], resampling instances; what is missing goes to `reasons`."""
    values = curves[:, k - 1].numpy()
    defined = values[~np.isnan(values)]
    if len(defined) < len(values):
        # K = 1 comes first.
        none = k == 1 and len(defined) == 0
        reasons.setdefault(
            "value",
            "no sample of the held-out instances can be scored"
            if none
            else "at the larger K, held-out instances with fewer than K scorable samples are left out",
        )
    if len(defined) == 0:
        return undefined(LEVEL, "no instance has K scorable samples")
    members = [np.arange(len(defined))]
    found = bootstrap(defined[None], members, lambda means: means[0], level=LEVEL, seed=0)
    if found.reason:
        reasons["low"] = reasons["high"] = found.reason
    return found


def _ends(intervals: Sequence[Interval], name: str) -> list[float | None]:
    return [_plain(getattr(interval, name)) for interval in intervals]


def _plain(value: float) -> float | None:
    """JSON has no NaN: None is undefined."""
    return None if math.isnan(value) else value


def _thinned(log: Mapping[str, Sequence[float]], steps: int) -> dict[str, list[Any]]:
    """At most `LOG_POINTS` evenly spaced steps of the log, the first and the last among them; floats to `DIGITS` digits."""
    kept = sorted({round(i) for i in np.linspace(0, steps - 1, min(steps, LOG_POINTS))}) if steps else []
    return {"step": kept} | {
        name: [_plain(float(f"{values[i]:.{DIGITS}g}")) for i in kept] for name, values in log.items()
    }
