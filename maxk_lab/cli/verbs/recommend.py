"""`maxk-lab recommend`: the (n, baseline) of the highest signal-to-noise ratio per rollout, and the line to paste."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, say
from maxk_lab.cli.execution import execute_plan
from maxk_lab.cli.recommendation import as_json, print_recommendation
from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from maxk_lab.studies.gradient.row.model import GradientRow
    from maxk_lab.sweeps.plan.cells import Cell
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.spec.schema import SweepSpec


def recommend(
    spec: options.Spec,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="B", help="Rollouts per step; by default `batch` of the training study."
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="NAME@K",
            help="What is to be optimised, e.g. max@8; needed if the sweep has several.",
        ),
    ] = None,
    stage: Annotated[
        int | None,
        typer.Option(min=0, metavar="STEPS", help="Stage of the policy; the latest by default."),
    ] = None,
    biased: Annotated[
        bool,
        typer.Option(
            "--biased", help="Let biased estimators compete: their signal points elsewhere."
        ),
    ] = False,
    overrides: options.Set = None,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Worker processes, one thread each.")
    ] = 1,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Recommend n and a baseline for a budget of rollouts per step, with intervals, and print the line to paste.

    The candidates are the points of the sweep's gradient grid that estimate the gradient of the objective and whose n divides
    the budget. Those that the sweep's run has not measured yet are measured first. Ranked is the SNR per rollout: of B rollouts
    a step makes B/n estimates, whose mean has B/n times the SNR of one. How much instances differ from each other
    does not enter, although fewer, larger groups see fewer of them.

    \b
    [bold]maxk-lab recommend experiments/tsp_sweep.yaml --budget 64 --objective max@8[/bold]
    [bold]maxk-lab recommend experiments/tsp_sweep.yaml --budget 64 --objective max@8 --stage 0 --json[/bold]
    """
    from maxk_lab.report.summarise import summarise
    from maxk_lab.studies.gradient.recommend import recommend as rank
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.spec.load import load_spec

    loaded = load_spec(spec, overrides or [])
    plan = make_plan(loaded)
    budget = _budget(loaded, budget)
    objective = _objective(plan, objective)
    stage = _stage(loaded, stage)
    cells = _candidates(plan, objective, stage, budget)
    directory = RunDirectory(results / loaded.name)
    _measure(plan, directory, cells, jobs=jobs)
    found = [
        row for row in summarise(directory, plan).studies["gradient"].rows if row.key.stage == stage
    ]
    answers = [
        rank(group, objective_name=objective, budget=budget, biased=biased)
        for group in _by_place(found)
    ]
    if json:
        emit_json([as_json(answer) for answer in answers])
    else:
        for answer in answers:
            print_recommendation(answer)
    if not all(answer.candidates for answer in answers):
        raise typer.Exit(1)


def _budget(loaded: SweepSpec, given: int | None) -> int:
    if given is not None:
        return given
    training = loaded.study("training")
    if training is None:
        raise LabError("--budget is missing: how many rollouts a step may take, e.g. --budget 64")
    batch: int = training.batch
    return batch


def _objective(plan: Plan, given: str | None) -> str:
    from maxk_lab.estimators import objective as objective_of
    from maxk_lab.estimators.objectives import Objective

    known = list(
        dict.fromkeys(
            objective_of(cell.estimator, cell.k).name
            for cell in plan.cells
            if cell.study == "gradient"
        )
    )
    if not known:
        raise LabError("a recommendation needs a gradient study, and this sweep has none")
    if given is None:
        if len(known) > 1:
            raise LabError(
                f"--objective is missing: the sweep estimates the gradients of {', '.join(known)}"
            )
        return known[0]
    name = Objective.parse(given).name
    if name not in known:
        raise LabError(
            f"--objective {name} is not in the sweep's gradient grid: it has {', '.join(known)}"
        )
    return name


def _stage(loaded: SweepSpec, given: int | None) -> int:
    stages: tuple[int, ...] = loaded.study("gradient").stages
    if given is None:
        return stages[-1]
    if given not in stages:
        raise LabError(f"--stage {given} is not in the sweep: it has {', '.join(map(str, stages))}")
    return given


def _candidates(plan: Plan, objective: str, stage: int, budget: int) -> list[Cell]:
    from maxk_lab.estimators import objective as objective_of

    met = [
        cell
        for cell in plan.cells
        if cell.study == "gradient"
        and cell.stage == stage
        and objective_of(cell.estimator, cell.k).name == objective
    ]
    fitting = [cell for cell in met if budget % cell.n == 0]
    if not fitting:
        sizes = ", ".join(map(str, sorted({cell.n for cell in met})))
        raise LabError(
            f"--budget {budget} is divided by no n of the grid ({sizes}); for others: --set gradient.grid.n=[...]"
        )
    return fitting


def _measure(plan: Plan, directory: Any, cells: Sequence[Cell], *, jobs: int) -> None:
    """Measure what the run lacks of these cells. Exits with 1 when one failed: the best may be among them."""
    import shlex

    axes = ("estimator", "n", "k", "stage")
    values = [
        (axis, value)
        for axis in axes
        for value in dict.fromkeys(getattr(cell, axis) for cell in cells)
    ]
    only = ",".join(["study=gradient", *(f"{axis}={value}" for axis, value in values)])
    outcome = execute_plan(
        plan,
        directory,
        resume="The same command goes on from there.",
        jobs=jobs,
        only=only,
    )
    if outcome.failed:
        say(
            f"{len(outcome.failed)} candidates failed. Why: maxk-lab show {outcome.failed[0]} "
            f"--results {shlex.quote(str(directory.root.parent))}"
        )
        raise typer.Exit(1)


def _by_place(rows: Sequence[GradientRow]) -> list[list[GradientRow]]:
    """The rows of each environment and setting."""
    found: dict[Any, list[GradientRow]] = {}
    for row in rows:
        found.setdefault((row.key.environment, row.key.setting), []).append(row)
    return list(found.values())
