"""`maxk-lab run`: measure the cells of a sweep that have no record yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import duration, emit_json, say, tell, warn
from maxk_lab.cli.execution import execute_plan
from maxk_lab.cli.runs import choice, planned, skipped_as_json
from maxk_lab.cli.sending import send_all
from maxk_lab.errors import LabError
from maxk_lab.sweeps.backends import BACKENDS
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.plan.selection import select
from maxk_lab.sweeps.run.backends.jobs import any_may_run
from maxk_lab.sweeps.run.bundle import is_bundle
from maxk_lab.sweeps.run.execute import Outcome
from maxk_lab.sweeps.run.progress import statuses, to_measure
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.reuse import done_elsewhere, measured_with, names_of
from maxk_lab.tracking.live import Live

Only = Annotated[
    str | None, typer.Option(metavar="AXIS=VALUE,...", help="Only these cells, e.g. 'k=8,n=16'.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Measure again what has a record, and what cells share.")
]
Detach = Annotated[
    bool, typer.Option("--detach", help="End once all is submitted (slurm); the jobs go on.")
]


def main(
    spec: options.Spec,
    overrides: options.Set = None,
    shift_seeds: options.ShiftSeeds = 0,
    jobs: options.Jobs = 1,
    backend: options.Backend = None,
    profile: options.Profile = None,
    only: Only = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed cells again.")
    ] = False,
    force: Force = False,
    no_reuse: options.NoReuse = False,
    detach: Detach = False,
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
and --force measure themselves. --force empties the cache of the run, but for what belongs to \
cells that --only leaves out. A run with --shift-seeds is kept apart by --results.

    Nothing is sent to Weights & Biases unless the sweep has a block [bold]tracking[/bold]; \
maxk-lab track sends a run later.

    Exits with 1 when cells failed or lack a record, with 130 when interrupted; finished cells are \
kept either way.

    \b
    [bold]maxk-lab run experiments/tsp_sweep.yaml --jobs 2[/bold]
    [bold]maxk-lab run experiments/tsp_sweep.yaml --set gradient.pool=64 --only \
baseline=subloo,k=8[/bold]
    [bold]maxk-lab run experiments/tsp_sweep.yaml --profile cluster --detach[/bold]
    """
    plan, directory = planned(
        spec, overrides, results, shift_seeds, choice(backend, profile), unpacked=not dry_run
    )
    reuse = None if no_reuse or force else results
    chosen: dict[str, Any] = {"only": only, "force": force, "retry_failed": retry_failed}
    if dry_run:
        _dry_run(plan, directory, reuse, chosen, json=json)
        return
    if is_bundle(spec):
        spec = directory.spec_path  # where it was unpacked, and may be changed since by `overrides`
    # The command line of this run, without what must not be repeated.
    again = options.run_command(
        spec,
        overrides,
        results,
        shift_seeds=shift_seeds,
        backend=backend,
        profile=profile,
        no_reuse=no_reuse,
        jobs=jobs if jobs > 1 else None,
        only=only,
    )
    # With --force nothing is left out: it begins all over again.
    resume = again + " --retry-failed" * retry_failed + " --force" * force
    queue = BACKENDS.get(plan.spec.execution.backend).queue
    if detach and not queue:
        able = ", ".join(row.name for row in BACKENDS if row.queue)
        raise LabError(f"--detach needs a backend whose jobs go on by themselves ({able})")
    live = Live(directory, plan) if plan.spec.tracking.wandb == "online" else None

    def on_jobs() -> list[str]:
        some = queue and any_may_run(directory)
        return options.jobs_commands(directory.name, results) if some else []

    outcome = execute_plan(
        plan,
        directory,
        live=live,
        resume=resume,
        beside=on_jobs,
        jobs=jobs,
        detach=detach,
        reuse=reuse,
        **chosen,
    )
    news = bool(outcome.done or outcome.copied)
    tracked, lost = send_all(plan, directory, live, news=news, last=outcome.last)
    if json:
        emit_json(_as_json(directory, outcome, tracked))
    if detach and outcome.missing:
        missing = len(outcome.missing)
        say(f"{directory.name}: jobs measure {missing} cells, and go on by themselves")
        say("\n".join(options.jobs_commands(directory.name, results)))
        say(f"To wait for them and see their progress: {again}")
        return
    _say_summary(outcome, directory, lost)
    if outcome.failed:
        cell = f"{outcome.failed[0]}{options.results_option(results)}"
        say(f"Why a cell failed: maxk-lab show {cell}\nNext: {again} --retry-failed")
    elif outcome.missing:
        say(f"Next: {again}")
    else:
        say(f"Next: {options.report_command(directory.name, results)}")
    if outcome.failed or outcome.missing:
        raise typer.Exit(1)


def _say_summary(outcome: Outcome, directory: RunDirectory, lost: str) -> None:
    """Say what was done; `lost` says what went wrong beside the measuring."""
    mine = len(set(outcome.done) - set(outcome.elsewhere))
    counts = [f"{mine} measured"]
    counts += [f"{count} reused from run {name}" for name, count in _by_run(outcome.copied)]
    if outcome.elsewhere:
        counts.append(f"{len(outcome.done) - mine} measured by another run meanwhile")
    counts += [f"{len(outcome.reused)} already done", f"{len(outcome.failed)} failed"]
    if outcome.skipped:
        counts.append(f"{len(outcome.skipped)} grid points skipped (maxk-lab plan says why)")
    counts += [lost] if lost else []
    say(
        f"{directory.name}: {', '.join(counts)}; {duration(outcome.seconds)}; "
        f"records in {directory.root}"
    )
    if outcome.missing:
        why = "; ".join(outcome.left[:3])
        why += f" and {len(outcome.left) - 3} more" if len(outcome.left) > 3 else ""
        gone = f"something removed files of {directory.root} while the run measured"
        warn(f"{len(outcome.missing)} cells have no record: {why or gone}")


def _by_run(copied: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the runs that cells were taken from, and how many from each."""
    return [*Counter(copied.values()).items()]


def _dry_run(
    plan: Plan, directory: RunDirectory, reuse: Path | None, chosen: dict[str, Any], *, json: bool
) -> None:
    force, retry_failed = chosen["force"], chosen["retry_failed"]
    states = statuses(plan, directory)
    cells = to_measure(states, force=force, retry_failed=retry_failed)
    unmeasured = select(plan, chosen["only"]) & cells
    elsewhere = done_elsewhere(unmeasured, states, directory, reuse)
    names, others = names_of(elsewhere), measured_with(elsewhere)
    to_do = [cell for cell in plan.cells if cell.id in unmeasured - names.keys()]
    if json:
        points = [cell.as_dict() for cell in to_do]
        emit_json({"name": directory.name, "to_do": points, "reused_from": names})
        return
    for cell in to_do:
        point = f"{cell.estimator} {cell.baseline} n={cell.n} k={cell.k}"
        tell(f"{cell.id}  {cell.place}  seed {cell.seed}  {point}")
    for name, count in _by_run(names):
        say(f"{count} cells would be reused from run {name}{others[name]}")
    say(f"{len(to_do)} cells would run; nothing was written")


def _as_json(directory: RunDirectory, outcome: Outcome, tracked: list[str]) -> dict[str, Any]:
    lists = ("done", "failed", "reused", "missing", "elsewhere", "stale", "seconds")
    return {
        "name": directory.name,
        "folder": str(directory.root),
        **{key: getattr(outcome, key) for key in lists},
        "reused_from": outcome.copied,
        "skipped": skipped_as_json(outcome.skipped),
        "tracked": tracked,
    }
