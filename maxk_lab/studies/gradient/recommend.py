"""The recommendation of a gradient study: rows ranked for a budget of rollouts.

They are ranked by their SNR per rollout. Unbiased rows of one objective have one mean, so the one
of less variance per rollout has the higher SNR: they are compared by that, and no weak signal is
divided by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.planning.cells import Cell
from maxk_lab.planning.plan import Plan
from maxk_lab.reports.recommendation import Candidate, Question, Recommendation
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.statistics.families import Family
from maxk_lab.statistics.intervals import Interval, interval, undefined
from maxk_lab.statistics.measures import FIXED
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.contests import contests, ratio, simplest
from maxk_lab.studies.gradient.row import FOUND_BIASED, GradientRow, same_mean

# The axes by which the cells of a question are selected.
_AXES = ("estimator", "n", "k", "stage")


def ask(plan: Plan, *, budget: int, objective: str | None, stage: int | None) -> Question:
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
    return Question(name, budget, at, ",".join(["study=gradient", *values]))


def answers(found: Pooled[GradientRow], question: Question) -> list[Recommendation]:
    """A recommendation for each environment and setting; with forced starts for each n, too."""
    rows = [
        row
        for row in found.rows
        if row.key.stage == question.stage and row.key.method.objective.name == question.objective
    ]
    places = grouped(rows, lambda row: row.key.gradient)
    return [ranked(members, question.budget) for members in places.values()]


def ranked(rows: Sequence[GradientRow], budget: int) -> Recommendation:
    """The ranking of rows of one environment, setting and stage that estimate one gradient.

    With B rollouts a step, n of each of B/n groups, the step's estimate has B/n times the SNR of
    one group: the SNR divided by n is compared. Only unbiased rows are candidates, and no fitted
    baselines, which no training can use. The comparisons with the best are
    corrected together (Bonferroni).
    """
    left_out = [(row, reason) for row in rows if (reason := _unfit(row, budget))]
    refused = {row.key for row, _ in left_out}
    chosen = [row for row in rows if row.key not in refused]
    # Equal rows have no order of their own.
    chosen.sort(key=lambda row: (row.key.method.catalogue_order, row.key.n))
    chosen.sort(key=lambda row: row.key.n * row.intervals["variance"].value)
    found = [_candidate(row, budget) for row in chosen]
    corrected = Family("recommend", len(found) - 1).level
    found[1:] = [_compared(one, found[0], corrected) for one in found[1:]]
    use = _to_use(found, rows) if found else None
    name = rows[0].key.method.objective.name
    return Recommendation(name, budget, tuple(found), tuple(left_out), use)


def _to_use(found: Sequence[Candidate], rows: Sequence[GradientRow]) -> Candidate:
    """The simplest of those that tie with the best at its n, as a report has it."""
    best = found[0]
    contest = [one for one in contests(rows) if one.rows[0].key.group == best.row.key.group]
    ties = {row.key for one in contest for row in one.tied}
    able = [one for one in found if one.row.key in ties]
    chosen = simplest([one.row for one in able]) if best in able else best.row
    return next(one for one in found if one.row is chosen)


def _unfit(row: GradientRow, budget: int) -> str:
    if row.key.method.fit is not None:
        return "fitted to gradients: no training can use it"
    if not row.catalogued_unbiased:
        return "derived biased"
    if row.bias.verdict in FOUND_BIASED:
        scale = row.bias.verdict == "scale bias"
        return "found to have a scale bias" if scale else "found biased"
    if budget % row.key.n:
        return f"n = {row.key.n} does not divide {budget}"
    if row.units is None:
        return row.bias.reason or "not measured"
    snr = row.intervals["snr"]
    if not snr.defined:
        return snr.reason or "its SNR has no interval"
    if not snr.value > 0:
        return "its signal is not significantly above zero"
    return ""


def _candidate(row: GradientRow, budget: int) -> Candidate:
    assert row.units is not None
    groups = budget // row.key.n
    one = interval(row.units, "snr", level=0.95)
    return Candidate(row, groups, one.mapped(lambda snr: groups * snr))


def _compared(one: Candidate, best: Candidate, level: float) -> Candidate:
    """The candidate with its ratio to the best: paired, or from both intervals where it is not."""
    assert one.row.units is not None
    assert best.row.units is not None
    alike = same_mean(one.row, best.row)
    found = ratio(one.row, best.row, level, "snr", alike=alike)
    if not found.defined:
        pair, measure = (one.row.units, best.row.units), "snr"
        if alike:
            pair, measure = (best.row.units, one.row.units), "variance"
        found = _unpaired(*pair, measure, level, found.reason)
    share = one.groups / best.groups
    # At one n a report compares them, too, more strictly, and corrected for all of its settings.
    over = one.row.over_least if one.row.key.group == best.row.key.group else None
    tied = over is not None and over.line.verdict == "tied" and not over.line.fixed
    return replace(one, against_best=found.mapped(lambda value: share * value), tied=tied)


def _unpaired(one: Units, other: Units, measure: str, level: float, why: str) -> Interval:
    """The ratio from two intervals that hold together at `level`: wide, and never wrong.

    Bonferroni, so whatever their dependence. Both are about the same: instances like these, or
    these where for either too few carry the mean.
    """
    each = 1 - (1 - level) / 2
    top, bottom = (interval(units, measure, level=each) for units in (one, other))
    if top.question != bottom.question:
        top, bottom = (
            interval(units, measure, level=each, question=FIXED) for units in (one, other)
        )
    if not (top.defined and bottom.defined and bottom.low > 0):
        return undefined(level, why)
    low, high = max(0.0, top.low) / bottom.high, top.high / bottom.low
    return Interval(top.value / bottom.value, low, high, level, f"unpaired: {why}", top.question)


def _objective_of(cell: Cell) -> str:
    return Method.parse(cell.estimator, k=cell.k).objective.name


def _objective(cells: list[Cell], given: str | None) -> str:
    names = list(dict.fromkeys(map(_objective_of, cells)))
    listed = ", ".join(names)
    if not names:
        raise LabError("a recommendation needs a gradient study, and this sweep has none")
    if given is None and len(names) > 1:
        raise LabError(f"--objective is missing: the sweep estimates the gradients of {listed}")
    name = names[0] if given is None else Objective.parse(given).name
    if name not in names:
        raise LabError(f"--objective {name} is not in the sweep's gradient grid: it has {listed}")
    return name


def _stage(plan: Plan, given: int | None) -> int:
    stages: tuple[int, ...] = plan.spec.studies["gradient"].stages
    if given is not None and given not in stages:
        raise LabError(f"--stage {given} is not in the sweep: it has {', '.join(map(str, stages))}")
    return stages[-1] if given is None else given
