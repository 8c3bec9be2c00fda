"""The recommendation of a gradient study: rows ranked for a budget of rollouts.

A step of B rollouts has B/n groups of different instances. So the variance of its mean estimate is
(n/B)(V_n + V_between) = (n/B)(E‖ĝ‖² − ‖∇J‖²), with ∇J the mean gradient over instances. Unbiased
rows of one objective share ∇J, and are ranked by this variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.planning.cells import Cell
from maxk_lab.planning.plan import Plan
from maxk_lab.reports.recommendation import Candidate, Question, Recommendation
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.statistics.estimates import Sample, Tangent, stratified_mean
from maxk_lab.statistics.estimates import ratio as step_ratio
from maxk_lab.statistics.families import Family
from maxk_lab.statistics.intervals import Interval, interval, too_few_for, undefined
from maxk_lab.statistics.measures import FIXED
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.contests import contests, ratio, simplest
from maxk_lab.studies.gradient.row import FOUND_BIASED, GradientRow, same_mean

# The axes by which the cells of a question are selected.
_AXES = ("estimator", "n", "k", "stage")
_LEVEL = 0.95


def ask(
    plan: Plan, *, budget: int, objective: str | None, stage: int | None, n: int | None = None
) -> Question:
    """Return the question for a sweep; defaults are its one objective and its last stage.

    With `n` only baselines are ranked. Raises `LabError` if the sweep cannot answer.
    """
    cells = [cell for cell in plan.cells if cell.study == "gradient"]
    name, at = _objective(cells, objective), _stage(plan, stage)
    cells = [cell for cell in cells if cell.stage == at and _objective_of(cell) == name]
    sizes = ", ".join(map(str, sorted({cell.n for cell in cells})))
    if n is not None and all(cell.n != n for cell in cells):
        raise LabError(f"--n {n} is not in the sweep's gradient grid: it has {sizes}")
    fitting = [cell for cell in cells if budget % cell.n == 0 and n in (None, cell.n)]
    if not fitting:
        raise LabError(
            f"no n of the grid ({sizes}) divides --budget {budget}; "
            "name other n in gradient.grid.n of the sweep"
        )
    values = [
        f"{axis}={value}"
        for axis in _AXES
        for value in dict.fromkeys(getattr(cell, axis) for cell in fitting)
    ]
    return Question(name, budget, at, ",".join(["study=gradient", *values]), n)


def answers(pooled: Pooled[GradientRow], question: Question) -> list[Recommendation]:
    """A recommendation for each environment and setting; with forced starts also for each n."""
    rows = [
        row
        for row in pooled.rows
        if row.key.stage == question.stage
        and row.key.objective == question.objective
        and question.n in (None, row.key.n)
    ]
    places = grouped(rows, lambda row: row.key.gradient)
    return [ranked(members, question.budget) for members in places.values()]


def ranked(rows: Sequence[GradientRow], budget: int, n: int | None = None) -> Recommendation:
    """Return the ranking of rows of one environment, setting and stage that estimate one gradient.

    Candidates are unbiased rows without fitted baselines, which a training cannot use. The
    comparisons with the best are corrected together (Bonferroni). Without V_between in the records,
    rows of one `n` are ranked by V_n. Raises `LabError` if such records hold several n.
    """
    rows = [row for row in rows if n in (None, row.key.n)]
    left_out = [(row, reason) for row in rows if (reason := _unfit(row, budget))]
    refused = {row.key for row, _ in left_out}
    chosen = [row for row in rows if row.key not in refused]
    no_between = next((row.units.no_between for row in chosen if row.units), "")
    if no_between and len(sizes := sorted({row.key.n for row in chosen})) > 1:
        listed = " or ".join(map(str, sizes))
        raise LabError(
            f"which n is best needs V_between, and the records lack it ({no_between}). "
            f"Name one with --n, {listed}, to rank its baselines, or measure the sweep again"
        )
    # The catalogue orders equal rows.
    chosen.sort(key=lambda row: (row.key.method.catalogue_order, row.key.n))
    chosen.sort(key=lambda row: _step_variance(row, no_between))
    candidates = [_candidate(row, budget, no_between) for row in chosen]
    level = Family("recommend", len(candidates) - 1).level
    candidates[1:] = [_compared(each, candidates[0], level, no_between) for each in candidates[1:]]
    use = _to_use(candidates, rows) if candidates else None
    name = rows[0].key.objective
    return Recommendation(name, budget, tuple(candidates), tuple(left_out), use, no_between)


def _to_use(candidates: Sequence[Candidate], rows: Sequence[GradientRow]) -> Candidate:
    """Return the simplest candidate close to the best at its n, as in a report."""
    best = candidates[0]
    same_size = [each for each in contests(rows) if each.rows[0].key.group == best.row.key.group]
    keys = {row.key for contest in same_size for row in contest.close}
    close = [candidate for candidate in candidates if candidate.row.key in keys]
    chosen = simplest([candidate.row for candidate in close]) if best in close else best.row
    return next(candidate for candidate in candidates if candidate.row is chosen)


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
    variance = row.intervals["variance"]
    return "" if variance.defined else variance.reason or "its variance has no interval"


def moments(*units: Units) -> Sample:
    """Return E‖ĝ‖² of each row, then pseudo-values of ‖∇J‖²: a sample of new instances."""
    squares, _ = units[0].between_instances()
    values = np.stack([*(each.m2 for each in units), squares])
    return Sample(values, np.full((*values.shape, 2), np.nan), units[0].stratum)


def _step_variance(row: GradientRow, no_between: str) -> float:
    """Return B times the variance of a step."""
    if no_between:
        return float(row.intervals["variance"].value)
    assert row.units is not None
    sample = moments(row.units)
    m2, square = stratified_mean(sample.values, sample.stratum)
    return float(row.key.n * (m2 - square))


def step_quotient(
    sample: Sample, top: Sequence[float], bottom: Sequence[float], level: float
) -> Interval:
    """Return the quotient of two nonnegative combinations of moments, about new instances.

    Undefined, with a reason, if no quotient above 0 is rejected.
    """
    means = stratified_mean(sample.values, sample.stratum)
    slopes = [np.array(each) for each in (top, bottom)]
    over, under = (Tangent(float(each @ means), each) for each in slopes)
    if reason := too_few_for(sample, under):
        return undefined(level, reason, over.value / under.value)
    answer = step_ratio(sample.new, over, under, level).mapped(lambda value: max(value, 0.0))
    if (answer.low, answer.high) == (0.0, math.inf):
        reason = f"{len(sample.stratum)} instances reject no value: the interval is 0 to ∞"
        return undefined(level, reason, answer.value)
    return answer


def _candidate(row: GradientRow, budget: int, no_between: str) -> Candidate:
    assert row.units is not None
    groups = budget // row.key.n
    if no_between:
        snr = undefined(_LEVEL, no_between)
    else:
        snr = step_quotient(moments(row.units), (0.0, groups), (1.0, -1.0), _LEVEL)
    return Candidate(row, groups, snr)


def _compared(candidate: Candidate, best: Candidate, level: float, no_between: str) -> Candidate:
    """Return the candidate with the variance of its step over that of the best."""
    first, second = candidate.row, best.row
    assert first.units is not None
    assert second.units is not None
    if no_between:
        over = ratio(first, second, level, alike=same_mean(first, second))
        if not over.defined:
            over = _unpaired(first.units, second.units, level, over.reason)
    else:
        sizes = first.key.n, second.key.n
        sample = moments(first.units, second.units)
        over = step_quotient(sample, (sizes[0], 0.0, -sizes[0]), (0.0, sizes[1], -sizes[1]), level)
    # At one n the report's comparison counts, too: it is stricter and corrected for all settings.
    least = first.over_least if first.key.group == second.key.group else None
    tied = least is not None and least.line.verdict == "tied" and not least.line.fixed
    return replace(candidate, over_best=over, tied=tied)


def _unpaired(first: Units, second: Units, level: float, reason: str) -> Interval:
    """Return the ratio of two variances from two intervals that hold together at `level`.

    By Bonferroni it holds for any dependence. Both intervals are about new instances, or about
    fixed instances if too few carry either mean.
    """
    each = 1 - (1 - level) / 2
    top, bottom = (interval(units, "variance", level=each) for units in (first, second))
    if top.question != bottom.question:
        top, bottom = (
            interval(units, "variance", level=each, question=FIXED) for units in (first, second)
        )
    if not (top.defined and bottom.defined and bottom.low > 0):
        return undefined(level, reason)
    low, high = max(0.0, top.low) / bottom.high, top.high / bottom.low
    return Interval(top.value / bottom.value, low, high, level, f"unpaired: {reason}", top.question)


def _objective_of(cell: Cell) -> str:
    return Method.parse(cell.estimator, k=cell.k).objective_at(cell.n).name


def _objective(cells: list[Cell], objective: str | None) -> str:
    names = list(dict.fromkeys(map(_objective_of, cells)))
    listed = ", ".join(names)
    if not names:
        raise LabError("a recommendation needs a gradient study, and this sweep has none")
    if objective is None and len(names) > 1:
        raise LabError(f"--objective is missing: the sweep estimates the gradients of {listed}")
    name = names[0] if objective is None else Objective.parse(objective).name
    if name not in names:
        raise LabError(f"--objective {name} is not in the sweep's gradient grid: it has {listed}")
    return name


def _stage(plan: Plan, stage: int | None) -> int:
    stages: tuple[int, ...] = plan.spec.studies["gradient"].stages
    if stage is not None and stage not in stages:
        raise LabError(f"--stage {stage} is not in the sweep: it has {', '.join(map(str, stages))}")
    return stages[-1] if stage is None else stage
