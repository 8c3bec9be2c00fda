"""Payloads: the names and contents of runs at W&B. This module does not import wandb.

A kind of study whose cells have curves has a module `payload` with a function `history`. Each of
its cells is a run; the sweep is one more run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import error_line
from maxk_lab.execution.provenance import SHARED
from maxk_lab.planning.identity import canonical_json, content_hash
from maxk_lab.reports.naming import setting_of, setting_words
from maxk_lab.reports.tables import row_estimates, rows_of_cells
from maxk_lab.sweep_file.studies import STUDIES

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record
    from maxk_lab.reports.report import Report

Summary = dict[str, float | int | str]
# Keys of a cell that the config omits or renames.
_LEFT_OUT = ("id", "setting", "content")
JOB_TYPE = "report"


@dataclass(frozen=True)
class Curve:
    """A quantity that changes during a run.

    `against` is its axis; `summary` what the table of runs has, as W&B spells it: `last`, or
    `max,last` for both. A `hidden` curve has no chart.
    """

    against: str
    summary: str = "last"
    hidden: bool = False


@dataclass(frozen=True)
class History:
    """The rows of a run in order: the defined values of axes and curves by name.

    The first axis counts steps.
    """

    axes: tuple[str, ...] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    lines: Sequence[Mapping[str, float]] = ()


@dataclass(frozen=True)
class Payload:
    """One run at W&B. Its id depends on the sweep and cell: sending again replaces the run."""

    run_id: str
    name: str
    job_type: str
    tags: tuple[str, ...]
    notes: str
    config: Mapping[str, Any]
    summary: Summary
    history: History = field(default_factory=History)
    failed: bool = False


def has_curves(study: str) -> bool:
    """Return whether each cell of this kind of study is a run at W&B."""
    try:
        return hasattr(STUDIES.get(study).load_module("payload"), "history")
    except ModuleNotFoundError:
        return False


def cell_payload(sweep: str, spec: Mapping[str, Any], record: Record) -> Payload:
    """Return the run of a cell with curves."""
    cell, study = record.cell, record.cell["study"]
    key = canonical_json({name: cell[name] for name in ("study", "seed", "id")})
    meaning = {block: spec.get(block) for block in ("environment", "policy")}
    words = setting_words(setting_of(cell))
    settings = {
        name: value
        for name, value in cell.items()
        if name not in _LEFT_OUT and not name.endswith("_version")
    }
    name = f"{cell['estimator']}/{cell['baseline']} n={cell['n']} k={cell['k']} {words}"
    tags = (cell["estimator"], cell["baseline"], cell["environment"]["name"])
    return Payload(
        run_id=content_hash({"sweep": sweep, "run": key, **meaning}),
        name=f"{name.strip()} seed {cell['seed']}",
        job_type=study,
        tags=tuple(dict.fromkeys(tag[:64] for tag in tags)),  # W&B refuses longer tags
        notes=str(spec.get("description") or ""),
        config={"sweep": sweep, **settings, "cell": cell["id"]}
        | ({"setting": words} if words else {})
        | {"spec": {study: spec.get(study)}, **_provenance(record)},
        summary=dict(_summary(record)),
        history=STUDIES.get(study).load_module("payload").history([record]),
        failed=record.status == "failed",
    )


def sweep_payload(sweep: str, spec: Mapping[str, Any], report: Report, record: Record) -> Payload:
    """The run of the sweep, with counts, verdicts and the lowest baselines; `record` is any."""
    origin, tables = report.origin, report.tables
    counts = {"planned": origin.planned, "done": origin.done, "failed": len(origin.failed)}
    summary: Summary = {f"cells_{state}": number for state, number in counts.items()}
    summary |= {f"claims/{claim.name}": claim.verdict for claim in report.claims}
    baselines = tables.estimates.drop_duplicates("row").set_index("row").baseline
    lines = tables.comparisons
    for row in lines.row[(lines.family == "best") & (lines.verdict == "lowest")]:
        summary[f"best/{row.replace(f'/{baselines[row]}/', '/')}"] = baselines[row]
    return Payload(
        run_id=content_hash({"sweep": sweep, "run": JOB_TYPE}),
        name=f"{sweep} {JOB_TYPE}",
        job_type=JOB_TYPE,
        tags=(),
        notes=str(spec.get("description") or ""),
        config={"sweep": sweep, "spec": dict(spec), **_provenance(record)},
        summary=summary,
    )


def _provenance(record: Record) -> dict[str, Any]:
    """Return the commit and the shared provenance of a record, without machine names."""
    shared = {key: value for key, value in record.provenance.items() if key in SHARED}
    return {"commit": (shared.get("git") or {}).get("commit"), "provenance": shared}


def _summary(record: Record) -> Iterator[tuple[str, float | int | str]]:
    """Yield the status of a cell, its counts and `final/max@8` with its ends, `final/max@8/low`."""
    yield "status", record.status
    if (seconds := record.timings.get("seconds")) is not None:
        yield "seconds", seconds
    if record.status == "failed":
        yield "error", error_line(record.error)
        return
    for row in rows_of_cells([record], 0.95).values():
        for name, interval in row_estimates(record.cell["study"], row).items():
            if interval.exact:
                yield name, interval.value
                continue
            for end, value in (
                ("", interval.value),
                ("/low", interval.low),
                ("/high", interval.high),
            ):
                if not isnan(value):
                    yield f"final/{name}{end}", value
