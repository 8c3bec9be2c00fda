"""`maxk-lab run`: measure the cells of a sweep that have no record yet."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.cli import configuration, options
from maxk_lab.cli.console import duration, emit_json, say, tell, warn
from maxk_lab.cli.execution import execute_plan, jobs_that_go_on
from maxk_lab.cli.runs import planned, skipped_as_json
from maxk_lab.cli.sending import live_of, send_all

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.execute import Outcome
    from maxk_lab.sweeps.run.records import RunDirectory

Only = Annotated[
    str | None,
    typer.Option(
        metavar="AXIS=VALUE,...",
        help="Only these cells, e.g. 'baseline=subloo,k=8' or 'environment.arms=8'.",
    ),
]


def run(
    spec: options.Spec,
    overrides: options.Set = None,
    shift_seeds: options.ShiftSeeds = 0,
    jobs: options.Jobs = 1,
    backend: configuration.Backend = None,
    profile: configuration.Profile = None,
    only: Only = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed cells again.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Measure cells again that have a record, and anew what they share: the cache of "
            "the run is emptied, but for what belongs to cells that --only leaves out.",
        ),
    ] = False,
    no_reuse: options.NoReuse = False,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            help="End once all is submitted, on a cluster whose jobs go on by themselves (slurm); "
            "the same command without it shows their progress.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run; write nothing.")
    ] = False,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Run a sweep. The same command again continues where it stopped and measures only what is \
missing.

    A cell that another run under --results has done is not measured again: its record is copied, \
with the name of that run in its provenance. Failed cells are not taken over, and --retry-failed \
and --force measure themselves.

    Nothing is sent to Weights & Biases unless the sweep has a block [bold]tracking[/bold]; \
maxk-lab track sends a run later.

    Exits with 1 when cells failed or lack a record, with 130 when interrupted; finished cells are \
kept either way.

    \b
    [bold]maxk-lab run experiments/tsp_sweep.yaml --jobs 2[/bold]
    [bold]maxk-lab run experiments/tsp_sweep.yaml --set gradient.pool=64 --only \
baseline=subloo,k=8[/bold]
    [bold]maxk-lab run experiments/tsp_sweep.yaml --retry-failed[/bold]
    [bold]maxk-lab run experiments/tsp_sweep.yaml --shift-seeds 100 --results other[/bold]   \
under other seeds
    [bold]maxk-lab run experiments/tsp_sweep.yaml --profile cluster --detach[/bold]
    """
    from maxk_lab.sweeps.run.bundle import is_bundle

    choice = configuration.choice(backend, profile)
    plan, directory = planned(spec, overrides, results, shift_seeds, choice, unpacked=not dry_run)
    if is_bundle(spec) and not dry_run:
        spec = directory.spec_path  # where it was unpacked, and may be changed since by `overrides`
    reuse = None if no_reuse or force else results
    if dry_run:
        measured = {"force": force, "retry_failed": retry_failed}
        _dry_run(plan, directory, reuse, json=json, only=only, **measured)
        return
    # The command line of this run, without what must not be repeated.
    more = [*configuration.choosing(backend, profile), *["--no-reuse"] * no_reuse]
    more += [*(["--jobs", str(jobs)] if jobs > 1 else []), *(["--only", only] if only else [])]
    again = options.run_command(spec, overrides, *more, shift_seeds=shift_seeds, results=results)
    resume = again + " --retry-failed" * retry_failed
    go_on = jobs_that_go_on(plan, detach=detach)
    live = live_of(plan, directory)
    outcome = execute_plan(
        plan,
        directory,
        live=live,
        resume=resume,
        afresh=f"{resume} --force" if force else "",
        beside=lambda: _on_jobs(directory, results) if go_on else [],
        jobs=jobs,
        only=only,
        force=force,
        retry_failed=retry_failed,
        detach=detach,
        reuse=reuse,
    )
    news = outcome.done or outcome.copied
    tracked, lost = send_all(plan, directory, live, last=outcome.last) if news else ([], "")
    if json:
        emit_json(_as_json(directory, outcome, tracked))
    if detach and outcome.missing:
        _say_detached(outcome, directory, results, again)
    else:
        _conclude(outcome, directory, results, again, lost)


def _on_jobs(directory: RunDirectory, results: Path) -> list[str]:
    """Return what to do about the jobs of a run, if it has any."""
    from maxk_lab.sweeps.run.backends.jobs import any_may_run

    return options.jobs_commands(directory.name, results) if any_may_run(directory) else []


def _say_detached(outcome: Outcome, directory: RunDirectory, results: Path, again: str) -> None:
    """Say what goes on without this process, and how to look after it."""
    say(f"{directory.name}: jobs measure {len(outcome.missing)} cells, and go on by themselves")
    for line in options.jobs_commands(directory.name, results):
        say(line)
    say(f"To wait for them and see their progress: {again}")


def _conclude(
    outcome: Outcome, directory: RunDirectory, results: Path, again: str, lost: str
) -> None:
    """Say what was done, then the next command. Exits with 1 when cells failed or are missing.

    `lost` says what went wrong beside the measuring.
    """
    others = set(outcome.elsewhere)
    mine = sum(cell_id not in others for cell_id in outcome.done)
    counts = [f"{mine} measured", f"{len(outcome.reused)} already done"]
    if others:
        counts.insert(1, f"{len(outcome.done) - mine} measured by another run meanwhile")
    for name, count in Counter(outcome.copied.values()).items():
        counts.insert(1, f"{count} reused from run {name}")
    counts.append(f"{len(outcome.failed)} failed")
    if outcome.skipped:
        counts.append(f"{len(outcome.skipped)} grid points skipped (maxk-lab plan says why)")
    if lost:
        counts.append(lost)
    say(
        f"{directory.name}: {', '.join(counts)}; {duration(outcome.seconds)}; "
        f"records in {directory.root}"
    )
    if outcome.missing and outcome.left:
        more = f" and {len(outcome.left) - 3} more" if len(outcome.left) > 3 else ""
        warn(f"{len(outcome.missing)} cells have no record: {'; '.join(outcome.left[:3])}{more}")
    elif outcome.missing:
        warn(
            f"{len(outcome.missing)} cells have no record, although they were measured or there "
            f"when the run began: something removed files of {directory.root}"
        )
    if outcome.failed:
        say(
            f"Why a cell failed: maxk-lab show {outcome.failed[0]}{options.results_option(results)}"
        )
        say(f"Next: {again} --retry-failed")
    elif outcome.missing:
        say(f"Next: {again}")
    if outcome.failed or outcome.missing:
        raise typer.Exit(1)
    say(f"Next: {options.report_command(directory.name, results)}")


def _dry_run(
    plan: Plan,
    directory: RunDirectory,
    reuse: Path | None,
    *,
    json: bool,
    only: str | None,
    **measured: bool,
) -> None:
    from maxk_lab.sweeps.plan.selection import select
    from maxk_lab.sweeps.run.progress import statuses, to_measure
    from maxk_lab.sweeps.run.reuse import done_elsewhere, measured_with, names_of

    states = statuses(plan, directory)
    open_ = select(plan, only) & to_measure(states, **measured)
    elsewhere = done_elsewhere(open_, states, directory, reuse)
    found, others = names_of(elsewhere), measured_with(elsewhere)
    to_do = [cell for cell in plan.cells if cell.id in open_ - found.keys()]
    if json:
        cells = [cell.as_dict() for cell in to_do]
        emit_json({"name": directory.name, "to_do": cells, "reused_from": found})
        return
    for cell in to_do:
        point = f"{cell.estimator} {cell.baseline} n={cell.n} k={cell.k}"
        tell(f"{cell.id}  {cell.place}  seed {cell.seed}  {point}")
    for name, count in Counter(found.values()).items():
        say(f"{count} cells would be reused from run {name}{others[name]}")
    say(f"{len(to_do)} cells would run; nothing was written")


def _as_json(directory: RunDirectory, outcome: Outcome, tracked: list[str]) -> dict[str, Any]:
    return {
        "name": directory.name,
        "folder": str(directory.root),
        "done": outcome.done,
        "failed": outcome.failed,
        "reused": outcome.reused,
        "reused_from": outcome.copied,
        "missing": outcome.missing,
        "elsewhere": outcome.elsewhere,
        "stale": outcome.stale,
        "skipped": skipped_as_json(outcome.skipped),
        "seconds": outcome.seconds,
        "tracked": tracked,
    }
