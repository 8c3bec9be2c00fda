"""The status of a run: the cells by their state, the drivers, and the units that they measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.todo import Run
from maxk_lab.planning.plan import make_plan

if TYPE_CHECKING:
    from maxk_lab.execution.leases import DriverInfo

CellState = Literal["done", "failed", "running", "waiting"]


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
    states = Run(plan, run).states()
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
