"""`maxk-lab plan`: the problems of sweep files, or the cells of a sweep and their state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import complain, emit_json, estimate, print_line, print_table, say
from maxk_lab.cli.runs import planned, skipped_as_json
from maxk_lab.environments.words import short_value
from maxk_lab.errors import LabError, SpecError, count
from maxk_lab.execution.archive import BUNDLE, Bundle
from maxk_lab.execution.todo import Run
from maxk_lab.installed import is_function_path, place_of
from maxk_lab.planning.cells import Unit
from maxk_lab.planning.plan import Plan, make_plan, stale_line
from maxk_lab.sweep_file.load import load_spec

STATUSES = ("done", "failed", "missing")
MOST_SEEDS = 12


def main(
    context: typer.Context,
    specs: Annotated[
        list[Path], typer.Argument(metavar="SPEC...", help="Sweep files, or one bundle.")
    ],
    overrides: options.Set = None,
    cells: Annotated[
        bool, typer.Option("--cells", help="List every cell with its id and status.")
    ] = False,
) -> None:
    """Check sweep files, and show the cells of one sweep: done, failed, missing, and skipped.

    All problems of a file are listed at once, with their lines and columns. Several files are \
only checked. The remaining time is estimated from the measured cells, or from the golden run of \
the same name.

    \b
    [bold]maxk-lab plan experiments/tsp_sweep.yaml --set gradient.pool=64 --cells[/bold]
    [bold]maxk-lab plan experiments/*.yaml[/bold]
    """
    results, json = options.shared(context)
    if len(specs) > 1:
        _check(specs, overrides or [], json=json)
        return
    (spec,) = specs
    run = planned(spec, overrides, results)
    plan, state = run.plan, run.states()
    counts = Counter[str](state.values())
    seconds, source = _seconds_left(run, counts["missing"], results)
    if json:
        emit_json(_as_json(run, state, seconds))
        return
    _print_units(plan, state)
    if cells:
        _print_cells(plan, state)
    _print_skipped(plan)
    tally = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    units = count(len(plan.units), "unit")
    print_line(f"\n{count(len(state), 'cell')} in {units}: {tally}")
    seeds = [str(seed) for seed in plan.spec.seeds]
    if len(seeds) > MOST_SEEDS:
        seeds = [*seeds[: MOST_SEEDS - 1], "…", seeds[-1], f"{len(seeds):,} of them"]
    print_line(f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}")
    if stale := run.stale:
        print_line(stale_line(stale))
    if seconds is None:
        print_line("time unknown: no unit is measured")
    elif seconds:
        print_line(f"{estimate(seconds)} with one worker, at the mean time of {source}")
    for name, file in _functions(plan).items():
        print_line(f"{name} is in {file}")
    for kind, study in plan.spec.studies.items():
        for sentence in study.advice():
            say(f"{kind}: {sentence}")
    again = options.command("report", run.folder.name, results)
    say(f"Next: {again if {*counts} == {'done'} else options.run_command(context, spec)}")


def _seconds_left(run: Run, missing: int, results: Path) -> tuple[float | None, str]:
    """Return the seconds that one worker needs for the missing cells, and their source.

    None if neither the run nor a golden run with its name has measured cells.
    """
    seconds = run.seconds_left()
    if seconds is not None:
        return seconds, "the measured cells"
    name = run.plan.spec.name
    path = results / "golden" / name / f"{name}{BUNDLE}"
    times = [head.seconds for head in Bundle(path).heads.values()] if path.is_file() else []
    return (missing * fmean(times), f"the cells in {path}") if times else (None, "")


def _check(specs: Sequence[Path], overrides: Sequence[str], *, json: bool) -> None:
    """Print the size of each sweep, or all problems of all files."""
    answers, errors = [], []
    for path in specs:
        try:
            plan = make_plan(load_spec(path, overrides))
        except LabError as error:
            errors.append(error)
            problems = map(str, getattr(error, "problems", [error]))
            answers.append({"file": str(path), "valid": False, "problems": [*problems]})
            continue
        counts = {"cells": len(plan.cells), "skipped": len(plan.skipped)}
        answer = {"file": str(path), "valid": True, "name": plan.spec.name, **counts}
        answers.append(answer | {"functions": _functions(plan)})
    if json:
        emit_json(answers)
    elif errors:
        for unreadable in (each for each in errors if not isinstance(each, SpecError)):
            complain(unreadable)
        if every := [problem for error in errors for problem in getattr(error, "problems", ())]:
            complain(SpecError(every))
    else:
        columns = ("file", "name", "cells", "skipped")
        print_table(columns, [[answer[key] for key in columns] for answer in answers])
    if errors:
        raise typer.Exit(2)


def _functions(plan: Plan) -> dict[str, str]:
    """Return the files of the user's functions in a sweep."""
    names = (key.rpartition(" ")[2] for key in plan.spec.content)
    return {
        name: str(place_of(name.partition(":")[0]).origin)
        for name in names
        if is_function_path(name)
    }


def _as_json(run: Run, state: Mapping[str, str], seconds: float | None) -> dict[str, Any]:
    plan = run.plan
    counts = Counter(state.values())
    return {
        "name": run.folder.name,
        "seeds": list(plan.spec.seeds),
        "cells": [{**cell.as_dict(), "status": state[cell.id]} for cell in plan.cells],
        "skipped": skipped_as_json(plan.skipped),
        "stale": run.stale,
        "advice": {kind: list(study.advice()) for kind, study in plan.spec.studies.items()},
        "counts": {status: counts[status] for status in STATUSES},
        "seconds_left": seconds,
    }


def _print_units(plan: Plan, state: Mapping[str, str]) -> None:
    # Units of one seed share a line if each cell is a unit.
    lines: dict[tuple[str, str, int], Counter[str]] = {}
    for unit in plan.units:
        stage = unit.study if unit.stage is None else str(unit.stage)
        counts = lines.setdefault((_describe(unit), stage, unit.seed), Counter())
        counts.update(state[cell.id] for cell in unit.cells)
    rows = [
        (*place, counts.total(), *(counts[status] or "·" for status in STATUSES))
        for place, counts in lines.items()
    ]
    print_table(["environment", "stage", "seed", "cells", *STATUSES], rows)


def _print_cells(plan: Plan, state: Mapping[str, str]) -> None:
    varied = list(dict.fromkeys(key for unit in plan.units for key in unit.setting))
    rows = []
    for cell in plan.cells:
        setting = [cell.setting.get(key, "") for key in varied]
        stage = cell.study if cell.stage is None else cell.stage
        point = (stage, cell.seed, cell.estimator, cell.baseline, cell.n, cell.k)
        rows.append((cell.id, *setting, *point, state[cell.id]))
    print_line("")
    headings = ("stage", "seed", "estimator", "baseline", "n", "k", "status")
    print_table(["cell", *varied, *headings], rows)


def _print_skipped(plan: Plan) -> None:
    if not plan.skipped:
        return
    points = count(len(plan.skipped), "grid point")
    print_line(f"\nskipped: {points}, invalid or equal to another point")
    # One line per estimator: a large grid repeats estimators without baseline.
    reasons = Counter(
        f"repeats a point of {skip.point['estimator']} that is measured once (--json lists them)"
        if skip.repeats
        else skip.reason
        for skip in plan.skipped
    )
    for reason, number in reasons.items():
        print_line(f"  {number} ×  {reason}")


def _describe(unit: Unit) -> str:
    """Return a text such as `tsp num_loc=20`, with the varied settings of the policy."""
    pairs = [pair for pair in unit.environment.items() if pair[0] != "name"]
    pairs += [pair for pair in unit.setting.items() if not pair[0].startswith("environment.")]
    words = [f"{key}={short_value(value)}" for key, value in pairs if value not in ([], "")]
    return " ".join([unit.environment["name"], *words])
