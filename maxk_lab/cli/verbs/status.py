"""`maxk-lab status`: what is done in a run, what is being measured and where, and what waits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_table, say, tell, warn
from maxk_lab.execution.backends.backend import Job, queues
from maxk_lab.execution.bundle import find_run
from maxk_lab.execution.progress import Status, status_of
from maxk_lab.execution.records import RunDirectory

# The lines of a list; --json has all of them.
MOST_LINES = 20
_HEADINGS = ("job", "state", "host", "units", "cells", "reason", "log")


def main(
    run: options.Run,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End its jobs in the queue of a cluster.")
    ] = False,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Show how far a run is: cells done, failed, running and queued, its jobs with their logs, \
and who works on it.

    It looks at the files of the run, and asks the queue of the cluster where the run has jobs \
there. It works from any machine that sees the folder of the run, and changes nothing.

    With --cancel the jobs of the run end, waiting or running: finished cells are kept, trainings \
write a checkpoint first, and the same maxk-lab run goes on. What measures here ends with Ctrl-C.

    \b
    [bold]maxk-lab status tsp_sweep[/bold]
    [bold]maxk-lab status tsp_sweep --cancel[/bold]
    """
    directory = find_run(run, results).for_writing("status")
    if cancel:
        _cancel(directory, json=json)
        return
    status = status_of(directory)
    if json:
        jobs = [asdict(job) | {"units": [*job.units], "cells": job.cells} for job in status.jobs]
        known = asdict(status) | {"jobs": jobs}
        emit_json({"name": directory.name, "folder": str(directory.root), **known})
    else:
        _print(directory, status)
    if status.trouble:
        warn(f"what the jobs are doing is not known: {status.trouble}")


def _cancel(directory: RunDirectory, *, json: bool) -> None:
    ended = [job for queue in queues() for job in queue.cancel(directory)]
    if json:
        emit_json({"name": directory.name, "folder": str(directory.root), "cancelled": ended})
    else:
        for job in ended:
            tell(f"cancelled   {job}")
    say(f"{directory.name}: {len(ended)} jobs cancelled; every finished cell is kept")


def _print(directory: RunDirectory, status: Status) -> None:
    counts = ", ".join(f"{count} {state}" for state, count in status.cells.items())
    tell(f"{directory.name}: {sum(status.cells.values())} cells: {counts}")
    _tell_some([f"at work: {one}" for one in status.drivers])
    _tell_some(
        [f"running: {one.label}, {one.cells} cells left ({one.driver})" for one in status.running]
    )
    if not status.jobs:
        return
    states = [job.state for job in status.jobs]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    tell(f"{len(states)} jobs: {counts}")
    rows = [_row(job) for job in status.jobs if job.state != "finished"]
    if rows:
        print_table(_HEADINGS, rows[:MOST_LINES])
    if len(rows) > MOST_LINES:
        say(f"and {len(rows) - MOST_LINES} more jobs; --json has all")


def _row(job: Job) -> list[str]:
    cells = f"{job.told}/{job.cells}"
    return [job.id, job.state, job.host, str(len(job.units)), cells, job.reason, job.log]


def _tell_some(lines: list[str]) -> None:
    for line in lines[:MOST_LINES]:
        tell(line)
    if len(lines) > MOST_LINES:
        tell(f"and {len(lines) - MOST_LINES} more; --json has all")
