"""`maxk-lab show`: the runs, one run, or one cell with the origin of its numbers."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from maxk_lab.catalogue import did_you_mean
from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_fields, print_table, say, warn
from maxk_lab.errors import LabError, error_line, first_line
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.execution.archive import BUNDLE, find_run, find_runs, is_bundle
from maxk_lab.execution.progress import status_of
from maxk_lab.execution.records import Record, RunDirectory
from maxk_lab.execution.todo import Run, State
from maxk_lab.planning.plan import make_plan
from maxk_lab.visible import visible_line

STATES: tuple[State, ...] = ("done", "failed", "missing")


def main(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(metavar="RUN|CELL", help="A run, or a cell id or its beginning."),
    ] = None,
) -> None:
    """Show all runs, one run, or one cell: settings, numbers, formula, seed, versions, commit.

    A running run also shows its drivers and the units that they measure.

    \b
    [bold]maxk-lab show[/bold]             every run with its counts of cells, latest first
    [bold]maxk-lab show tsp_sweep[/bold]
    [bold]maxk-lab show 3f2a[/bold]        a cell id, as plan --cells and the reports print it
    [bold]maxk-lab show 3f2a --results tsp_sweep.zip[/bold]   of a bundle
    """
    results, json = options.shared(context)
    runs = find_runs(results)
    if target is None:
        _show_runs(runs, results, json=json)
        return
    named = {target, f"{target}{BUNDLE}"} & {run.name for run in runs} or is_bundle(target)
    if named or os.path.exists(target):
        view = _run_view(find_run(target, results))
    else:
        view = _cell_view(*_find_cell(runs, target, results), json=json)
    if json:
        emit_json(view)
    else:
        print_fields(view)


def _show_runs(runs: list[RunDirectory], results: Path, *, json: bool) -> None:
    overviews = [_overview(run) for run in runs]
    if json:
        emit_json(overviews)
    elif runs:
        columns = ("name", "changed", *STATES, "stale")
        rows = [["?" if row[key] is None else row[key] for key in columns] for row in overviews]
        print_table(columns, rows)
    else:
        say(f"no runs under {results}; write a sweep file: maxk-lab init")


def _overview(run: RunDirectory) -> dict[str, Any]:
    """The folder of a run, its last change and its counts; None if its sweep is unreadable."""
    counts: dict[str, int | None] = dict.fromkeys((*STATES, "stale"))
    description = ""
    try:
        plan = make_plan(run.spec())
        states = Counter(Run(plan, run).states().values())
        counts |= {state: states[state] for state in STATES} | {"stale": run.stale(plan)}
        description = visible_line(plan.spec.description)
    except LabError as error:
        warn(f"{run.name}: {first_line(error)}")
    return {
        "name": run.name,
        "description": description,
        "folder": str(run.place),
        "changed": time.strftime("%Y-%m-%d %H:%M", time.localtime(run.changed)),
        **counts,
    }


def _run_view(run: RunDirectory) -> dict[str, Any]:
    latest = max(run.heads.values(), key=lambda head: head.rank[2:], default=None)
    record = None if latest is None else run.read(latest.id)
    overview, working = _overview(run), dict[str, Any]()
    if run.place == run.root and overview["done"] is not None:  # nobody measures a bundle
        status = status_of(run)
        working["drivers"] = list(map(str, status.drivers))
        working["running"] = {each.label: f"{each.cells} cells left" for each in status.running}
    return {
        **overview,
        **working,
        "provenance": {} if record is None else record.provenance,
        "errors": {failed.cell["id"]: error_line(failed.error) for failed in run.failed()},
    }


def _find_cell(runs: list[RunDirectory], prefix: str, results: Path) -> tuple[RunDirectory, Record]:
    places = {cell: run for run in reversed(runs) for cell in run.ids() if cell.startswith(prefix)}
    if not places:
        names = [run.name for run in runs]
        listed = f"{did_you_mean(prefix, names)}; runs: {', '.join(names) or 'none'}"
        raise LabError(f"no run and no cell {prefix!r} under {results}{listed}")
    if len(places) > 1:
        some = ", ".join(sorted(places)[:5]) + (", ..." if len(places) > 5 else "")
        raise LabError(f"{prefix!r} begins {len(places)} cell ids ({some}); give more of it")
    ((cell, run),) = places.items()
    record = run.read(cell)
    if record is None:
        raise LabError(f"the record of cell {cell} cannot be read")
    return run, record


def _cell_view(run: RunDirectory, record: Record, *, json: bool) -> dict[str, Any]:
    """Return the origin of a cell's numbers; `json` includes the lists."""
    content, id_, metrics = record.content, record.cell["id"], record.metrics
    rows = {
        "estimator": choose_estimator(record.cell["estimator"]).row,
        "baseline": choose_baseline(record.cell["baseline"]).row,
    }
    formulas: dict[str, Any] = {
        kind: {"formula": row.formula, "computed by": row.implementation, "citation": row.citation}
        for kind, row in rows.items()
    }
    # Recompute the numbers as a report does.
    recomputed = dict(content.shown if content else {})
    numbers = {name: value for name, value in (metrics or {}).items() if isinstance(value, float)}
    # The files of a trained policy: the last one, and the snapshots by step.
    last = run.cache_path / f"training-{id_}.pt"
    steps = {
        int(path.stem.rsplit("-", 1)[1]): str(path)
        for path in run.cache_path.glob(f"policy-{id_}-*.pt")
    }
    files = {
        "checkpoint": str(last) if last.is_file() else None,
        "snapshots": {f"step {step}": steps[step] for step in sorted(steps)},
    }
    return {
        "name": id_,
        "run": str(run.place),
        "status": record.status,
        "cell": record.cell,
        "files": {kind: file for kind, file in files.items() if file},
        "formulas": formulas | dict(content.formulas if content else {}),
        "metrics": metrics
        and metrics | {name: recomputed.get(name, numbers[name]) for name in numbers}
        if json
        else _short((metrics or {}) | recomputed),
        "error": record.error,
        "timings": record.timings,
        "provenance": record.provenance,
    }


def _short(value: Any) -> Any:
    """Return a value without its lists, which --json has; an interval in one line."""
    if not isinstance(value, dict):
        return value
    some = {key: item for key, item in value.items() if not isinstance(item, list)}
    if {"value", "low", "high"} <= set(some):
        value, *ends = (some[end] for end in ("value", "low", "high"))
        if value is None:
            return "undefined"
        return f"{value:.4g} " + ("[—]" if None in ends else "[{:.4g}, {:.4g}]".format(*ends))
    return {key: _short(item) for key, item in some.items()}
