"""`maxk-lab track`: send the finished records of a run to Weights & Biases again."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import complain, emit_json, say, tell
from maxk_lab.cli.sending import Lines, sync_command

# The most places that are told one by one.
_TOLD = 10


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
    project: Annotated[
        str | None, typer.Option(help="That of W&B; the one of the sweep file if left out.")
    ] = None,
    entity: Annotated[
        str | None,
        typer.Option(help="The user or team of W&B; the one of the sweep file, or your own."),
    ] = None,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Send a run's finished records to Weights & Biases (again).

    Trainings become a run each, with their curves; gradient studies one for every policy, with a \
table; the report, its figures and the records as a bundle one more. What was sent before is \
replaced. It needs no block [bold]tracking[/bold] in the sweep file.

    Exits with 1 when that fails, and with 2 where online tracking lacks an API key; the records
    are only read.

    \b
    [bold]maxk-lab track tsp_sweep --mode online[/bold]
    """
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.sweeps.run.find import find_run
    from maxk_lab.tracking.wandb_tracker import TrackingError
    from maxk_lab.tracking.wandb_tracker import track as send

    directory = find_run(run, results).for_writing("tracking")
    plan = make_plan(directory.spec())
    try:
        places = send(
            directory, mode.value, project, entity=entity, plan=plan, progress=Lines(mode.value)
        )
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
    """Say where the runs are; of very many, where some are."""
    left_out = len(places) - _TOLD
    for place in places if left_out < 2 else places[-_TOLD:]:
        tell(place)
    if left_out > 1:
        say(f"and {left_out} runs more (--json lists all)")
    if places and mode is Mode.offline:
        say(f"send them later with: {sync_command(places)}")
