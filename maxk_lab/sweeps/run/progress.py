"""The progress of a run and the time that the rest takes, from its records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean
from typing import Literal

from maxk_lab.sweeps.plan.cells import Unit
from maxk_lab.sweeps.plan.needs import guessed_seconds
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.store import Head

State = Literal["done", "failed", "missing"]
Kind = tuple[str, int | None]


def statuses(plan: Plan, run: RunDirectory) -> dict[str, State]:
    """Return the state of every cell by its id, in the order of the plan."""
    return states_of(plan, run.heads)


def states_of(plan: Plan, heads: Mapping[str, Head]) -> dict[str, State]:
    """Return the same by the heads of a run's records."""
    return {
        cell.id: heads[cell.id].status if cell.id in heads else "missing" for cell in plan.cells
    }


def to_measure(states: Mapping[str, State], *, force: bool, retry_failed: bool) -> set[str]:
    """Return the cells of these states that are measured: failed ones are reused, too."""
    keep = {"done"} if retry_failed else {"done", "failed"}
    return {cell_id for cell_id, state in states.items() if force or state not in keep}


def estimate_seconds(plan: Plan, run: RunDirectory) -> float | None:
    """Return the seconds that one worker needs for the missing cells; None where none was timed.

    They are those of `seconds_of_units`.
    """
    times, measured = seconds_of_units(plan, run, statuses(plan, run))
    return sum(times.values()) if measured else None


def seconds_of_units(
    plan: Plan, run: RunDirectory, state: Mapping[str, str]
) -> tuple[dict[str, float], bool]:
    """Return the seconds of every unit with a missing cell, and whether any unit has been timed.

    Cells of a unit share the work that dominates: it counts as a whole one, at the mean time of the
    units of its study and stage, or of all where these have none. Where nothing has been timed, it
    is a guess from its work and its cells.
    """
    seconds = {head.id: head.seconds for head in run.heads.values() if head.status == "done"}
    spent: dict[Kind, list[float]] = defaultdict(list)
    missing: list[tuple[Unit, int]] = []
    for unit in plan.units:
        if times := [seconds[cell.id] for cell in unit.cells if cell.id in seconds]:
            spent[unit.study, unit.stage].append(sum(times))
        if count := sum(state[cell.id] == "missing" for cell in unit.cells):
            missing.append((unit, count))
    if not spent:
        guesses = (guessed_seconds(sum(one.work().values()), count) for one, count in missing)
        return dict(zip((one.id for one, _ in missing), guesses, strict=True)), False
    means = {kind: fmean(times) for kind, times in spent.items()}
    overall = fmean(value for values in spent.values() for value in values)
    return {one.id: means.get((one.study, one.stage), overall) for one, _ in missing}, True
