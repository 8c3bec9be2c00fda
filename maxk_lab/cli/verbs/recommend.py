"""`maxk-lab recommend`: the method of the highest signal-to-noise ratio per rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, say
from maxk_lab.cli.execution import execute_plan
from maxk_lab.cli.recommendation import as_json, print_recommendation
from maxk_lab.cli.runs import planned
from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from maxk_lab.report.parts import RecommendPart
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.studies import StudyRow


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
    jobs: options.Jobs = 1,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """Recommend n and a baseline for a budget of rollouts per step, with intervals, and print the
    line to paste.

    The candidates are the points of the sweep's gradient grid that estimate the gradient of the
    objective and whose n divides the budget. Those that the sweep's run has not measured yet are
    measured first. Ranked is the SNR per rollout: of B rollouts a step makes B/n estimates, whose
    mean has B/n times the SNR of one. How much instances differ from each other does not enter,
    although fewer, larger groups see fewer of them.

    \b
    [bold]maxk-lab recommend experiments/tsp_sweep.yaml --budget 64 --objective max@8[/bold]
    [bold]maxk-lab recommend experiments/tsp_sweep.yaml --objective max@8 --stage 0 --json[/bold]
    """
    from maxk_lab.report.summarise import summarise

    plan, directory = planned(spec, overrides, results, unpacked=True)
    kind = _kind(plan)
    part: RecommendPart = kind.part("recommend")
    question = part.ask(
        plan, budget=_budget(plan, budget), objective=objective, stage=stage, biased=biased
    )
    _measure(plan, directory, question.only, jobs=jobs)
    answers = part.answers(summarise(directory, plan).studies[kind.name], question)
    if json:
        emit_json([as_json(answer) for answer in answers])
    else:
        for answer in answers:
            print_recommendation(answer)
    if not all(answer.candidates for answer in answers):
        raise typer.Exit(1)


def _kind(plan: Plan) -> StudyRow:
    """Return the kind of study that answers: one of the sweep, else the first that could."""
    from maxk_lab.sweeps.studies import STUDIES

    kinds = [kind for kind in STUDIES if kind.recommends]
    return next((kind for kind in kinds if kind.name in plan.spec.studies), kinds[0])


def _budget(plan: Plan, given: int | None) -> int:
    """Return the budget: as given, else the batch of the study that trains with one."""
    batches = (getattr(study, "batch", None) for study in plan.spec.studies.values())
    found = given if given is not None else next(filter(None, batches), None)
    if found is None:
        raise LabError("--budget is missing: how many rollouts a step may take, e.g. --budget 64")
    return found


def _measure(plan: Plan, directory: RunDirectory, only: str, *, jobs: int) -> None:
    """Measure what the run lacks of these cells.

    Exits with 1 when one failed: the best may be among them.
    """
    import shlex

    outcome = execute_plan(
        plan, directory, resume="The same command goes on from there.", jobs=jobs, only=only
    )
    if outcome.failed:
        say(
            f"{len(outcome.failed)} candidates failed. Why: maxk-lab show {outcome.failed[0]} "
            f"--results {shlex.quote(str(directory.root.parent))}"
        )
        raise typer.Exit(1)
