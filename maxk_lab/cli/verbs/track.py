"""`maxk-lab track`: send the finished records of a run to Weights & Biases again."""

from __future__ import annotations

from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import complain, print_line, say
from maxk_lab.cli.sending import lines, sync_command
from maxk_lab.execution.archive import find_run
from maxk_lab.planning.plan import make_plan
from maxk_lab.tracking import wandb_tracker


def main(
    context: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Name or folder; the latest if left out.")
    ] = None,
) -> None:
    """Send a run's finished records to Weights & Biases (again).

    Each training is a run with its curves; one more run has the tables of the report. Runs that \
were sent before are replaced. The sweep file needs no block [bold]tracking[/bold]. WANDB_MODE is \
offline (the default), which writes files to send later, or online. WANDB_PROJECT, WANDB_ENTITY \
and WANDB_DIR choose another place.

    Exits with 1 if sending fails, and with 2 if online tracking lacks an API key. The records are \
only read.

    \b
    [bold]WANDB_MODE=online maxk-lab track tsp_sweep[/bold]
    """
    results = options.shared(context).results
    directory = find_run(run, results).for_writing("tracking")
    chosen, line = wandb_tracker.chosen_mode("offline")
    if line:
        say(line)
    plan, progress = make_plan(directory.spec()), lines(chosen)
    failed = False
    try:
        places = wandb_tracker.track(directory, chosen, plan=plan, progress=progress)
    except wandb_tracker.TrackingError as error:
        complain(error)
        places, failed = error.sent, True
    for place in places:
        print_line(place)
    if places and chosen == "offline":
        say(f"send them later with: {sync_command(places)}")
    if failed:
        raise typer.Exit(1)
    if not places:
        why = "W&B is disabled" if chosen == "disabled" else "no cell has a record yet"
        say(f"nothing was tracked: {why}")
