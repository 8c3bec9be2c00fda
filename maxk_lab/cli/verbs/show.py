"""`maxk-lab show`: one run, or one cell with everything its numbers rest on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.catalogue import did_you_mean
from maxk_lab.cli import options
from maxk_lab.cli.console import console, emit_json
from maxk_lab.cli.verbs.upkeep import table
from maxk_lab.errors import LabError, error_line
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from rich.console import Console

    from maxk_lab.sweeps.run.records import Record, RunDirectory


def show(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|CELL", help="A run's name or folder, or a cell id or unique prefix of one."
        ),
    ],
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Show a run, or trace one cell: settings, numbers, formula, seed, versions, commit, timings.

    \b
    [bold]maxk-lab show tsp_sweep[/bold]
    [bold]maxk-lab show 3f2a[/bold]        a cell id, as plan --cells and the reports print it
    [bold]maxk-lab show 3f2a --results tsp_sweep.zip[/bold]   of a bundle
    """
    from maxk_lab.sweeps.run.bundle import BUNDLE, is_bundle
    from maxk_lab.sweeps.run.find import find_run, find_runs

    runs = find_runs(results)
    names = [run.name for run in runs]
    known = target in names or f"{target}{BUNDLE}" in names or is_bundle(target)
    if known or os.path.lexists(Path(target) / "spec.yaml"):
        directory = find_run(target, results)
        view = table.view(directory) | {
            "provenance": _latest_provenance(directory),
            "errors": _errors(directory),
            "damaged": directory.problems,
        }
    else:
        directory, record = _find_cell(runs, target, results)
        view = _cell_view(directory, record) | ({"metrics": _as_reported(record)} if json else {})
    if not json and "meaning" in view:  # somebody's own words, not to be taken for fields
        view["meaning"] = visible_line(view["meaning"])
    emit_json(view) if json else _print_item(console(), "", view, indent=0)


def _find_cell(runs: list[RunDirectory], prefix: str, results: Path) -> tuple[RunDirectory, Record]:
    found = [(run, cell) for run in runs for cell in _ids(run) if cell.startswith(prefix)]
    if not found:
        known = ", ".join(run.name for run in runs) or "none"
        also = did_you_mean(prefix, [run.name for run in runs])
        raise LabError(f"no run and no cell {prefix!r} under {results}{also}; runs: {known}")
    cells = sorted({cell for _, cell in found})
    if len(cells) > 1:
        some = ", ".join(cells[:5]) + (", ..." if len(cells) > 5 else "")
        raise LabError(f"{prefix!r} begins {len(cells)} cell ids ({some}); give more of it")
    run, cell = found[0]
    record = run.read(cell)
    if record is None:
        why = "; ".join(run.problems)
        raise LabError(_unusable(run, cell, why))
    try:
        if record.content is not None:
            record.content.check_points()
    except ValueError as error:
        raise LabError(_unusable(run, cell, f"damaged: {error}")) from None
    return run, record


def _ids(run: RunDirectory) -> list[str]:
    try:
        return run.ids()
    except LabError:  # of one run among many, which `show` of it tells
        return []


def _unusable(run: RunDirectory, cell: str, why: str) -> str:
    return f"the record of cell {cell} cannot be used: {why}; {options.mending(run, 'it')}"


def _cell_view(directory: RunDirectory, record: Record) -> dict[str, Any]:
    found = record.content
    metrics = dict(record.metrics or {}) | dict(found.shown if found else {})
    return {
        "name": record.cell["id"],
        "run": str(directory.place),
        "status": record.status,
        "cell": record.cell,
        "files": _files(directory, record.cell["id"]),
        "formulas": _formulas(record.cell) | dict(found.formulas if found else {}),
        "metrics": _short(metrics),
        "error": record.error,
        "timings": record.timings,
        "provenance": record.provenance,
    }


def _as_reported(record: Record) -> dict[str, Any] | None:
    """Return the metrics with the numbers among them computed anew, as a report computes them."""
    if record.metrics is None or record.content is None:
        return record.metrics
    anew = record.content.shown
    return {
        name: anew.get(name, value) if isinstance(value, float) else value
        for name, value in record.metrics.items()
    }


def _files(directory: RunDirectory, cell_id: str) -> dict[str, Any]:
    """Return the files of a trained policy: the last one and, by step, the snapshots on the way."""
    found = directory.cache_path.glob(f"policy-{cell_id}-*.pt")
    snapshots = {int(path.stem.rsplit("-", 1)[1]): str(path) for path in found}
    checkpoint = directory.cache_path / f"training-{cell_id}.pt"
    files: dict[str, Any] = {"checkpoint": str(checkpoint)} if checkpoint.is_file() else {}
    if snapshots:
        files["snapshots"] = {f"step {step}": snapshots[step] for step in sorted(snapshots)}
    return files


def _short(value: Any) -> Any:
    """Return a value without the lists in it, which --json has; an interval in one line."""
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if not isinstance(item, list)}
    if {"value", "low", "high"} <= set(kept):
        value, *ends = (kept[end] for end in ("value", "low", "high"))
        if value is None:
            return "undefined"
        return f"{value:.4g} " + ("[—]" if None in ends else "[{:.4g}, {:.4g}]".format(*ends))
    return {key: _short(item) for key, item in kept.items()}


def _formulas(cell: dict[str, Any]) -> dict[str, Any]:
    """Return formula, function and source of the estimator and the baseline of a cell."""
    from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator

    rows = {
        "estimator": choose_estimator(cell["estimator"]).row,
        "baseline": choose_baseline(cell["baseline"]).row,
    }
    return {
        kind: {"formula": row.formula, "computed by": row.implementation, "citation": row.citation}
        for kind, row in rows.items()
    }


def _latest_provenance(run: RunDirectory) -> dict[str, Any]:
    latest = max(run.heads.values(), key=lambda head: head.rank[2:], default=None)
    record = None if latest is None else run.read(latest.id)
    return {} if record is None else record.provenance


def _errors(run: RunDirectory) -> dict[str, str]:
    """Return the line of the error of each failed cell, by id."""
    return {record.cell["id"]: error_line(record.error) for record in run.failed()}


def _print_item(out: Console, key: str, value: Any, indent: int) -> None:
    """Print nested dicts as indented `key  value` lines, several lines of text as a block."""
    from rich.text import Text

    pad = "  " * indent
    if value in (None, "", [], {}):
        return
    if isinstance(value, dict):
        if key:
            out.print(Text(f"{pad}{key}", "bold"))
        for name, item in value.items():
            _print_item(out, str(name), item, indent + (1 if key else 0))
    elif isinstance(value, list) and any(" " in str(item) for item in value):
        _print_item(out, key, "\n".join(map(str, ["", *value])), indent)
    elif isinstance(value, str) and "\n" in value:
        out.print(Text(f"{pad}{key}", "bold"))
        for line in value.strip("\n").splitlines():
            out.print(Text(f"{pad}  {line}"))
    else:
        shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        out.print(Text(f"{pad}{key}  ", "dim") + Text(shown))
