"""How far a run is, how long the rest takes, and which driver measures which unit now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal, get_args

from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan, make_plan

if TYPE_CHECKING:
    from maxk_lab.execution.leases import DriverInfo

State = Literal["done", "failed", "missing"]
CellState = Literal["done", "failed", "running", "waiting"]


def statuses(plan: Plan, run: RunDirectory) -> dict[str, State]:
    """Return the state of every cell by its id, in the order of the plan."""
    heads = run.heads
    return {
        cell.id: heads[cell.id].status if cell.id in heads else "missing" for cell in plan.cells
    }


def to_measure(states: Mapping[str, State], *, force: bool, retry_failed: bool) -> set[str]:
    """Return the cells of these states that are measured: failed ones are reused, too."""
    keep = {"done"} if retry_failed else {"done", "failed"}
    return {cell_id for cell_id, state in states.items() if force or state not in keep}


def seconds_left(plan: Plan, run: RunDirectory, states: Mapping[str, State]) -> float | None:
    """Return the seconds that one worker needs for the units with a missing cell.

    Each unit counts with the mean time of the measured units; None if no unit is measured.
    """
    heads = run.heads.values()
    seconds = {head.id: head.seconds for head in heads if head.status == "done"}
    times = [[seconds[cell.id] for cell in unit.cells if cell.id in seconds] for unit in plan.units]
    measured = [sum(cells) for cells in times if cells]
    missing = sum(any(states[cell.id] == "missing" for cell in unit.cells) for unit in plan.units)
    return missing * fmean(measured) if measured else None


@dataclass(frozen=True)
class RunningUnit:
    """A unit that is being measured: by which process, and how many of its cells are left."""

    label: str
    driver: str
    cells: int


@dataclass(frozen=True)
class Status:
    """The state of a run.

    Of its `cells` those count as `running` whose unit a process has leased, as `waiting` those that
    nobody has. `drivers` are the processes at work in the run.
    """

    cells: Mapping[CellState, int]
    drivers: tuple[DriverInfo, ...]
    running: tuple[RunningUnit, ...]


def status_of(run: RunDirectory) -> Status:
    """Return the status of a run, as its files show it.

    A process on another machine counts as alive until its last sign of life is half a minute old.
    Raises `LabError` for a run without a sound spec.
    """
    plan = make_plan(run.spec())
    # A plan has no use for the libraries of leases, which take a tenth of a second to import.
    from maxk_lab.execution.leases import drivers

    at_work = drivers(run.root)
    leased = {key: one for one in at_work for key in one.tasks}
    states = statuses(plan, run)
    cells: dict[CellState, int] = dict.fromkeys(get_args(CellState), 0)
    running = []
    for unit in plan.units:
        of_unit = Counter(states[cell.id] for cell in unit.cells)
        cells["done"] += of_unit["done"]
        cells["failed"] += of_unit["failed"]
        left = of_unit["missing"]
        if left and unit.id in leased:
            cells["running"] += left
            running.append(RunningUnit(unit.label, str(leased[unit.id]), left))
        elif left:
            cells["waiting"] += left
    return Status(cells=cells, drivers=tuple(at_work), running=tuple(running))
