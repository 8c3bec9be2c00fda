"""The record of a trained policy: Max@K curves with intervals, quantiles, extras, a thinned log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.ranges import Range
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds.over_seeds import over_instances
from maxk_lab.statistics.seeds.two_level import QUANTILES
from maxk_lab.studies.training.grid import evaluated_ks
from maxk_lab.training.evaluation import Decoded, max_curves, reward_quantiles
from maxk_lab.training.trainer import Trainer

LEVEL = 0.95
LOG_POINTS = 200
DIGITS = 6
ENDS = ("value", "low", "high")


def training_metrics(
    trainer: Trainer, k: int, costs: Mapping[str, int], within: Range
) -> dict[str, Any]:
    """Return the measures of a finished training for K = k; `costs` are trajectories by extra.

    All of the end are means over the evaluations `at_the_end`, instance by instance. Intervals are
    over the held-out instances, whose rewards lie `within` a range. JSON has no NaN: what is
    undefined is None, with its reason under `undefined`.
    """
    samples = trainer.evaluations[-1].rewards.shape[1]
    ks = list(evaluated_ks(samples, k))
    reasons: dict[str, str] = {}
    series = [
        [_of_curve(evaluation.curves, at, within, reasons) for at in ks]
        for evaluation in trainer.evaluations
    ]
    last = trainer.at_the_end
    batch = trainer.one_step.settings.batch
    return {
        "steps": trainer.steps,
        "rollouts": trainer.steps * batch,
        "evaluations": {
            "step": [evaluation.step for evaluation in trainer.evaluations],
            "rollouts": [evaluation.step * batch for evaluation in trainer.evaluations],
            "ks": ks,
        }
        | {end: [_ends(row, end) for row in series] for end in ENDS},
        "last": [evaluation.step for evaluation in last],
        "final": _final(_average([each.curves for each in last]), ks, within, reasons),
        "quantiles": {
            name: _as_mapping(
                _mean(_average([reward_quantiles(each.rewards, fraction) for each in last]), within)
            )
            for name, fraction in QUANTILES.items()
        },
        **_of_ways([each.decoded for each in last], ks, costs, within, reasons),
        "log": _thinned(trainer.log, trainer.steps),
        "undefined": reasons,
        "timings": {"evaluations_seconds": [round(e.seconds, 6) for e in trainer.evaluations]},
    }


def _average(values: Sequence[Tensor]) -> Tensor:
    """Return the mean over checkpoints, NaN where one of them has no value."""
    return torch.stack(list(values)).mean(0)


def _final(
    curves: Tensor, ks: Sequence[int], within: Range, reasons: dict[str, str]
) -> dict[str, Any]:
    """Return the means of curves [I, samples] at every K, and their values per instance at `ks`."""
    found = [_of_curve(curves, at, within, reasons) for at in range(1, curves.shape[1] + 1)]
    return {end: _ends(found, end) for end in ENDS} | {
        "ks": list(ks),
        "per_instance": [_plain_all(curves[:, at - 1]) for at in ks],
    }


def _of_ways(
    last: Sequence[Mapping[str, Decoded]],
    ks: Sequence[int],
    costs: Mapping[str, int],
    within: Range,
    reasons: dict[str, str],
) -> dict[str, Any]:
    """Return the other ways of decoding, and the means of all ways on the tuning instances."""
    curves, extras = _averages([each["held_out"] for each in last])
    found: dict[str, Any] = {
        "tempered": {str(t): _final(each, ks, within, reasons) for t, each in curves.items()},
        "extras": {name: _of_extra(of_one, costs[name], within) for name, of_one in extras.items()},
    }
    if "tuning" in last[0]:
        curves, extras = _averages([each["tuning"] for each in last])
        found["tuning"] = {
            "tempered": {
                str(temperature): _plain_all(of_one.nanmean(0))
                for temperature, of_one in curves.items()
            },
            "extras": {
                name: _plain(float(of_one.nanmean()))
                for name, of_one in extras.items()
                if not isinstance(of_one, str)
            },
        }
    return found


def _averages(
    found: Sequence[Decoded],
) -> tuple[dict[float, Tensor], dict[str, Tensor | str]]:
    """Return Max@K [I, samples] by temperature and the rewards [I] of the extras, or a reason."""
    curves = {
        temperature: _average([max_curves(each.tempered[temperature]) for each in found])
        for temperature in found[0].tempered
    }
    extras: dict[str, Tensor | str] = {}
    for name in found[0].extras:
        parts = [each.extras[name] for each in found]
        values = [part for part in parts if isinstance(part, Tensor)]
        reasons = [part for part in parts if isinstance(part, str)]
        extras[name] = reasons[0] if reasons else _average(values)
    return curves, extras


def _of_curve(curves: Tensor, k: int, within: Range, reasons: dict[str, str]) -> Interval:
    """Return the mean over instances of ρ̂(samples, k), curves [I, samples].

    `reasons` gets the reason of a missing value or end.
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
    found = _mean(values, within)
    if found.reason and not missing.all():
        reasons["low"] = reasons["high"] = found.reason
    return found


def _mean(values: Tensor, within: Range) -> Interval:
    """Return the mean of the [I] values that are defined, with its interval over these."""
    defined = values[~values.isnan()].tolist()
    if len(defined) == 0:
        return undefined(LEVEL, "no instance has K scorable samples")
    return over_instances(defined, LEVEL, within)


def _of_extra(found: Tensor | str, trajectories: int, within: Range) -> dict[str, Any]:
    if isinstance(found, str):
        return {"value": None, "reason": found}
    return _as_mapping(_mean(found, within)) | {
        "per_instance": _plain_all(found),
        "trajectories": trajectories,
    }


def _as_mapping(interval: Interval) -> dict[str, float | None]:
    return {end: _plain(getattr(interval, end)) for end in ENDS}


def _ends(intervals: Sequence[Interval], name: str) -> list[float | None]:
    return [_plain(getattr(interval, name)) for interval in intervals]


def _plain_all(values: Tensor) -> list[float | None]:
    return [_plain(value) for value in values.tolist()]


def _plain(value: float) -> float | None:
    """Return None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value


def _thinned(log: Mapping[str, Sequence[float]], steps: int) -> dict[str, list[Any]]:
    """Return at most `LOG_POINTS` evenly spaced steps of the log, its first and last included.

    Floats are rounded to `DIGITS` digits.
    """
    kept = (
        sorted({round(i) for i in np.linspace(0, steps - 1, min(steps, LOG_POINTS))})
        if steps
        else []
    )
    return {"step": kept} | {
        name: [_plain(float(f"{values[i]:.{DIGITS}g}")) for i in kept]
        for name, values in log.items()
    }
