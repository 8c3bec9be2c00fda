"""`maxk-lab status`: what is done in a run, what is being measured and where, and what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_table, say, tell, warn

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.backends.jobs import JobState
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.run.status import Status

# The lines of a list; --json has all of them.
MOST_LINES = 20
_HEADINGS = ("job", "state", "host", "units", "cells", "reason", "log")


def status(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name or folder of the run.")],
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Show how far a run is: cells done, failed, running and queued, its jobs with their logs, \
and who works on it.

    It looks at the files of the run, and asks the queue of the cluster where the run has jobs \
there. It works from any machine that sees the folder of the run, and changes nothing.

    \b
    [bold]maxk-lab status tsp_sweep[/bold]
    """
    from maxk_lab.sweeps.run.find import find_run
    from maxk_lab.sweeps.run.status import status_of

    directory = find_run(run, results).for_writing("status")
    found = status_of(directory)
    if json:
        emit_json(_as_json(directory, found))
    else:
        _print(directory, found)
    if found.trouble:
        warn(f"what the jobs are doing is not known: {found.trouble}")


def _print(directory: RunDirectory, found: Status) -> None:
    counts = ", ".join(f"{count} {state}" for state, count in found.cells.items())
    tell(f"{directory.name}: {sum(found.cells.values())} cells: {counts}")
    _tell_some([f"at work: {one}" for one in found.drivers])
    _tell_some(
        [f"running: {one.label}, {one.cells} cells left ({one.driver})" for one in found.running]
    )
    if found.jobs:
        states = [job.state for job in found.jobs]
        told = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        tell(f"{len(states)} jobs: {told}")
        # Those that have finished are of no interest any more.
        rows = [_row(job) for job in found.jobs if job.state != "finished"]
        if rows:
            print_table(_HEADINGS, rows[:MOST_LINES])
        if len(rows) > MOST_LINES:
            say(f"and {len(rows) - MOST_LINES} more jobs; --json has all")


def _tell_some(lines: list[str]) -> None:
    for line in lines[:MOST_LINES]:
        tell(line)
    if len(lines) > MOST_LINES:
        tell(f"and {len(lines) - MOST_LINES} more; --json has all")


def _row(job: JobState) -> list[str]:
    cells = f"{job.told}/{job.cells}"
    return [job.id, job.state, job.host, str(len(job.units)), cells, job.reason, job.log]


def _as_json(directory: RunDirectory, found: Status) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "name": directory.name,
        "folder": str(directory.root),
        "cells": dict(found.cells),
        "drivers": [
            {"id": one.id, "host": one.host, "pid": one.pid, "since": one.since}
            for one in found.drivers
        ],
        "running": [asdict(unit) for unit in found.running],
        "jobs": [asdict(job) for job in found.jobs],
        "trouble": found.trouble,
    }
