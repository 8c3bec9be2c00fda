"""`maxk-lab rename`: another name for a run."""

from __future__ import annotations

from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import say, tell


def rename(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run or bundle.")],
    name: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    results: options.Results = options.RESULTS,
) -> None:
    """Give a run another name: that of its folder, which reports and W&B call it by.

    The sweep file keeps its own: run again, it begins a run of that name, and reuses what this \
one has done.

    \b
    [bold]maxk-lab rename tsp_sweep tsp_before_tuning[/bold]
    """
    from maxk_lab.sweeps.upkeep.moving import own_run
    from maxk_lab.sweeps.upkeep.moving import rename as move

    found = own_run(run, results)
    bundled = found.root.is_file()
    tell(f"{found.root} is now {move(found, name)}")
    if not bundled:
        say(f"To go on with it: change name in its sweep file to {name}")
