"""The record of a trained policy: Max@K curves with intervals, quantiles, extras, a thinned log."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from maxk_lab.statistics.intervals import Interval, bootstrap, undefined
from maxk_lab.statistics.two_level import QUANTILES
from maxk_lab.studies.training.schema import evaluated_ks
from maxk_lab.training.evaluation import reward_quantiles
from maxk_lab.training.trainer import Trainer

LEVEL = 0.95
LOG_POINTS = 200
DIGITS = 6
ENDS = ("value", "low", "high")


def training_metrics(
    trainer: Trainer, k: int, extras: Iterable[tuple[str, Tensor | str]]
) -> dict[str, Any]:
    """Return the measures of a finished training for K = k; `extras` are those of `measure_extras`.

    Intervals are bootstrapped over the held-out instances. JSON has no NaN: what is undefined is
    None, with its reason under `undefined`.
    """
    samples = trainer.evaluations[-1].rewards.shape[1]
    ks = list(evaluated_ks(samples, k))
    reasons: dict[str, str] = {}
    series = [
        [_of_curve(evaluation.curves, at, reasons) for at in ks]
        for evaluation in trainer.evaluations
    ]
    last = trainer.evaluations[-1]
    final = [_of_curve(last.curves, at, reasons) for at in range(1, samples + 1)]
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
        "final": {end: _ends(final, end) for end in ENDS}
        | {"ks": ks, "per_instance": [_plain_all(last.curves[:, at - 1]) for at in ks]},
        "quantiles": {
            name: _as_mapping(_mean(reward_quantiles(last.rewards, fraction)))
            for name, fraction in QUANTILES.items()
        },
        "extras": {name: _of_extra(found) for name, found in extras},
        "log": _thinned(trainer.log, trainer.steps),
        "undefined": reasons,
        "timings": {"evaluations_seconds": [round(e.seconds, 6) for e in trainer.evaluations]},
    }


def _of_curve(curves: Tensor, k: int, reasons: dict[str, str]) -> Interval:
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
    found = _mean(values)
    if found.reason and not missing.all():
        reasons["low"] = reasons["high"] = found.reason
    return found


def _mean(values: Tensor) -> Interval:
    """Return the mean of the [I] values that are defined, with its bootstrap interval."""
    defined = values[~values.isnan()].numpy()
    if len(defined) == 0:
        return undefined(LEVEL, "no instance has K scorable samples")
    members = [np.arange(len(defined))]
    return bootstrap(defined[None], members, lambda means: means[0], level=LEVEL, seed=0)


def _of_extra(found: Tensor | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"value": None, "reason": found}
    return _as_mapping(_mean(found)) | {"per_instance": _plain_all(found)}


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
