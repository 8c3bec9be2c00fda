"""Payloads: what every run at W&B is called and has. Imports no wandb."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from maxk_lab.errors import error_line
from maxk_lab.report.naming import setting_of, setting_words
from maxk_lab.sweeps.plan.identity import canonical_json, content_hash
from maxk_lab.sweeps.run.provenance import TOLD
from maxk_lab.sweeps.spec.schema import MOST_OF_TAG
from maxk_lab.sweeps.studies import STUDIES
from maxk_lab.tracking.estimates import Estimates
from maxk_lab.tracking.history import History
from maxk_lab.tracking.table import Metrics, PayloadTable

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import Record

# Parts of a cell that are told otherwise, or say nothing to whoever looks at a run.
_NOT_TOLD = ("id", "setting", "content")
_VERSION = "_version"
_ONE_CELL = "id"


class PayloadPart(Protocol):
    """The module `payload` of a kind of study that tells a tracker more than its estimates.

    It may have more: `ONE_RUN_PER`, the keys of a cell of which every value gets a run of its own,
    besides the seed: `("id",)` for a run per cell; and `history(records)`, the curves of a run. In
    place of `summary` it may have `metrics(record)`, the numbers of one cell by their names.
    """

    def summary(self, records: Sequence[Record]) -> Metrics:
        """Return the numbers of a run by their names."""

    def tables(self, records: Sequence[Record]) -> dict[str, PayloadTable]:
        """Return the tables of cells: those of a run, or of all cells where each has its run."""


@dataclass(frozen=True)
class Payload:
    """One W&B run. Its id depends on what was studied, not on when: sending again replaces it.

    `failed` says that it has no cell but a failed one.
    """

    run_id: str
    name: str
    job_type: str
    tags: tuple[str, ...]
    notes: str
    config: Mapping[str, Any]
    metrics: Metrics
    tables: Mapping[str, PayloadTable] = field(default_factory=dict)
    history: History = field(default_factory=History)
    failed: bool = False


def group_key(cell: Mapping[str, Any]) -> str:
    """Return what tells the run of a cell from the others of its sweep: equal for its cells."""
    axes = ("study", "seed", *_one_run_per(cell["study"]))
    return canonical_json({axis: cell.get(axis) for axis in axes})


def payloads(
    sweep: str, spec: Mapping[str, Any], records: Iterable[Record], tags: Sequence[str] = ()
) -> list[Payload]:
    """Return a payload for each run that the records make, by kind, seed and their own order.

    They have these tags besides their own.
    """
    by_run: dict[str, list[Record]] = {}
    for record in records:
        by_run.setdefault(group_key(record.cell), []).append(record)
    order = sorted(by_run.values(), key=lambda run: (run[0].cell["study"], run[0].cell["seed"]))
    return [_payload(sweep, spec, run, tags) for run in order]


def _payload(
    sweep: str, spec: Mapping[str, Any], records: Sequence[Record], tags: Sequence[str]
) -> Payload:
    cell = records[0].cell
    study = cell["study"]
    part, single = _part(study), _is_one_cell(study)
    # Not of the records themselves: more of them come as a sweep goes on.
    meaning = {block: spec.get(block) for block in ("environment", "policy")}
    failed = [record for record in records if record.status == "failed"]
    if single:
        counted: Metrics = {"status": records[0].status, **_seconds(records[0])}
        if failed:
            counted["error"] = error_line(failed[0].error)
    else:
        counted = {"cells_done": len(records) - len(failed), "cells_failed": len(failed)}
    return Payload(
        run_id=content_hash({"sweep": sweep, "run": group_key(cell), **meaning}),
        name=_name(cell, single=single),
        job_type=study,
        tags=_tags(records, tags),
        notes=str(spec.get("description") or ""),
        config=_config(sweep, spec, records, single=single),
        metrics=counted | _summary(part, records),
        tables={} if single else part.tables(records),
        history=part.history(records) if hasattr(part, "history") else History(),
        failed=single and bool(failed),
    )


def tables_of_single_cells(records: Iterable[Record]) -> dict[str, PayloadTable]:
    """Return the tables of kinds whose cells have a run each, of all their cells together."""
    by_kind: dict[str, list[Record]] = {}
    for record in records:
        by_kind.setdefault(record.cell["study"], []).append(record)
    return {
        f"{study}/{name}": table
        for study, several in sorted(by_kind.items())
        if _is_one_cell(study)
        for name, table in _part(study).tables(several).items()
    }


def provenance(record: Record) -> dict[str, Any]:
    """Return what is told of where a record is from: the commit, and what reproduces it."""
    # Records of earlier versions hold more: the command line and the name of the machine.
    told = {key: value for key, value in record.provenance.items() if key in TOLD}
    return {"commit": (told.get("git") or {}).get("commit"), "provenance": told}


def _one_run_per(study: str) -> tuple[str, ...]:
    return tuple(getattr(_part(study), "ONE_RUN_PER", ()))


def _part(study: str) -> Any:
    try:
        return STUDIES.get(study).part("payload")
    except ModuleNotFoundError:
        return Estimates(study)


def _is_one_cell(study: str) -> bool:
    return _ONE_CELL in _one_run_per(study)


def _summary(part: Any, records: Sequence[Record]) -> Metrics:
    if hasattr(part, "summary"):
        return dict(part.summary(records))
    return {name: told for record in records for name, told in part.metrics(record).items()}


def _name(cell: Mapping[str, Any], *, single: bool) -> str:
    """`maxk/centred n=16 k=8 seed 0`, or `gradient stage 200 seed 0`, with what varies."""
    words = [cell["study"]]
    if single:
        words = [f"{cell['estimator']}/{cell['baseline']} n={cell['n']} k={cell['k']}"]
    axes = _one_run_per(cell["study"])
    words += [f"{axis} {cell[axis]}" for axis in axes if axis not in (_ONE_CELL, "setting")]
    if single or "setting" in axes:
        words.append(setting_words(setting_of(cell)))
    return " ".join(filter(None, [*words, f"seed {cell['seed']}"]))


def _tags(records: Sequence[Record], more: Sequence[str]) -> tuple[str, ...]:
    """Return the estimators, baselines and environments of the records, and what is asked for."""
    cells = [record.cell for record in records]
    own = [str(cell[axis]) for axis in ("estimator", "baseline") for cell in cells]
    own += [str(cell["environment"]["name"]) for cell in cells]
    return tuple(dict.fromkeys(tag[:MOST_OF_TAG] for tag in (*own, *more)))


def _config(
    sweep: str, spec: Mapping[str, Any], records: Sequence[Record], *, single: bool
) -> dict[str, Any]:
    """Return what all cells of the run have in common, with the part of the sweep file on them."""
    cells = [record.cell for record in records]
    first = cells[0]
    shared = {
        key: value
        for key, value in first.items()
        if key not in _NOT_TOLD
        and not key.endswith(_VERSION)
        and all(cell.get(key) == value for cell in cells)
    }
    settings = {setting_words(setting_of(cell)) for cell in cells}
    if len(settings) == 1 and any(settings):
        shared["setting"] = settings.pop()
    which = {"cell": first["id"]} if single else {"cells": len(cells)}
    part = {"spec": {first["study"]: spec.get(first["study"])}}
    return {"sweep": sweep, **shared, **which, **part, **provenance(records[-1])}


def _seconds(record: Record) -> Metrics:
    """Return how long the cell took, where that is known."""
    seconds = record.timings.get("seconds")
    return {} if seconds is None else {"seconds": seconds}
