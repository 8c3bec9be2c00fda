"""`maxk-lab fsck`: what the files of a run are worth; damaged ones moved out of the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, say, tell

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.fsck import Examination, Finding
    from maxk_lab.sweeps.run.records import RunDirectory


def fsck(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name or folder of the run.")],
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Move what is damaged aside, so that the next run measures it again."
        ),
    ] = False,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Check every file of a run: which records are sound, and what is wrong with the others.

    A record is damaged where its checksum or its content cannot be right, and stale where it is of
    another sweep file or of an older version; neither is ever used. Policies and pools in the cache
    are checked, too. With --repair damaged files are moved to the folder `damaged` of the run, and
    what killed processes left over is removed; then the same `maxk-lab run` measures again what is
    missing. Exits with 1 when something is damaged.

    \b
    [bold]maxk-lab fsck tsp_sweep[/bold]
    [bold]maxk-lab fsck tsp_sweep --repair[/bold]
    """
    from maxk_lab.sweeps.run import fsck as checking
    from maxk_lab.sweeps.run.find import find_folder

    directory = find_folder(run, results)
    if repair:
        directory = directory.for_writing("a repair")
    found = checking.examine(directory)
    moved, removed = checking.repair(directory) if repair else ([], [])
    if json:
        emit_json(_as_json(directory.root, found, moved, removed))
    else:
        _print(found)
        for path in moved:
            tell(f"moved to    {path}")
        for path in removed:
            tell(f"removed     {path}")
    if not found.damaged:
        say(f"{directory.root}: nothing is damaged")
    elif repair:
        say(_after_repair(found, directory))
    elif not directory.repairable:
        say(f"{len(found.damaged)} damaged; {options.mending(directory)}")
        raise typer.Exit(1)
    else:
        say(f"{len(found.damaged)} damaged. Next: {options.fsck_command(directory.root)} --repair")
        raise typer.Exit(1)


def _after_repair(found: Examination, run: RunDirectory) -> str:
    kept = (run.spec_path, run.cells_path)
    if found.missing or any(
        {one.path, one.path.parent} & {*kept} or one.cell for one in found.damaged
    ):
        return "Run the sweep again: it measures what was moved aside or is missing"
    return "No record was moved: no cell has to be measured again"


def _print(found: Examination) -> None:
    """Print the counts, and a line for every file that is not as it should be."""
    planned = "unknown" if found.planned is None else found.planned
    counts = ", ".join(f"{count} {state}" for state, count in found.counts.items())
    tell(f"cells planned: {planned}; records: {counts or 'none'}")
    for one in (*found.files, *found.records):
        if one.why:
            tell(f"{one.state:<10}  {one.path}: {one.why}")
    for cell in found.missing:
        tell(f"missing     cell {cell}")


def _as_json(
    root: Path, found: Examination, moved: list[Path], removed: list[Path]
) -> dict[str, Any]:
    def told(one: Finding) -> dict[str, Any]:
        return {"file": str(one.path), "state": one.state, "why": one.why, "cell": one.cell}

    return {
        "name": root.name,
        "folder": str(root),
        "planned": found.planned,
        "counts": found.counts,
        "records": [told(one) for one in found.records],
        "files": [told(one) for one in found.files],
        "missing": found.missing,
        "moved": list(map(str, moved)),
        "removed": list(map(str, removed)),
    }
