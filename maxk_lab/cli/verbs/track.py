"""`maxk-lab track`: send the finished records of a run to Weights & Biases again."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import complain, emit_json, say, tell


class Mode(StrEnum):
    """The place where Weights & Biases keeps its data."""

    offline = "offline"
    online = "online"


def track(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Name or folder; the latest if left out.")
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="offline writes files to sync later; online sends now.")
    ] = Mode.offline,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Send a run's finished records to Weights & Biases (again).

    Exits with 1 when that fails, and with 2 where online tracking lacks an API key; the records
    are only read.

    \b
    [bold]maxk-lab track tsp_sweep --mode online[/bold]
    """
    from maxk_lab.report.write import write_figures
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.sweeps.run.find import find_run
    from maxk_lab.tracking.wandb_tracker import TrackingError
    from maxk_lab.tracking.wandb_tracker import track as send

    directory = find_run(run, results).for_writing("tracking")
    plan = make_plan(directory.spec())
    write_figures(directory, plan)
    try:
        places = send(directory, mode.value, plan=plan)
    except TrackingError as error:
        complain(error)
        emit_json(error.sent) if json else _say_where(error.sent, mode)
        raise typer.Exit(1) from None
    if json:
        emit_json(places)
    elif places:
        _say_where(places, mode)
    else:
        say("nothing was tracked: no cell has a record yet")


def _say_where(places: list[str], mode: Mode) -> None:
    for place in places:
        tell(place)
    if places and mode is Mode.offline:
        say(f"send them later with: wandb sync {shlex.join(places)}")
