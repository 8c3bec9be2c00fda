"""`maxk-lab plan`: the cells of a sweep, the done and the skipped ones, the time they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.cli import configuration, options, runs
from maxk_lab.cli.console import console, emit_json, print_table, say, warn
from maxk_lab.cli.effort import Effort, effort_left
from maxk_lab.memory import kept_to_the_end

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.cells import Cell, Unit
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory

STATUSES = ("done", "failed", "missing")
MOST_SEEDS_TOLD = 12


def plan(
    spec: options.Spec,
    overrides: options.Set = None,
    shift_seeds: options.ShiftSeeds = 0,
    cells: Annotated[
        bool, typer.Option("--cells", help="Every cell with its id and status.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes the estimate of time is for.")
    ] = 1,
    backend: configuration.Backend = None,
    profile: configuration.Profile = None,
    no_reuse: options.NoReuse = False,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Show what a run would do: cells to do, done, failed, skipped and why, with an estimate of \
time.

    \b
    [bold]maxk-lab plan experiments/tsp_sweep.yaml[/bold]
    [bold]maxk-lab plan experiments/tsp_sweep.yaml --set gradient.pool=64 --cells[/bold]
    [bold]maxk-lab plan experiments/papers/ordergrad_bandit.yaml[/bold]   every setting that it \
varies
    """
    from maxk_lab.sweeps.plan.needs import short_of_memory
    from maxk_lab.sweeps.run.progress import statuses
    from maxk_lab.sweeps.run.reuse import done_elsewhere, measured_with, names_of

    choice = configuration.choice(backend, profile)
    planned, directory = runs.planned(spec, overrides, results, shift_seeds, choice)
    with kept_to_the_end():  # the process ends with the plan
        state: dict[str, str] = dict(statuses(planned, directory))
        found = done_elsewhere(state, state, directory, None if no_reuse else results)
    elsewhere = names_of(found)
    effort = effort_left(planned, directory, state | dict.fromkeys(elsewhere, "done"), jobs)
    if json:
        emit_json(_as_json(planned, state, elsewhere, directory, effort))
        return
    _print_units(planned, state)
    if cells:
        _print_cells(planned, state)
    _print_skipped(planned)
    _print_totals(planned, state, elsewhere, directory, effort, measured_with(found))
    for kind, study in planned.spec.studies.items():
        for sentence in study.advice():
            say(f"{kind}: {sentence}")
    for problem in directory.problems:
        warn(problem)
    if (lacking := short_of_memory(planned.units)) is not None:
        warn(lacking)
    if set(state.values()) == {"done"}:
        say(f"Next: {options.report_command(directory.name, results)}")
    else:
        chosen = [*configuration.choosing(backend, profile)]
        chosen += ["--jobs", str(jobs)] if jobs > 1 else []
        chosen += ["--no-reuse"] * no_reuse
        again = options.run_command(
            spec, overrides, *chosen, shift_seeds=shift_seeds, results=results
        )
        say(f"Next: {again}")


def _count(state: dict[str, str], status: str, cells: Iterable[Cell]) -> int:
    return sum(state[cell.id] == status for cell in cells)


def _as_json(
    planned: Plan,
    state: dict[str, str],
    elsewhere: dict[str, str],
    directory: RunDirectory,
    effort: Effort,
) -> dict[str, Any]:
    return {
        "name": directory.name,
        "seeds": list(planned.spec.seeds),
        "cells": [{**cell.as_dict(), "status": state[cell.id]} for cell in planned.cells],
        "skipped": runs.skipped_as_json(planned.skipped),
        "reusable": elsewhere,
        "stale": directory.stale(planned),
        "stale_because": directory.stale_because(planned),
        "advice": {kind: list(study.advice()) for kind, study in planned.spec.studies.items()},
        "counts": {status: _count(state, status, planned.cells) for status in STATUSES},
        "seconds_left": effort.seconds,
        "seconds_left_from": "units of this run" if effort.measured else "a rough guess",
        "execution": effort.as_json(),
    }


def _print_units(planned: Plan, state: dict[str, str]) -> None:
    # Units of one seed share a line, where each cell is a unit of its own.
    lines: dict[tuple[str, str, str], list[Unit]] = {}
    for unit in planned.units:
        stage = unit.study if unit.stage is None else str(unit.stage)
        lines.setdefault((_describe(unit), stage, str(unit.seed)), []).append(unit)
    rows = []
    for place, units in lines.items():
        cells = [cell for unit in units for cell in unit.cells]
        numbers = [len(cells), *(_count(state, status, cells) for status in STATUSES)]
        rows.append([*place, *(str(number or "·") for number in numbers)])
    print_table(["environment", "stage", "seed", "cells", *STATUSES], rows)


def _print_cells(planned: Plan, state: dict[str, str]) -> None:
    varied = list(dict.fromkeys(key for unit in planned.units for key in unit.setting))
    columns = ["cell", *varied, "stage", "seed", "estimator", "baseline", "n", "k", "status"]
    rows = []
    for cell in planned.cells:
        place = [
            *(str(cell.setting.get(key, "")) for key in varied),
            cell.study if cell.stage is None else str(cell.stage),
            str(cell.seed),
        ]
        point = [cell.estimator, cell.baseline, str(cell.n), str(cell.k)]
        rows.append([cell.id, *place, *point, state[cell.id]])
    console().print()
    print_table(columns, rows)


def _print_skipped(planned: Plan) -> None:
    if not planned.skipped:
        return
    out = console()
    out.print(f"\nskipped: {len(planned.skipped)} grid points that make no sense or repeat another")
    for reason, count in Counter(s.reason for s in planned.skipped if s.repeats is None).items():
        out.print(f"  {count} ×  {reason}")
    # One line per estimator: a grid of many baselines repeats those that take none at every one.
    for estimator, count in Counter(
        s.point["estimator"] for s in planned.skipped if s.repeats
    ).items():
        out.print(
            f"  {count} ×  repeats a point of {estimator} that is measured once "
            "(--json lists them)",
        )


def _print_totals(
    planned: Plan,
    state: dict[str, str],
    elsewhere: dict[str, str],
    directory: RunDirectory,
    effort: Effort,
    others: Mapping[str, str],
) -> None:
    from maxk_lab.sweeps.plan.changes import stale_lines

    out = console()
    counts = ", ".join(f"{_count(state, status, planned.cells)} {status}" for status in STATUSES)
    out.print(f"\n{len(state)} cells in {len(planned.units)} units: {counts}")
    out.print(_seeds(planned.spec.seeds))
    for line in stale_lines(directory.stale_because(planned)):
        out.print(line)
    for name, count in Counter(elsewhere.values()).items():
        where = f"run {name}{others[name]}"
        out.print(f"{count} of the missing cells are done in {where}, and reused from there")
    if _count(state, "missing", planned.cells) > len(elsewhere):
        out.print(effort.sentence())


def _seeds(seeds: Sequence[int]) -> str:
    """Return a text such as `seeds 0, 1, 2`; of very many the first and the last."""
    told = [str(seed) for seed in seeds]
    if len(told) > MOST_SEEDS_TOLD:
        told[MOST_SEEDS_TOLD - 1 : -1] = ["…"]
        told.append(f"{len(seeds):,} of them")
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(told)}"


def _describe(unit: Unit) -> str:
    """Return a text such as `tsp num_loc=20`, with what is varied of the policy."""
    settings = [
        f"{key}={value}"
        for key, value in unit.environment.items()
        if key != "name" and value not in ([], "")
    ]
    varied = [
        f"{key}={value}"
        for key, value in unit.setting.items()
        if key.partition(".")[0] != "environment"
    ]
    return " ".join([unit.environment["name"], *settings, *varied])
