"""The status of a run: what is done, what is being measured and by whom, and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.backends.backend import JobState, queues
from maxk_lab.sweeps.run.leases import DriverInfo, drivers
from maxk_lab.sweeps.run.progress import statuses
from maxk_lab.sweeps.run.records import RunDirectory

CellState = Literal["done", "failed", "running", "queued", "waiting"]
CELL_STATES: tuple[CellState, ...] = ("done", "failed", "running", "queued", "waiting")


@dataclass(frozen=True)
class RunningUnit:
    """A unit that is being measured: by which process, and how many of its cells are left."""

    label: str
    driver: str
    cells: int


@dataclass(frozen=True)
class Status:
    """The state of a run.

    Of its `cells` those count as `running` whose unit a process has leased, as `queued` those of a
    job that has not begun, and as `waiting` those that nobody has. `drivers` are the processes at
    work in the run, jobs that run among them. `trouble` says why it is not known what jobs do.
    """

    cells: Mapping[CellState, int]
    drivers: tuple[DriverInfo, ...]
    running: tuple[RunningUnit, ...]
    jobs: tuple[JobState, ...]
    trouble: str = ""


def status_of(run: RunDirectory) -> Status:
    """Return the status of a run, as far as its files and the queues of its jobs tell.

    Of processes on other machines it is not known at once whether they still live. Raises
    `LabError` for a run without a sound spec.
    """
    plan = make_plan(run.spec())
    asked = [queue.jobs(run) for queue in queues()]
    jobs = tuple(job for found in asked for job in found.found)
    with_job = {unit for job in jobs if job.may_run for unit in job.units}
    at_work = drivers(run.root)
    leased = {key: one for one in at_work for key in one.tasks}
    states = statuses(plan, run)
    cells: dict[CellState, int] = dict.fromkeys(CELL_STATES, 0)
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
            cells["queued" if unit.id in with_job else "waiting"] += left
    return Status(
        cells=cells,
        drivers=tuple(at_work),
        running=tuple(running),
        jobs=jobs,
        trouble="; ".join(found.trouble for found in asked if found.trouble),
    )
