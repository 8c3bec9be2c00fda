"""What W&B is told about one seed of a study: a name, a config, metrics and tables. Imports no wandb."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxk_lab.sweeps.identity import content_hash

if TYPE_CHECKING:
    from maxk_lab.sweeps.records import Record

METRICS = (
    "value",
    "variance",
    "relative_variance",
    "snr",
    "mean_square",
    "squared_bias",
    "scale",
    "cosine",
)
AXES = ("stage", "estimator", "baseline", "n", "k")
TRAINING_AXES = ("estimator", "baseline", "n", "k")
COLUMNS = ("cell", "seed", *AXES, "status", "against", *METRICS)
TRAINING_COLUMNS = ("cell", "seed", *TRAINING_AXES, "status", "steps", "rollouts")
# Of the tables with one line per K: `at_k` is the K of the curve, `k` that of the objective trained for.
_VALUE = ("at_k", "value", "low", "high")
FINAL_COLUMNS = ("cell", "seed", *TRAINING_AXES, *_VALUE)
EVALUATION_COLUMNS = ("cell", "seed", *TRAINING_AXES, "step", "rollouts", *_VALUE)
# Then one column per metric of the training log.
LOG_COLUMNS = ("cell", "seed", *TRAINING_AXES, "step", "rollouts")


@dataclass(frozen=True)
class PayloadTable:
    """One table: the names of its columns and its lines."""

    columns: Sequence[str]
    lines: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Payload:
    """One W&B run. `run_id` depends on what was studied, not on when: sending again replaces the run."""

    run_id: str
    name: str
    config: Mapping[str, Any]
    metrics: Mapping[str, float | int | str]
    tables: Mapping[str, PayloadTable]


def payloads(sweep: str, spec: Mapping[str, Any], records: Sequence[Record]) -> list[Payload]:
    """One payload per (study, seed) of the records, ordered by these."""
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record.cell["study"], record.cell["seed"]), []).append(record)
    return [_payload(sweep, spec, study, seed, groups[study, seed]) for study, seed in sorted(groups)]


def _payload(
    sweep: str, spec: Mapping[str, Any], study: str, seed: int, records: Sequence[Record]
) -> Payload:
    cell = records[0].cell
    identity = {"sweep": sweep, "study": study, "seed": seed}
    meaning = {axis: cell[axis] for axis in ("identity_version", "environment", "policy")}
    metrics: dict[str, float | int | str] = {
        "cells_done": sum(record.status == "done" for record in records),
        "cells_failed": sum(record.status == "failed" for record in records),
    }
    of_record, tables = _STUDIES[study]
    for record in records:
        metrics |= of_record(record)
    return Payload(
        run_id=content_hash(identity | meaning),
        name=f"{sweep}-{study}-seed{seed}",
        config={
            **identity,
            "spec": dict(spec),
            "provenance": dict(records[-1].provenance),
        },
        metrics=metrics,
        tables=tables(records),
    )


def _gradient_metrics(record: Record) -> dict[str, float | int | str]:
    """`stage0/maxk/centred/n16/k8/variance` and the like; of a failed cell the status and no number."""
    cell = record.cell
    path = f"stage{cell['stage']}/{cell['estimator']}/{cell['baseline']}/n{cell['n']}/k{cell['k']}"
    found: dict[str, float | int | str] = {f"{path}/status": record.status}
    if record.status == "done" and record.metrics is not None:
        values = {name: record.metrics.get(name) for name in METRICS}
        found |= {f"{path}/{name}": value for name, value in values.items() if value is not None}
    return found


def _line(record: Record) -> list[Any]:
    cell = record.cell
    metrics = _finished(record)
    return [
        cell["id"],
        cell["seed"],
        *(cell[axis] for axis in AXES),
        record.status,
        metrics.get("against"),
        *(metrics.get(name) for name in METRICS),
    ]


def _gradient_tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    return {"cells": PayloadTable(COLUMNS, [_line(record) for record in records])}


def _training_metrics(record: Record) -> dict[str, float | int | str]:
    """`training/maxk/centred/n16/k8/final/max@8` and the like; of a failed cell the status and no number."""
    cell = record.cell
    path = f"training/{cell['estimator']}/{cell['baseline']}/n{cell['n']}/k{cell['k']}"
    found: dict[str, float | int | str] = {f"{path}/status": record.status}
    for at_k, value, *_ in _final_values(record):
        if value is not None:
            found[f"{path}/final/max@{at_k}"] = value
    return found


def _training_tables(records: Sequence[Record]) -> dict[str, PayloadTable]:
    cells, final, evaluations, log = [], [], [], []
    names = _logged_names(records)
    for record in records:
        cell, metrics = record.cell, _finished(record)
        place = [cell["id"], cell["seed"], *(cell[axis] for axis in TRAINING_AXES)]
        cells.append([*place, record.status, metrics.get("steps"), metrics.get("rollouts")])
        final += [[*place, *line] for line in _final_values(record)]
        evaluations += [[*place, *line] for line in _evaluated_values(metrics)]
        log += [[*place, *line] for line in _logged_values(metrics, names)]
    return {
        "cells": PayloadTable(TRAINING_COLUMNS, cells),
        "final": PayloadTable(FINAL_COLUMNS, final),
        "evaluations": PayloadTable(EVALUATION_COLUMNS, evaluations),
        "log": PayloadTable((*LOG_COLUMNS, *names), log),
    }


def _finished(record: Record) -> Mapping[str, Any]:
    return (record.metrics if record.status == "done" else None) or {}


def _final_values(record: Record) -> list[list[Any]]:
    """(K, value, low, high) at the end, for the K at which evaluations are kept."""
    final = _finished(record).get("final")
    if final is None:
        return []
    return [[k, *(final[name][k - 1] for name in ("value", "low", "high"))] for k in final["ks"]]


def _evaluated_values(metrics: Mapping[str, Any]) -> list[list[Any]]:
    """(step, rollouts, K, value, low, high) of every evaluation."""
    found = metrics.get("evaluations")
    if found is None:
        return []
    return [
        [step, rollouts, k, *(found[name][i][j] for name in ("value", "low", "high"))]
        for i, (step, rollouts) in enumerate(zip(found["step"], found["rollouts"], strict=True))
        for j, k in enumerate(found["ks"])
    ]


def _logged_names(records: Sequence[Record]) -> list[str]:
    """What any of the records logged at its training steps."""
    logs = [_finished(record).get("log", {}) for record in records]
    return sorted({name for log in logs for name in log} - {"step"})


def _logged_values(metrics: Mapping[str, Any], names: Sequence[str]) -> list[list[Any]]:
    """(step, rollouts before it, a value for each of the names) of every training step that was kept."""
    log = metrics.get("log", {})
    return [
        [
            step,
            step * metrics["rollouts"] // metrics["steps"],
            *(log[name][i] if name in log else None for name in names),
        ]
        for i, step in enumerate(log.get("step", ()))
    ]


# study → (metrics of a record, tables of all records)
_STUDIES: dict[
    str,
    tuple[
        Callable[[Record], dict[str, float | int | str]],
        Callable[[Sequence[Record]], dict[str, PayloadTable]],
    ],
] = {
    "gradient": (_gradient_metrics, _gradient_tables),
    "training": (_training_metrics, _training_tables),
}
