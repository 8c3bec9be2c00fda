"""What W&B is told about one seed of a study: a name, a config, metrics and tables. Imports no wandb."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxk_lab.studies.exact_payload import (
    objective_metrics,
    objective_tables,
    weights_metrics,
    weights_tables,
)
from maxk_lab.studies.gradient.payload import gradient_metrics, gradient_tables
from maxk_lab.studies.training.payload import training_metrics, training_tables
from maxk_lab.sweeps.plan.identity import content_hash
from maxk_lab.tracking.table import Metrics, PayloadTable

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record


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
    return [
        _payload(sweep, spec, study, seed, groups[study, seed]) for study, seed in sorted(groups)
    ]


def _payload(
    sweep: str, spec: Mapping[str, Any], study: str, seed: int, records: Sequence[Record]
) -> Payload:
    cell = records[0].cell
    identity = {"sweep": sweep, "study": study, "seed": seed}
    meaning = {axis: cell[axis] for axis in ("identity_version", "environment", "policy")}
    metrics: Metrics = {
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


# study → (metrics of a record, tables of all records)
_STUDIES: dict[
    str, tuple[Callable[[Record], Metrics], Callable[[Sequence[Record]], dict[str, PayloadTable]]]
] = {
    "gradient": (gradient_metrics, gradient_tables),
    "training": (training_metrics, training_tables),
    "objective": (objective_metrics, objective_tables),
    "weights": (weights_metrics, weights_tables),
}
