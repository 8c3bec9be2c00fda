"""One unit of a training study in a worker: a policy trained for each cell, and its record."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import Environment, make_environment, supports
from maxk_lab.execution.checkpoints import initial_policy
from maxk_lab.gradients.scores.per_trajectory import check_graph
from maxk_lab.leaving import leaving
from maxk_lab.planning.identity import canonical_json, environment_key
from maxk_lab.ranges import Range
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds import RECORDED_LEVEL, instance_mean
from maxk_lab.studies.training.grid import evaluated_ks
from maxk_lab.studies.training.held_out import evaluation_set, optima_record, tuning_set
from maxk_lab.studies.training.spec import checkpoint_file, evaluation_seed, snapshot_file
from maxk_lab.sweep_file.studies import Event, Measured
from maxk_lab.training.evaluation import (
    Decoded,
    decoded,
    max_curves,
    sampled,
)
from maxk_lab.training.settings import Settings, Weighting, trajectories_of_extras
from maxk_lab.training.step import Step
from maxk_lab.training.trainer import Trainer, train

# Steps of the log in a record, and digits of its numbers.
LOG_POINTS, DIGITS = 200, 6
ENDS = ("value", "low", "high")


def measure(
    unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], *, cache: Path | None, event: Event
) -> Iterator[Measured]:
    """Yield (cell id, metrics or exception) of every cell of a unit.

    The unit has one environment, policy, seed and set of training settings. All cells of a seed
    start from the same policy, see the same instances at every step, and are evaluated with i.i.d.
    samples on the same held-out instances. `cache` is a folder for checkpoints, from which an
    interrupted cell resumes. The last checkpoint, `training-<cell id>.pt`, holds the trained policy
    under `policy`, as do the snapshots, `policy-<cell id>-<step>.pt`. `event("training", {"step",
    "steps"})` is called at every step.
    """
    torch.set_num_threads(1)
    # A process that has used RL4CO's trainer multiplies in bfloat16.
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
    # Before the training, so that an error costs no training time.
    optima = optima_record(environment, held_out, settings.evaluate.reference, cache, data)

    ending = settings.evaluate.final_steps(settings.steps)
    sets = {"held_out": (held_out, held_out_seed)}
    if settings.evaluate.tuning:
        tuning_seed = derive_seed("tuning", environment_key(unit["environment"]), unit["seed"])
        sets["tuning"] = tuning_set(environment, settings.evaluate.tuning, tuning_seed), tuning_seed

    def evaluate(policy: nn.Module, step: int) -> tuple[Tensor, dict[str, Decoded]]:
        seed = derive_seed("rollouts", held_out_seed, step)
        instances, rollouts = sampled(
            environment, policy, held_out, settings.evaluate.samples, seed
        )
        if step == 0:
            check_graph(environment, policy, instances[:1], rollouts.actions[0])
        ways = {
            name: decoded(
                environment,
                policy,
                instances,
                settings.evaluate,
                # Held-out samples at temperature 1 are the samples of the evaluation.
                temperatures=[
                    each for each in settings.evaluate.temperatures if name == "tuning" or each != 1
                ],
                seed=derive_seed("rollouts", seed, step),
                extras_seed=derive_seed("extras", seed),
            )
            for name, (instances, seed) in (sets.items() if step in ending else ())
        }
        return rollouts.rewards.cpu().double(), ways

    def snapshot(step: int) -> Path:
        assert cache is not None
        return cache / snapshot_file(cell["id"], step)

    path = None if cache is None else cache / checkpoint_file(cell["id"])
    snapshots = None if cache is None else snapshot
    trainer = _resumed(partial(_start, environment, settings, unit, cell), path, snapshots)
    train(
        trainer,
        evaluate=evaluate,
        checkpoint=path,
        snapshot=snapshots,
        on_step=lambda step, steps: event("training", {"step": step, "steps": steps}),
        leaving=leaving,
    )
    starts = environment.start_count(held_out) if supports(environment, "forced_starts") else 1
    costs = trajectories_of_extras(starts, settings.evaluate.samples)
    within = ENVIRONMENTS.get(unit["environment"]["name"]).reward_range(unit["environment"])
    metrics = training_metrics(trainer, cell["k"], costs, within)
    return metrics | {"reference": optima, "data": data}


def _start(
    environment: Environment, settings: Settings, unit: Mapping[str, Any], cell: Mapping[str, Any]
) -> Trainer:
    weighting = Weighting(cell["estimator"], cell["baseline"], cell["n"], cell["k"])
    one_step = Step(environment, settings, weighting)
    # The checkpoint that training started from is no parameter of the policy.
    parameters = {name: value for name, value in unit["policy"].items() if name != "checkpoint"}
    return Trainer.start(
        one_step,
        initial_policy(environment, unit),
        seed=derive_seed("training", environment_key(unit["environment"]), unit["seed"]),
        about=json.loads(
            canonical_json({"environment": unit["environment"], "policy_parameters": parameters})
        ),
    )


def _resumed(
    start: Callable[[], Trainer], path: Path | None, snapshot: Callable[[int], Path] | None
) -> Trainer:
    """Return the training from its checkpoint, or from the beginning.

    It starts from the beginning if the checkpoint is damaged or missing, or if an earlier snapshot
    is missing.
    """
    trainer = start()
    if path is None or snapshot is None or not path.exists():
        return trainer
    try:
        trainer.load(torch.load(path, map_location="cpu", weights_only=True))
    except Exception:  # a damaged file only costs time: train again
        path.unlink(missing_ok=True)
        return start()
    passed = [step for step in trainer.one_step.settings.snapshots if step < trainer.steps]
    return trainer if all(snapshot(step).exists() for step in passed) else start()


def training_metrics(
    trainer: Trainer, k: int, costs: Mapping[str, float], within: Range
) -> dict[str, Any]:
    """Return the measures of a finished training for K = k; `costs` are trajectories by extra.

    Final numbers are means over the `final_evaluations`, instance by instance. Intervals are over
    the held-out instances, whose rewards lie `within` a range. An undefined number is None, because
    JSON has no NaN; the reason is under `undefined`.
    """
    samples = trainer.evaluations[-1].rewards.shape[1]
    ks = list(evaluated_ks(samples, k))
    reasons: dict[str, str] = {}
    series = [
        _columns([_mean_at(evaluation.curves, at, within, reasons) for at in ks])
        for evaluation in trainer.evaluations
    ]
    last, steps = trainer.final_evaluations, [evaluation.step for evaluation in trainer.evaluations]
    batch = trainer.one_step.settings.batch
    final = _final(_average([each.curves for each in last]), ks, within, reasons)
    return {
        "steps": trainer.steps,
        "rollouts": trainer.steps * batch,
        "evaluations": {"step": steps, "rollouts": [step * batch for step in steps], "ks": ks}
        | {end: [row[end] for row in series] for end in ENDS},
        "last": [evaluation.step for evaluation in last],
        "final": final,
        **_decodings([each.ways for each in last], ks, costs, within, reasons),
        "log": _thinned(trainer.log, trainer.steps),
        "undefined": reasons,
        "timings": {"evaluations_seconds": [round(e.seconds, 6) for e in trainer.evaluations]},
    }


def _average(values: Sequence[Tensor]) -> Tensor:
    """Return the mean over checkpoints; NaN if one of them has no value."""
    return torch.stack(list(values)).mean(0)


def _final(
    curves: Tensor, ks: Sequence[int], within: Range, reasons: dict[str, str]
) -> dict[str, Any]:
    """Return the means of curves [I, samples] at every K, and their values per instance at `ks`."""
    means = [_mean_at(curves, at, within, reasons) for at in range(1, curves.shape[1] + 1)]
    per_instance = [_without_nan(curves[:, at - 1]) for at in ks]
    return _columns(means) | {"ks": list(ks), "per_instance": per_instance}


def _decodings(
    last: Sequence[Mapping[str, Decoded]],
    ks: Sequence[int],
    costs: Mapping[str, float],
    within: Range,
    reasons: dict[str, str],
) -> dict[str, Any]:
    """Return the other decodings, and the means of all decodings on the tuning instances."""
    ends: dict[str, Any] = {"tempered": {}, "extras": {}}
    for name, rewards in _averages([each["held_out"] for each in last]).items():
        if isinstance(rewards, str):
            ends["extras"][name] = {"value": None, "reason": rewards}
        elif isinstance(name, float):
            ends["tempered"][str(name)] = _final(rewards, ks, within, reasons)
        elif name in costs:
            per_instance = {"per_instance": _without_nan(rewards), "trajectories": int(costs[name])}
            ends["extras"][name] = _ends(_mean(rewards, within)) | per_instance
        else:
            ends[name] = _final(rewards, ks, within, reasons)
    if "tuning" in last[0]:
        tuning: dict[str, dict[str, Any]] = {"tempered": {}, "extras": {}}
        ends["tuning"] = tuning
        for name, rewards in _averages([each["tuning"] for each in last]).items():
            if isinstance(rewards, str):
                continue
            if isinstance(name, float):
                tuning["tempered"][str(name)] = _without_nan(rewards.nanmean(0))
            elif name in costs:
                (tuning["extras"][name],) = _without_nan(rewards.nanmean(0, keepdim=True))
    return ends


def _averages(decodings: Sequence[Decoded]) -> Decoded:
    """Return Max@K [I, samples] of samples and the rewards [I] of the extras, or a reason."""
    averages: Decoded = {}
    for name in decodings[0]:
        ends = [each[name] for each in decodings if name in each]
        curves = [
            max_curves(end) if end.dim() == 2 else end for end in ends if not isinstance(end, str)
        ]
        reasons = [end for end in ends if isinstance(end, str)]
        averages[name] = reasons[0] if reasons else _average(curves)
    return averages


def _mean_at(curves: Tensor, k: int, within: Range, reasons: dict[str, str]) -> Interval:
    """Return the mean over instances of ρ̂(samples, k), curves [I, samples].

    `reasons` gets the reason for a missing value or end.
    """
    values = curves[:, k - 1]
    missing = values.isnan()
    if missing.any():
        # K = 1 comes first.
        none = k == 1 and bool(missing.all())
        reasons.setdefault(
            "value",
            "no sample of the held-out instances can be scored"
            if none
            else "at the larger K, held-out instances with fewer than K scorable samples "
            "are left out",
        )
    interval = _mean(values, within)
    if interval.reason and not missing.all():
        reasons["low"] = reasons["high"] = interval.reason
    return interval


def _mean(values: Tensor, within: Range) -> Interval:
    """Return the mean of the defined values of [I], with its interval over them."""
    defined = values[~values.isnan()].tolist()
    if len(defined) == 0:
        return undefined(RECORDED_LEVEL, "no instance has K scorable samples")
    return instance_mean(defined, RECORDED_LEVEL, within)


def _ends(interval: Interval) -> dict[str, float | None]:
    return dict(zip(ENDS, _without_nan([interval.value, interval.low, interval.high]), strict=True))


def _columns(intervals: Sequence[Interval]) -> dict[str, list[float | None]]:
    rows = [_ends(interval) for interval in intervals]
    return {end: [row[end] for row in rows] for end in ENDS}


def _without_nan(values: Tensor | Sequence[float]) -> list[float | None]:
    """Return numbers with None for NaN, which JSON does not have."""
    numbers = values.tolist() if isinstance(values, Tensor) else values
    return [None if math.isnan(value) else value for value in numbers]


def _thinned(log: Mapping[str, Sequence[float]], steps: int) -> dict[str, list[Any]]:
    """Return at most `LOG_POINTS` evenly spaced steps of the log, with the first and the last.

    Floats are rounded to `DIGITS` digits.
    """
    points = np.linspace(0, max(0, steps - 1), min(steps, LOG_POINTS))
    places = sorted({round(i) for i in points})
    return {"step": places} | {
        name: _without_nan([float(f"{values[i]:.{DIGITS}g}") for i in places])
        for name, values in log.items()
    }
