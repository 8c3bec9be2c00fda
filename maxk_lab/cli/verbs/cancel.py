"""`maxk-lab cancel`: the jobs that a run has on a cluster, ended."""

from __future__ import annotations

from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, say, tell


def cancel(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name or folder of the run.")],
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Cancel the jobs that a run has in the queue of a cluster, waiting or running.

    Every finished cell is kept, trainings that run write a checkpoint first, and the same \
`maxk-lab run` goes on from there. Commands that measure on their own machine end with Ctrl-C.

    \b
    [bold]maxk-lab cancel tsp_sweep[/bold]
    """
    from maxk_lab.sweeps.run.backends.jobs import queues
    from maxk_lab.sweeps.run.find import find_run

    directory = find_run(run, results).for_writing("the cancelling of jobs")
    ended = [job for queue in queues() for job in queue.cancel(directory)]
    if json:
        emit_json({"name": directory.name, "folder": str(directory.root), "cancelled": ended})
    else:
        for job in ended:
            tell(f"cancelled   {job}")
    say(f"{directory.name}: {len(ended)} jobs cancelled; every finished cell is kept")
