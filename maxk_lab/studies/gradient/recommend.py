"""The recommendation of a gradient study: the question checked, and answered by its rows."""

from __future__ import annotations

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.report.recommendation import Question, Recommendation
from maxk_lab.report.tables import grouped
from maxk_lab.studies.gradient.row.ranking import ranked
from maxk_lab.studies.gradient.rows import GradientRows
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.plan.plan import Plan

# The axes by which the cells of a question are selected.
_AXES = ("estimator", "n", "k", "stage")


def ask(
    plan: Plan, *, budget: int, objective: str | None, stage: int | None, biased: bool
) -> Question:
    """The question as the sweep can answer it, about its one objective and last stage by default.

    Raises `LabError` where it cannot.
    """
    cells = [cell for cell in plan.cells if cell.study == "gradient"]
    name, at = _objective(cells, objective), _stage(plan, stage)
    met = [cell for cell in cells if cell.stage == at and _objective_of(cell) == name]
    fitting = [cell for cell in met if budget % cell.n == 0]
    if not fitting:
        sizes = ", ".join(map(str, sorted({cell.n for cell in met})))
        raise LabError(
            f"--budget {budget} is divided by no n of the grid ({sizes}); "
            "for others: --set gradient.grid.n=[...]"
        )
    values = [
        f"{axis}={value}"
        for axis in _AXES
        for value in dict.fromkeys(getattr(cell, axis) for cell in fitting)
    ]
    return Question(name, budget, at, biased, ",".join(["study=gradient", *values]))


def answers(found: GradientRows, question: Question) -> list[Recommendation]:
    """A recommendation for each environment and setting."""
    rows = [row for row in found.rows if row.key.stage == question.stage]
    places = grouped(rows, lambda row: (row.key.environment, row.key.setting))
    return [
        ranked(
            members,
            objective_name=question.objective,
            budget=question.budget,
            biased=question.biased,
        )
        for members in places.values()
    ]


def _objective_of(cell: Cell) -> str:
    return Method.parse(cell.estimator, k=cell.k).objective.name


def _objective(cells: list[Cell], given: str | None) -> str:
    known = list(dict.fromkeys(map(_objective_of, cells)))
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


def _stage(plan: Plan, given: int | None) -> int:
    stages: tuple[int, ...] = plan.spec.studies["gradient"].stages
    if given is None:
        return stages[-1]
    if given not in stages:
        raise LabError(f"--stage {given} is not in the sweep: it has {', '.join(map(str, stages))}")
    return given
