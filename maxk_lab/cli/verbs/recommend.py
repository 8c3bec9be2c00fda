"""`maxk-lab recommend`: the n and the baseline whose steps have the lowest variance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_line, print_table, say, warn
from maxk_lab.cli.progress import execute_plan
from maxk_lab.cli.runs import planned
from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.rows import TRAJECTORY_WEIGHTS
from maxk_lab.execution.archive import find_run, is_bundle
from maxk_lab.execution.todo import Run
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.document import marked
from maxk_lab.reports.recommendation import Candidate, Recommendation
from maxk_lab.reports.report import changed_line, read_report
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import FIXED
from maxk_lab.sweep_file.studies import STUDIES

_SHOWN = 12
_HEADINGS = ("estimator", "baseline", "n", "groups", "SNR of a step", "variance over the best")
_CAVEAT = (
    "The variance of a step of B rollouts is (n/B)(V_n + V_between): B/n groups of different "
    "instances. A report compares V_n, the variance of a group, at one n and K."
)
_RATIO = "probability under the policy over that under the one that drew it"


def main(
    context: typer.Context,
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC|RUN", help="The sweep file, a bundle, or a run's name.")
    ],
    budget: Annotated[
        int | None, typer.Option(min=1, metavar="B", help="Rollouts per step; or that of training.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option(metavar="NAME@K", help="E.g. max@8; needed if there are several.")
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", "-n", metavar="N", min=1, help="Compare baselines at this n alone."),
    ] = None,
    stage: Annotated[
        int | None, typer.Option(min=0, metavar="STEPS", help="Of the policy; the latest if none.")
    ] = None,
) -> None:
    """Recommend n and a baseline for a budget of rollouts per step, with intervals, and print the
    line to paste.

    The candidates are the points of the sweep's gradient grid that estimate the gradient of the
    objective and whose n divides the budget. Points without a record are measured first. They are
    ranked by the variance of a step, (n/B)(V_n + V_between): a step of B rollouts has B/n groups,
    each of another instance. Records without V_between cannot rank n: name it with --n. The budget
    is by default the batch of the sweep's training study.

    \b
    [bold]maxk-lab recommend experiments/tsp_sweep.yaml --budget 64 --objective max@8[/bold]
    [bold]maxk-lab recommend tsp_sweep --objective max@8 --stage 0 --json[/bold]
    """
    results, json = options.shared(context)
    recorded = None
    if is_bundle(spec) or not spec.is_file():
        # Its records suffice, also where the code of its rewards or baselines cannot be loaded.
        folder = find_run(spec, results)
        recorded = Run(make_plan(folder.spec()), folder)
        spec = folder.spec_path if folder.place == folder.root else folder.place
    run = recorded or planned(spec, None, results, unpacked=True)
    plan = run.plan
    kinds = [kind for kind in STUDIES if kind.recommends]
    kind = next((kind for kind in kinds if kind.name in plan.spec.studies), kinds[0])
    module = kind.load_module("recommend")
    batches = (getattr(study, "batch", None) for study in plan.spec.studies.values())
    budget = budget or next(filter(None, batches), None)
    if budget is None:
        raise LabError("--budget is missing: how many rollouts a step may take, e.g. --budget 64")
    question = module.ask(plan, budget=budget, objective=objective, stage=stage, n=n)
    failed: Sequence[str] = ()
    if recorded is None or (todo := run.todo(question.only)).cells or todo.failed:
        run = planned(spec, None, results, unpacked=True)
        resume = "The same command goes on from there."
        failed = execute_plan(run, resume=resume, only=question.only).failed
    if failed:  # the best may be among them
        show = options.command("show", failed[0], results)
        say(f"{len(failed)} candidates failed. Why: {show}")
        raise typer.Exit(1)
    report = read_report(run.folder, run.plan)
    if report.origin.changed:
        warn(changed_line(report.origin.changed))
    answers = module.answers(report.studies[kind.name], question)
    if json:
        emit_json([as_json(answer) for answer in answers])
    else:
        for answer in answers:
            _print(answer)
    if not all(answer.candidates for answer in answers):
        raise typer.Exit(1)


def _print(answer: Recommendation) -> None:
    """Print the ranking, the rows left out of it, and the lines to paste."""
    reasons: dict[str, list[str]] = {}
    for row, reason in answer.left_out:
        reasons.setdefault(f"left out, {reason}", []).append(_named(row.key))
    left_out = [f"{reason}: {_some(names, 3)}" for reason, names in reasons.items()]
    if answer.use is None:
        say("\n".join([f"No candidate for {answer.objective}: every row was left out.", *left_out]))
        return
    _print_ranking(answer)
    for line in left_out:
        say(line)
    key = answer.use.row.key
    grid = f'estimator: "{key.estimator}", baseline: "{key.baseline}", n: {key.n}, k: {key.k}'
    if key.forced:
        grid += ", with: {start: forced}"
    print_line(_verdict(answer, answer.use))
    print_line(_CAVEAT)
    print_line(f"Paste: {_paste(answer.use)}")
    print_line(f"In a sweep's training study: {{batch: {answer.budget}, grid: {{{grid}}}}}")


def _print_ranking(answer: Recommendation) -> None:
    """Print the best candidates, and why some intervals are about fixed instances or missing."""
    key, rows = answer.best.row.key, []
    marks: dict[tuple[str, str], set[str]] = {}
    for candidate in answer.candidates:
        name = candidate.row.key
        numbers = [_shown(each, marks) for each in (candidate.step_snr, candidate.over_best)]
        rows.append((name.estimator, name.baseline, name.n, candidate.groups, *numbers))
    where = ", ".join([key.environment, *(f"{name} = {value}" for name, value in key.setting)])
    print_line(f"{answer.objective}, {answer.budget} rollouts a step: {where}, stage {key.stage}")
    print_table(_HEADINGS, rows[:_SHOWN])
    print_line(
        "SNR of a step: ‖∇J‖² over its variance, 95 % intervals about new instances. Variance over "
        f"the best: paired, Bonferroni over {len(answer.candidates) - 1} comparisons. The best "
        "row is picked by these data; its interval is not corrected for this. At its n, the test "
        "of the report decides, too."
    )
    if answer.no_between:
        print_line(f"n is not ranked: {answer.no_between}. Ranked is the variance of a group, V_n.")
    if len(rows) > _SHOWN:
        say(f"and {len(rows) - _SHOWN} more (--json lists all)")
    for (mark, _), reasons in marks.items():
        print_line(f"{mark}: {'e.g. ' * (len(reasons) > 1)}{min(reasons)}")


def _shown(interval: Interval | None, marks: dict[tuple[str, str], set[str]]) -> str:
    """Return an interval, `best` without one, and note why it is not as the others.

    Reasons that differ only in numbers are noted together.
    """
    if interval is None:
        return "best"
    unpaired = interval.defined and interval.reason.startswith("unpaired")
    if interval.reason:
        mark = "*" if unpaired else "†" if interval.defined else "—"
        pattern = re.sub(r"[\d.,]+", "", interval.reason)
        marks.setdefault((mark, pattern), set()).add(interval.reason)
    return marked(interval) + "*" * unpaired


def _named(key: Any) -> str:
    return f"{key.estimator}/{key.baseline} n={key.n}"


def _some(names: list[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _verdict(answer: Recommendation, use: Candidate) -> str:
    key = use.row.key
    what = f"Recommended: {key.estimator} with {key.baseline}, n = {key.n}"
    if use is not answer.best:
        return (
            f"{what}. Its variance is close to the lowest ({_named(answer.best.row.key)}), "
            "and it is the simplest such baseline that needs only rewards."
        )
    if not answer.ties:
        pairs = filter(None, [candidate.over_best for candidate in answer.candidates[1:]])
        here = ", on the fixed instances only" if FIXED in {x.question for x in pairs} else ""
        return f"{what}; its variance is significantly below all others{here}."
    ties = _some([_named(tie.row.key) for tie in answer.ties], 4)
    return f"{what}; not significantly different from it: {ties}."


def _paste(best: Candidate) -> str:
    """Return the line of a training loop."""
    key = best.row.key
    arguments = f'estimator="{key.estimator}", baseline="{key.baseline}", k={key.k}'
    method = Method.parse(key.estimator, key.baseline, key.k)
    needed, notes = method.needed_weight, ""
    if method.needs_ratios:
        arguments += ", ratios=ratios"
        notes = f", ratios the same: {_RATIO}"
    if needed is not None:
        arguments += f', trajectory_weights={{"{needed}": g}}'
        notes = f", g the same: {TRAJECTORY_WEIGHTS[needed]}"
    return (
        f"weights = advantages(rewards, {arguments})  # rewards [{best.groups}, {key.n}]{notes}; "
        "loss = -(weights * log_probs).sum(-1).mean()"
    )


def as_json(answer: Recommendation) -> dict[str, Any]:
    """Return a recommendation as plain JSON."""

    def candidate_as_json(candidate: Candidate) -> dict[str, Any]:
        key = candidate.row.key
        return {
            **{name: getattr(key, name) for name in ("estimator", "baseline", "n", "k")},
            "groups": candidate.groups,
            "step_snr": asdict(candidate.step_snr),
            "over_best": candidate.over_best and asdict(candidate.over_best),
            "significantly_worse": candidate.worse,
            "cells": dict(candidate.row.cells),
        }

    place = answer.candidates[0].row.key if answer.candidates else None
    return {
        "objective": answer.objective,
        "budget": answer.budget,
        "environment": place and place.environment,
        "setting": dict(place.setting) if place else {},
        "stage": place and place.stage,
        "candidates": [candidate_as_json(candidate) for candidate in answer.candidates],
        "no_between": answer.no_between,
        "left_out": [{"row": row.key.path, "reason": reason} for row, reason in answer.left_out],
        "use": candidate_as_json(answer.use) if answer.use else None,
        "paste": _paste(answer.use) if answer.use else None,
    }
