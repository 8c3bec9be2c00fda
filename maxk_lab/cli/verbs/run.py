"""`maxk-lab run`: measure the cells of a sweep that have no record yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import duration, emit_json, say, warn
from maxk_lab.cli.progress import execute_plan
from maxk_lab.cli.runs import planned, skipped_as_json
from maxk_lab.cli.sending import live_sending, send_all
from maxk_lab.errors import count
from maxk_lab.execution.archive import is_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Outcome


def main(
    context: typer.Context,
    spec: options.Spec,
    overrides: options.Set = None,
    shift_seeds: options.ShiftSeeds = 0,
    jobs: options.Jobs = 1,
    execution: options.Execution = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="AXIS=VALUE,...", help="Only these cells, e.g. 'k=8,n=16'."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed cells again.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Measure all cells again, without cached files."),
    ] = False,
) -> None:
    """Run a sweep; the same command again measures the missing cells only.

    --force empties the cache of the run, except files of cells that --only leaves out. Use \
--results to keep a run with --shift-seeds separate.

    Nothing is sent to Weights & Biases unless the sweep has a block [bold]tracking[/bold]; \
maxk-lab track sends a run later. WANDB_MODE and WANDB_DISABLED overrule the block.

    Exits with 1 if cells failed or lack a record, and with 130 if interrupted. Finished cells \
are always kept.

    \b
    [bold]maxk-lab run experiments/tsp_sweep.yaml --jobs 2[/bold]
    [bold]maxk-lab run experiments/tsp_sweep.yaml --only baseline=subloo,k=8[/bold]
    [bold]maxk-lab run experiments/tsp_sweep.yaml --execution cluster.yaml[/bold]
    """
    results, json = options.shared(context)
    measured = planned(spec, overrides, results, shift_seeds, execution, unpacked=True)
    folder = measured.folder
    # The command line of this run without unique options. For a bundle it names the unpacked run,
    # which `overrides` may have changed.
    again = options.run_command(context, folder.spec_path if is_bundle(spec) else spec)
    mode, live = live_sending(measured)
    outcome = execute_plan(
        measured,
        live=live,
        # --force begins again, so nothing is left out.
        resume=again + " --retry-failed" * retry_failed + " --force" * force,
        jobs=jobs,
        only=only,
        force=force,
        retry_failed=retry_failed,
    )
    tracked, lost = send_all(measured, mode, live, news=bool(outcome.done), last=outcome.last)
    if json:
        emit_json(_as_json(folder, outcome, tracked))
    _say_summary(outcome, folder, lost)
    _say_next(outcome, folder, again, results)
    if outcome.failed or outcome.missing:
        raise typer.Exit(1)


def _say_next(outcome: Outcome, directory: RunDirectory, again: str, results: Path) -> None:
    if outcome.failed:
        say(f"Why a cell failed: {options.command('show', outcome.failed[0], results)}")
        again += " --retry-failed"
    elif not outcome.missing:
        again = options.command("report", directory.name, results)
    say(f"Next: {again}")


def _say_summary(outcome: Outcome, directory: RunDirectory, lost: str) -> None:
    """Print the outcome; `lost` has failures besides those of cells."""
    counts = [
        f"{len(outcome.done)} measured",
        f"{len(outcome.reused)} already done",
        f"{len(outcome.failed)} failed",
        f"{count(len(outcome.skipped), 'grid point')} skipped (maxk-lab plan says why)"
        if outcome.skipped
        else "",
        lost,
    ]
    say(
        f"{directory.name}: {', '.join(filter(None, counts))}; {duration(outcome.seconds)}; "
        f"records in {directory.root}"
    )
    if outcome.missing:
        why = f"something removed files of {directory.root} while the run measured"
        warn(f"{len(outcome.missing)} cells have no record: {why}")


def _as_json(directory: RunDirectory, outcome: Outcome, tracked: list[str]) -> dict[str, Any]:
    lists = ("done", "failed", "reused", "missing", "seconds")
    return {
        "name": directory.name,
        "folder": str(directory.root),
        **{key: getattr(outcome, key) for key in lists},
        "stale": outcome.stale,
        "skipped": skipped_as_json(outcome.skipped),
        "tracked": tracked,
    }
