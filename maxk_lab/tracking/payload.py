"""Payloads: a name, a config, metrics and tables for every seed of a study. Imports no wandb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from maxk_lab.sweeps.plan.identity import content_hash
from maxk_lab.sweeps.run.provenance import TOLD
from maxk_lab.sweeps.studies import STUDIES
from maxk_lab.tracking.table import Metrics, PayloadTable

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record


class PayloadPart(Protocol):
    """The module `payload` of a kind of study."""

    def metrics(self, record: Record) -> Metrics:
        """Return the numbers of one cell by their names; of a failed one its status only."""

    def tables(self, records: Sequence[Record]) -> dict[str, PayloadTable]:
        """Return the tables of all cells of a seed."""


@dataclass(frozen=True)
class Payload:
    """One W&B run. Its id depends on what was studied, not on when: sending again replaces it."""

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
    kind: PayloadPart = STUDIES.get(study).part("payload")
    for record in records:
        metrics |= kind.metrics(record)
    return Payload(
        run_id=content_hash(identity | meaning),
        name=f"{sweep}-{study}-seed{seed}",
        config={
            **identity,
            "spec": dict(spec),
            # Records of earlier versions hold more: the command line and the name of the machine.
            "provenance": {
                key: told for key, told in records[-1].provenance.items() if key in TOLD
            },
        },
        metrics=metrics,
        tables=kind.tables(records),
    )
