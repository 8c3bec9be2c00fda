"""What W&B is told about one seed of a study: a name, a config, metrics and a table. Imports no wandb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
COLUMNS = ("cell", "seed", *AXES, "status", "against", *METRICS)


@dataclass(frozen=True)
class Payload:
    """One W&B run. `run_id` depends on what was studied, not on when: sending again replaces the run."""

    run_id: str
    name: str
    config: Mapping[str, Any]
    metrics: Mapping[str, float | int | str]
    table: Sequence[Sequence[Any]]


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
    for record in records:
        metrics |= _metrics(record)
    return Payload(
        run_id=content_hash(identity | meaning),
        name=f"{sweep}-{study}-seed{seed}",
        config={
            **identity,
            "spec": dict(spec),
            "provenance": dict(records[-1].provenance),
        },
        metrics=metrics,
        table=[_line(record) for record in records],
    )


def _metrics(record: Record) -> dict[str, float | int | str]:
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
    metrics: Mapping[str, Any] = (record.metrics if record.status == "done" else None) or {}
    return [
        cell["id"],
        cell["seed"],
        *(cell[axis] for axis in AXES),
        record.status,
        metrics.get("against"),
        *(metrics.get(name) for name in METRICS),
    ]
