"""Payloads: what every run at W&B is called and has. Imports no wandb.

The numbers are the estimates of a report on one seed alone. A kind of study may have a module
`payload` that tells more: `ONE_RUN_PER`, the keys of a cell of which every value gets a run of its
own, besides the seed (`("id",)` for a run per cell); and `history(records)`, the curves of a run.
`ONE_RUN_PER` alone may stand in its module `table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import error_line
from maxk_lab.execution.provenance import SHARED
from maxk_lab.planning.identity import canonical_json, content_hash
from maxk_lab.reports.naming import setting_of, setting_words
from maxk_lab.reports.tables import PooledRow, axes, grouped, row_estimates, rows_of_cells
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.sweep_file.studies import STUDIES

if TYPE_CHECKING:
    import pandas as pd

    from maxk_lab.execution.records import Record

Metrics = dict[str, float | int | str]
Rows = Mapping[str, PooledRow]
# Parts of a cell that are told otherwise, or say nothing to whoever looks at a run.
_NOT_TOLD = ("id", "setting", "content")
_VERSION = "_version"
_ONE_CELL = ("id",)


@dataclass(frozen=True)
class Curve:
    """A quantity that changes during a run.

    `against` is the axis that it is drawn against; `summary` what the table of runs has of it, as
    W&B spells it: `last`, or `max,last` for both. One that is `hidden` gets no chart of its own.
    """

    against: str
    summary: str = "last"
    hidden: bool = False


@dataclass(frozen=True)
class History:
    """The lines of a run in their order: the values of axes and curves by name, where defined.

    The first axis counts whole steps. Each curve is drawn against its own, and can be against any.
    """

    axes: tuple[str, ...] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    lines: Sequence[Mapping[str, float]] = ()


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
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    history: History = field(default_factory=History)
    failed: bool = False


def group_key(cell: Mapping[str, Any]) -> str:
    """Return what tells the run of a cell from the others of its sweep: equal for its cells."""
    return canonical_json({key: cell.get(key) for key in ("study", "seed", *_one_run_per(cell))})


def payloads(sweep: str, spec: Mapping[str, Any], records: Iterable[Record]) -> list[Payload]:
    """Return a payload for each run that the records make, by kind, seed and their own order."""
    runs = grouped(records, lambda record: group_key(record.cell)).values()
    order = sorted(runs, key=lambda run: (run[0].cell["study"], run[0].cell["seed"]))
    return [_payload(sweep, spec, run) for run in order]


def _payload(sweep: str, spec: Mapping[str, Any], records: Sequence[Record]) -> Payload:
    cell, part = records[0].cell, _part(records[0].cell["study"])
    per, rows = _one_run_per(cell), rows_of_cells(records, 0.95)
    # Not of the records themselves: more of them come as a sweep goes on.
    meaning = {block: spec.get(block) for block in ("environment", "policy")}
    failed = sum(record.status == "failed" for record in records)
    metrics: Metrics = {"cells_done": len(records) - failed, "cells_failed": failed}
    if per == _ONE_CELL:
        metrics = dict(_of_cell(records[0], rows))
    elif not per:
        metrics |= dict(_of_cells(records, rows))
    return Payload(
        run_id=content_hash({"sweep": sweep, "run": group_key(cell), **meaning}),
        name=_name(cell, per),
        job_type=cell["study"],
        tags=_tags(records),
        notes=str(spec.get("description") or ""),
        config=_config(sweep, spec, records, per),
        metrics=metrics,
        tables={} if per == _ONE_CELL else _tables(records, rows),
        history=part.history(records) if hasattr(part, "history") else History(),
        failed=per == _ONE_CELL and bool(failed),
    )


def tables_of_single_cells(records: Iterable[Record]) -> dict[str, pd.DataFrame]:
    """Return the tables of kinds whose cells have a run each, of all their cells together."""
    kinds = grouped(records, lambda record: str(record.cell["study"]))
    return {
        f"{study}/{name}": table
        for study, several in sorted(kinds.items())
        if _one_run_per(several[0].cell) == _ONE_CELL
        for name, table in _tables(several, rows_of_cells(several, 0.95)).items()
    }


def provenance(record: Record) -> dict[str, Any]:
    """Return what is told of where a record is from: the commit, and what reproduces it."""
    # Records of earlier versions hold more: the command line and the name of the machine.
    told = {key: value for key, value in record.provenance.items() if key in SHARED}
    return {"commit": (told.get("git") or {}).get("commit"), "provenance": told}


def _part(study: str) -> Any:
    try:
        return STUDIES.get(study).load_module("payload")
    except ModuleNotFoundError:
        return STUDIES.get(study).load_module("table")


def _one_run_per(cell: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(getattr(_part(cell["study"]), "ONE_RUN_PER", ()))


def _of_cell(record: Record, rows: Rows) -> Iterator[tuple[str, float | int | str]]:
    """The status of a cell, its counts and `final/max@8` with its ends, `final/max@8/low`."""
    yield "status", record.status
    if (seconds := record.timings.get("seconds")) is not None:
        yield "seconds", seconds
    if record.status == "failed":
        yield "error", error_line(record.error)
    row = rows.get(record.cell["id"])
    if row is None:
        return
    for name, found in row_estimates(record.cell["study"], row).items():
        if found.exact:
            yield name, found.value
            continue
        for end, value in (("", found.value), ("/low", found.low), ("/high", found.high)):
            if not isnan(value):
                yield f"final/{name}{end}", value


def _of_cells(records: Sequence[Record], rows: Rows) -> Iterator[tuple[str, float | int | str]]:
    """`weights/maxk/centred/n16/k8/zero_share` and the like; every cell has its status."""
    for record in records:
        study = record.cell["study"]
        path = STUDIES.get(study).load_module("table").key(record.cell).path
        yield f"{path}/status", record.status
        for name, value in _values(study, rows.get(record.cell["id"])).items():
            if value is not None:
                yield f"{path}/{name}", value


def _tables(records: Sequence[Record], rows: Rows) -> dict[str, pd.DataFrame]:
    """A table with a line for each cell, and those of a row's details."""
    import pandas as pd

    study = records[0].cell["study"]
    row_key = STUDIES.get(study).load_module("table").key
    lines: dict[str, list[dict[str, Any]]] = {"cells": []}
    for record in records:
        row = rows.get(record.cell["id"])
        place = axes(study, row_key(record.cell))
        del place["study"]
        place |= {"cell": record.cell["id"], "seed": record.cell["seed"]}
        bias = {"bias": "" if row is None else row.bias_state}
        lines["cells"].append(place | {"status": record.status} | bias | _values(study, row))
        for name, several in ({} if row is None else row.details).items():
            if isinstance(several, list):
                lines.setdefault(name, []).extend(place | dict(one) for one in several)
    found = {}
    for name, several in lines.items():
        frame = pd.DataFrame(several, dtype=object)
        lists = [key for key in several[0] if isinstance(several[0][key], list | tuple)]
        found[name] = frame.explode(lists) if lists else frame
    return found


def _values(study: str, row: PooledRow | None) -> dict[str, float | None]:
    estimates = {} if row is None else row_estimates(study, row)
    return {
        name: one.value if one.defined else None
        for name, one in estimates.items()
        if name not in MEASURES.names() or MEASURES.get(name).tracked
    }


def _name(cell: Mapping[str, Any], per: Sequence[str]) -> str:
    """Return `maxk/centred n=8 k=2 seed 0` or `gradient stage 200 seed 0`, with what varies."""
    words = [cell["study"], *(f"{axis} {cell[axis]}" for axis in per if axis != "setting")]
    if per == _ONE_CELL:
        words = [f"{cell['estimator']}/{cell['baseline']} n={cell['n']} k={cell['k']}"]
    if per == _ONE_CELL or "setting" in per:
        words.append(setting_words(setting_of(cell)))
    return " ".join(filter(None, [*words, f"seed {cell['seed']}"]))


def _tags(records: Sequence[Record]) -> tuple[str, ...]:
    """Return the estimators, baselines and environments of the records."""
    cells = [record.cell for record in records]
    own = [str(cell[axis]) for axis in ("estimator", "baseline") for cell in cells]
    own += [str(cell["environment"]["name"]) for cell in cells]
    # W&B takes no longer tags.
    return tuple(dict.fromkeys(tag[:64] for tag in own))


def _config(
    sweep: str, spec: Mapping[str, Any], records: Sequence[Record], per: Sequence[str]
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
    which = {"cell": first["id"]} if per == _ONE_CELL else {"cells": len(cells)}
    part = {"spec": {first["study"]: spec.get(first["study"])}}
    return {"sweep": sweep, **shared, **which, **part, **provenance(records[-1])}
