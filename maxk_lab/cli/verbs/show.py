"""`maxk-lab show`: one run, or one cell with everything its numbers rest on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from maxk_lab.catalogue import did_you_mean
from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_fields, say, tell
from maxk_lab.cli.overviews import as_json
from maxk_lab.cli.runs import mending
from maxk_lab.errors import LabError, error_line
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.execution import upkeep
from maxk_lab.execution.bundle import BUNDLE, find_run, find_runs, is_bundle
from maxk_lab.execution.records import Record, RunDirectory
from maxk_lab.reports.formats.last import last_verdicts, outdated_files
from maxk_lab.visible import visible_line

# The parts of what can go, in words.
_PRUNABLE = {
    "stale": "stale records",
    "damaged": "damaged lines",
    "cache": "files of the cache",
    "others": "files of an old report",
}


def main(
    target: Annotated[
        str, typer.Argument(metavar="RUN|CELL", help="A run, or a cell id or its beginning.")
    ],
    check: Annotated[bool, typer.Option("--check", help="Look for damaged records.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove what is of no more use.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Prune without asking.")] = False,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Show a run, or trace one cell: settings, numbers, formula, seed, versions, commit, timings.

    --check reads all records of a run, and exits with 1 where one is damaged.

    --prune removes stale records, the cache of what is finished, and a report of other records. \
Done and failed cells of the run's own sweep stay, and of the cache trained policies, held-out \
instances and their optima, and all that unfinished cells use. Without its pools, a baseline that \
is added to the sweep later draws them anew.

    \b
    [bold]maxk-lab show tsp_sweep[/bold]
    [bold]maxk-lab show 3f2a[/bold]        a cell id, as plan --cells and the reports print it
    [bold]maxk-lab show 3f2a --results tsp_sweep.zip[/bold]   of a bundle
    [bold]maxk-lab show tsp_sweep --check[/bold]
    [bold]maxk-lab show tsp_sweep --prune --dry-run[/bold]
    """
    if check and prune:
        raise LabError("--check and --prune are two steps: give one of them")
    if (dry_run or yes) and not prune:
        raise LabError("--dry-run and --yes are for --prune")
    if check:
        _check(find_run(target, results), json=json)
        return
    if prune:
        _prune(find_run(target, results), dry_run=dry_run, yes=yes, json=json)
        return
    runs = find_runs(results)
    named = {target, f"{target}{BUNDLE}"} & {run.name for run in runs} or is_bundle(target)
    if named or os.path.lexists(Path(target) / "spec.yaml"):
        view = _run_view(find_run(target, results))
    else:
        view = _cell_view(*_find_cell(runs, target, results), json=json)
    if json:
        emit_json(view)
    else:
        print_fields(view)


def _check(run: RunDirectory, *, json: bool) -> None:
    """Read every record of a run. Exits with 1 where one is damaged."""
    sound = sum(run.read(cell) is not None for cell in run.ids())
    problems = run.problems
    if json:
        emit_json({"name": run.name, "sound": sound, "damaged": problems})
    else:
        for problem in problems:
            tell(problem)
        tell(f"{run.name}: {sound} sound records, {len(problems)} damaged")
    if problems:
        say(f"Damaged records are not used; {mending(run, problems)}")
        raise typer.Exit(1)


def _prune(run: RunDirectory, *, dry_run: bool, yes: bool, json: bool) -> None:
    run = run.for_writing("prune")
    reports = outdated_files(run)
    found = upkeep.prunable(run, reports)
    if json:
        files = [str(path) for path in (*found.cache, *found.others)]
        about = {"stale": list(found.stale), "files": files, "bytes": found.size}
        emit_json({"name": run.name, **about})
    for part, what in _PRUNABLE.items() if not json else ():
        if sizes := getattr(found, part):
            tell(f"{len(sizes)} {what} ({decimal(sum(sizes.values()))})")
    if dry_run or not found:
        say(f"{decimal(found.size)} in {run.name} can go; nothing was removed")
        return
    if not yes and not sys.stdin.isatty():
        raise LabError("nobody can be asked here, and nothing was removed; to do it: --yes")
    if not yes and not typer.confirm(f"Remove {decimal(found.size)}?", err=True):
        say("Nothing was removed")
        raise typer.Exit(1)
    say(f"{decimal(upkeep.prune(run, reports).size)} removed")


def _run_view(run: RunDirectory) -> dict[str, Any]:
    latest = max(run.heads.values(), key=lambda head: head.rank[2:], default=None)
    record = None if latest is None else run.read(latest.id)
    view = as_json(upkeep.overview(run), last_verdicts(run))
    return view | {
        # Somebody's own words, not to be taken for fields.
        "meaning": visible_line(view["meaning"]),
        "provenance": {} if record is None else record.provenance,
        "errors": {one.cell["id"]: error_line(one.error) for one in run.failed()},
        "damaged": run.problems,
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
        why, mend = "; ".join(run.problems), mending(run, run.problems, "it")
        raise LabError(f"the record of cell {cell} cannot be used: {why}; {mend}")
    return run, record


def _cell_view(run: RunDirectory, record: Record, *, json: bool) -> dict[str, Any]:
    """Return all that the numbers of a cell rest on; `json` has the lists among them, too."""
    content, id_, metrics = record.content, record.cell["id"], record.metrics
    rows = {
        "estimator": choose_estimator(record.cell["estimator"]).row,
        "baseline": choose_baseline(record.cell["baseline"]).row,
    }
    formulas: dict[str, Any] = {
        kind: {"formula": row.formula, "computed by": row.implementation, "citation": row.citation}
        for kind, row in rows.items()
    }
    # Numbers are computed anew, as a report computes them.
    anew = dict(content.shown if content else {})
    numbers = {one: value for one, value in (metrics or {}).items() if isinstance(value, float)}
    # The files of a trained policy: the last one and, by step, the snapshots on the way.
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
        "files": {what: found for what, found in files.items() if found},
        "formulas": formulas | dict(content.formulas if content else {}),
        "metrics": metrics and metrics | {one: anew.get(one, numbers[one]) for one in numbers}
        if json
        else _short((metrics or {}) | anew),
        "error": record.error,
        "timings": record.timings,
        "provenance": record.provenance,
    }


def _short(value: Any) -> Any:
    """Return a value without the lists in it, which --json has; an interval in one line."""
    if not isinstance(value, dict):
        return value
    some = {key: item for key, item in value.items() if not isinstance(item, list)}
    if {"value", "low", "high"} <= set(some):
        value, *ends = (some[end] for end in ("value", "low", "high"))
        if value is None:
            return "undefined"
        return f"{value:.4g} " + ("[—]" if None in ends else "[{:.4g}, {:.4g}]".format(*ends))
    return {key: _short(item) for key, item in some.items()}
