"""`maxk-lab rm`: runs removed from the folder of results."""

from __future__ import annotations

from typing import Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import tell
from maxk_lab.cli.verbs.upkeep.asking import confirm, counted_size


def rm(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Names of runs or bundles.")],
    yes: options.Yes = False,
    results: options.Results = options.RESULTS,
) -> None:
    """Remove runs with all that is in them: records, cache, report, offline folders of W&B.

    It asks first. A run in which a process or a job of a cluster is at work stays. Nothing \
outside the folder of results is touched, and no link is followed. Other runs keep what they \
reused of it.

    \b
    [bold]maxk-lab rm tsp_trial[/bold]
    [bold]maxk-lab rm tsp_trial old_sweep --yes[/bold]
    """
    from maxk_lab.sweeps.upkeep.moving import own_run, remove, remove_leftovers
    from maxk_lab.sweeps.upkeep.overview import size_of

    found = [own_run(name, results) for name in dict.fromkeys(runs)]
    for run in found:
        tell(f"{run.root}: {len(run.ids())} records, {counted_size(size_of(run.root))}")
    confirm("Remove this? What was measured is lost.", yes=yes)
    remove_leftovers(results)
    for run in found:
        remove(run)
        tell(f"removed {run.root}")
