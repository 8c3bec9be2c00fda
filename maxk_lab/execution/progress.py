"""The status of a run: the cells by their state, the drivers, and the units that they measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from maxk_lab.execution.leases import DriverInfo, drivers
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.todo import Run
from maxk_lab.planning.plan import make_plan

CellState = Literal["done", "failed", "running", "waiting"]


@dataclass(frozen=True)
class RunningUnit:
    """A unit that is being measured: by which process, and how many of its cells are left."""

    label: str
    driver: str
    cells: int


@dataclass(frozen=True)
class Status:
    """The number of `cells` of a run by state, its `drivers`, and the units that they measure.

    A cell without a record is `running` if a driver has leased its unit, else `waiting`.
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
    at_work = drivers(run.root)
    holders = {key: info for info in at_work for key in info.tasks}
    states = Run(plan, run).states()
    cells: dict[CellState, int] = dict.fromkeys(get_args(CellState), 0)
    running = []
    for unit in plan.units:
        counts = Counter(states[cell.id] for cell in unit.cells)
        cells["done"] += counts["done"]
        cells["failed"] += counts["failed"]
        leased = unit.id in holders
        cells["running" if leased else "waiting"] += counts["missing"]
        if leased and counts["missing"]:
            running.append(RunningUnit(unit.label, str(holders[unit.id]), counts["missing"]))
    return Status(cells=cells, drivers=tuple(at_work), running=tuple(running))
