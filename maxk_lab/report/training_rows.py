"""Training records → rows pooled over seeds: Max@K during and after training, and differences paired by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    choose_baseline,
    choose_estimator,
    effective_k,
    is_unbiased,
)
from maxk_lab.gradients.statistics import Interval, bootstrap, undefined
from maxk_lab.report.naming import environment_label
from maxk_lab.report.training_model import Evaluation, Logged, Trained, TrainingKey, TrainingRow

if TYPE_CHECKING:
    from maxk_lab.sweeps.records import Record

# The names of the plain leave-one-out baseline that the others are compared with, at K = 1.
_PLAIN = ("rloo", "centred")


def over_seeds(values: Sequence[float], level: float) -> Interval:
    """Student's t interval of the mean of per-seed values: what another seed may give, instances included.

    Seeds are independent and share nothing that is random, so their values are i.i.d.
    """
    found = np.asarray(values, dtype=float)
    if np.isnan(found).any():
        return undefined(level, "not defined in every seed")
    if len(found) < 2:
        return undefined(level, "one seed: no interval over seeds")
    mean, reach = float(found.mean()), float(_reach(found, level))
    return Interval(mean, mean - reach, mean + reach, level)


def _reach(values: Any, level: float) -> Any:
    """Half the width of Student's t interval of the means of values [seeds, ...]."""
    seeds = len(values)
    return stats.t.isf((1 - level) / 2, seeds - 1) * values.std(axis=0, ddof=1) / np.sqrt(seeds)


def difference(row: TrainingRow, other: TrainingRow, k: int, level: float) -> Interval:
    """Final Max@k of `row` minus that of `other`, paired by seed: both saw the same held-out instances.

    With one seed it is a bootstrap over these instances, and says nothing of other training runs.
    """
    for each in (row, other):
        if each.reason:
            return undefined(level, f"{each.key.path}: {each.reason}")
        if each.final(k) is None:
            return undefined(level, f"{each.key.path}: fewer than {k} samples per evaluation")
    if set(row.by_seed) != set(other.by_seed):
        return undefined(level, f"{row.key.path} and {other.key.path} have different seeds")
    if not row.one_seed:
        pairs = ((row.by_seed[seed].curve, other.by_seed[seed].curve) for seed in sorted(row.by_seed))
        return over_seeds([mine[k - 1] - theirs[k - 1] for mine, theirs in pairs], level)
    (mine,), (theirs,) = row.by_seed.values(), other.by_seed.values()
    if k not in mine.per_instance or k not in theirs.per_instance:
        return undefined(level, f"no values per instance at K = {k}")
    gap = np.subtract(mine.per_instance[k], theirs.per_instance[k])[None]
    if np.isnan(gap).any():
        return undefined(level, "not defined on every instance")
    return bootstrap(gap, [np.arange(gap.shape[1])], lambda means: means[0], level=level, seed=0)


def training_rows(
    cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], level: float
) -> list[TrainingRow]:
    """One row per (environment, estimator, baseline, n, K) of the planned cells, with its differences."""
    grouped: dict[TrainingKey, list[Mapping[str, Any]]] = {}
    for cell in cells:
        grouped.setdefault(training_key(cell), []).append(cell)
    rows = sorted((_pooled(key, members, done, level) for key, members in grouped.items()), key=_order)
    return [_compared(row, _reference(row, rows), level) for row in rows]


def training_key(cell: Mapping[str, Any]) -> TrainingKey:
    """The row that a training cell belongs to."""
    return TrainingKey(environment_label(cell), cell["estimator"], cell["baseline"], cell["n"], cell["k"])


def _order(row: TrainingRow) -> tuple[Any, ...]:
    estimator, baseline = choose_estimator(row.key.estimator), choose_baseline(row.key.baseline)
    return (
        row.key.environment,
        row.key.n,
        effective_k(row.key.estimator, row.key.k),
        ESTIMATORS.names().index(estimator.row.name),
        estimator.name,
        BASELINES.names().index(baseline.row.name),
        baseline.name,
    )


def _reference(row: TrainingRow, rows: Sequence[TrainingRow]) -> TrainingRow:
    """The row of the same n that `row` is compared with: plain RLOO, or else the first."""
    same = [r for r in rows if (r.key.environment, r.key.n) == (row.key.environment, row.key.n)]
    plain = [
        r
        for r in same
        if r.key.baseline in _PLAIN and r.catalogued_unbiased and effective_k(r.key.estimator, r.key.k) == 1
    ]
    return (plain or same)[0]


def _compared(row: TrainingRow, reference: TrainingRow, level: float) -> TrainingRow:
    if row.key == reference.key:
        return row
    gaps = {k: difference(row, reference, k, level) for k in row.ks}
    return replace(row, differences=gaps, reference=reference.key.path)


def _pooled(
    key: TrainingKey, cells: Sequence[Mapping[str, Any]], done: Mapping[str, Record], level: float
) -> TrainingRow:
    cells = sorted(cells, key=lambda cell: int(cell["seed"]))
    finished = {cell["seed"]: done[cell["id"]] for cell in cells if cell["id"] in done}
    row = TrainingRow(
        key=key,
        cells={cell["seed"]: cell["id"] for cell in cells},
        finished=tuple(finished),
        catalogued_unbiased=is_unbiased(key.estimator, key.baseline),
        settings=cells[0].get("training", {}),
    )
    if not row.complete:
        return replace(row, reason=f"incomplete: {len(finished)} of {len(cells)} seeds finished")
    metrics: list[Mapping[str, Any]] = [record.metrics or {} for record in finished.values()]
    if len({(m["steps"], m["rollouts"], tuple(m["final"]["ks"])) for m in metrics}) > 1:
        return replace(row, reason="the seeds were trained or evaluated in different ways")
    curve = _over([m["final"] for m in metrics], level)
    return replace(
        row,
        steps=metrics[0]["steps"],
        rollouts=metrics[0]["rollouts"],
        ks=tuple(metrics[0]["final"]["ks"]),
        curve=tuple(curve),
        evaluations=tuple(_evaluations(list(finished.values()), level)),
        log=_log(metrics, level),
        by_seed={seed: _trained(m) for seed, m in zip(finished, metrics, strict=True)},
    )


def _trained(metrics: Mapping[str, Any]) -> Trained:
    final = metrics["final"]
    return Trained(
        tuple(_floats(final["value"])),
        {k: tuple(_floats(row)) for k, row in zip(final["ks"], final["per_instance"], strict=True)},
    )


def _evaluations(records: Sequence[Record], level: float) -> list[Evaluation]:
    found = [(record.metrics or {})["evaluations"] for record in records]
    clocks = [record.timings.get("evaluations_seconds", ()) for record in records]
    evaluations = []
    for i, (step, rollouts) in enumerate(zip(found[0]["step"], found[0]["rollouts"], strict=True)):
        at = [{name: each[name][i] for name in ("value", "low", "high")} for each in found]
        seconds = float(np.mean([clock[i] if i < len(clock) else np.nan for clock in clocks]))
        values = dict(zip(found[0]["ks"], _over(at, level), strict=True))
        evaluations.append(Evaluation(step, rollouts, seconds, values))
    return evaluations


def _log(metrics: Sequence[Mapping[str, Any]], level: float) -> dict[str, Logged]:
    """Every metric of the training log at the steps that all seeds have kept."""
    logs: list[Mapping[str, Any]] = [m.get("log", {"step": []}) for m in metrics]
    steps = sorted(set.intersection(*(set(log["step"]) for log in logs)))
    kept = [[log["step"].index(step) for step in steps] for log in logs]
    per_step = metrics[0]["rollouts"] // max(1, metrics[0]["steps"])
    found = {}
    for name in logs[0]:
        if name == "step" or not all(name in log for log in logs):
            continue
        values = np.stack([np.array(_floats(log[name]))[at] for log, at in zip(logs, kept, strict=True)])
        means = values.mean(axis=0)
        reach = _reach(values, level) if len(values) > 1 else np.full_like(means, np.nan)
        lines = (tuple(line.tolist()) for line in (means, means - reach, means + reach))
        found[name] = Logged(tuple(per_step * step for step in steps), *lines)
    return found


def _over(parts: Sequence[Mapping[str, Any]], level: float) -> list[Interval]:
    """Intervals over seeds of the lists `value`; of one seed, its own over instances (`low`, `high`)."""
    if len(parts) > 1:
        columns = np.stack([_floats(part["value"]) for part in parts], axis=1)
        return [over_seeds(list(column), level) for column in columns]
    ends = (_floats(parts[0][name]) for name in ("value", "low", "high"))
    return [
        Interval(value, low, high, level, "" if low <= high else "no interval over instances")
        for value, low, high in zip(*ends, strict=True)
    ]


def _floats(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]
