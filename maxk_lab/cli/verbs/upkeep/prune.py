"""`maxk-lab prune`: what runs hold and need no more, removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, say, tell, warn
from maxk_lab.cli.verbs.upkeep.asking import confirm, counted_size
from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.upkeep.pruning import Prunable


def prune(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN...]", help="Names of runs; all if left out.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go; remove nothing.")
    ] = False,
    yes: options.Yes = False,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Remove what runs need no more: stale records, the cache of what is finished, reports that \
are of other records.

    Done and failed cells of a run's own sweep stay, of the \
cache stay trained policies, held-out instances and their optima, and all that unfinished cells \
use. Without the pools of its trajectories, a baseline that is added to a sweep later draws them \
anew.

    \b
    [bold]maxk-lab prune --dry-run[/bold]
    [bold]maxk-lab prune tsp_sweep[/bold]
    """
    from maxk_lab.sweeps.upkeep import pruning

    found = dict(_looked(_chosen(runs, results), named=bool(runs)))
    if json and (dry_run or yes):
        emit_json([_as_json(run, one) for run, one in found.items()])
    else:
        for run, one in found.items():
            _tell(run, one)
    freed = 0
    total = counted_size(sum(one.size for one in found.values()))
    if dry_run:
        say(f"{total} in {len(found)} runs; nothing was removed")
        return
    if found:
        confirm(f"Remove {total}?", yes=yes)
    for run in found:
        try:
            freed += pruning.prune(run, _old_report(run)).size
        except LabError as error:
            if runs:
                raise
            warn(f"{run.name} stays as it is: {error}")
    say(f"{counted_size(freed)} removed")


def _chosen(names: list[str] | None, results: Path) -> list[RunDirectory]:
    from maxk_lab.sweeps.run.find import find_run, find_runs

    if names:
        chosen = [find_run(name, results) for name in dict.fromkeys(names)]
        return [run.for_writing("prune") for run in chosen]
    return [run for run in find_runs(results) if run.place.is_dir() and not run.place.is_symlink()]


def _looked(runs: list[RunDirectory], *, named: bool) -> list[tuple[RunDirectory, Prunable]]:
    """Return the runs of which something can go."""
    from maxk_lab.sweeps.upkeep.pruning import prunable

    found = []
    for run in runs:
        try:
            one = prunable(run, _old_report(run))
        except LabError as error:
            if named:
                raise
            warn(f"{run.name} stays as it is: {str(error).splitlines()[0]}")
        else:
            found += [(run, one)] if one else []
    return found


def _old_report(run: RunDirectory) -> list[Path]:
    from maxk_lab.report.formats.last import outdated_files

    return outdated_files(run)


def _parts(one: Prunable) -> dict[str, tuple[int, int]]:
    """Return how many things of each kind can go, and their bytes."""
    parts: dict[str, Mapping[Any, int]] = {
        "stale records": one.stale,
        "files of the cache": one.cache,
        "files of an old report": one.others,
    }
    return {what: (len(found), sum(found.values())) for what, found in parts.items() if found}


def _tell(run: RunDirectory, one: Prunable) -> None:
    parts = [f"{count} {what} ({counted_size(s)})" for what, (count, s) in _parts(one).items()]
    tell(f"{run.name}: {', '.join(parts)}")


def _as_json(run: RunDirectory, one: Prunable) -> dict[str, Any]:
    return {
        "name": run.name,
        "folder": str(run.root),
        "stale": list(one.stale),
        "files": [str(path) for path in (*one.cache, *one.others)],
        "bytes": one.size,
    }
