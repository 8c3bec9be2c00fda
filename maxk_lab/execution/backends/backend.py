"""The base class of a backend: it runs the units that it is given, and tells what becomes of them.

That of its jobs, too, if they go on without the process that submitted them.

What is measured, by whom, and what is kept is the driver's (`execution/drive.py`). A backend only
has a unit measured somewhere; on every node that is done by the processes of
`supervisor/local.py`, so that limits and failures mean the same everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, cast

from maxk_lab.catalogue import imported, load
from maxk_lab.errors import LabError
from maxk_lab.sweep_file.backends import BACKENDS

if TYPE_CHECKING:
    from maxk_lab.execution.records import RunDirectory
    from maxk_lab.execution.store import Head
    from maxk_lab.sweep_file.execution import Execution


OnEvent = Callable[[str, dict[str, Any]], None]
# Tells an event of a run by its name, with its payload by keywords.
Tell = Callable[..., None]
# Seconds that units have to be left in, where nobody says how many.
LEAVE_SECONDS = 60.0


@dataclass(frozen=True)
class Task:
    """A unit to measure, as plain data: all that the process needs to know that measures it."""

    # The id of the unit, also where not all of its cells are to be measured.
    key: str
    label: str
    # Its work, in units of a trajectory's decision.
    work: float
    # Whether the cells rest on work that is done once for all of them.
    shares: bool
    unit: dict[str, Any]
    cells: tuple[dict[str, Any], ...]
    root: str
    measure: str
    provenance: dict[str, Any]
    # The modules that it needs: those of the lab, and those of the user and of plugins.
    lab: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    # Whether it can use a CUDA device.
    on_device: bool = False
    # One more than any of its cells has been measured before.
    attempt: int = 1

    def unmeasured(self, heads: Mapping[str, Head]) -> Task:
        """Return the task without the cells that somebody has measured since it was planned."""
        cells = (
            cell
            for cell in self.cells
            if (head := heads.get(cell["id"])) is None or head.attempt < self.attempt
        )
        return replace(self, cells=tuple(cells))


class Event(NamedTuple):
    """An event of a task, which its key names.

    | name             | payload                                                                  |
    |------------------|--------------------------------------------------------------------------|
    | `unit_started`   | `cell_ids`; `pid`, or whatever else names who measures it                |
    | `progress`       | `phase`, and `step`/`steps` or `done`/`of`                               |
    | `record`         | `line`: the record of a cell, where the driver has to append it          |
    | `cache_file`     | `name`, `data`: a file for the cache of the run, where it has to travel  |
    | `unit_finished`  | nothing: every cell of the task has a record                             |
    | `lost`           | `why`: whoever had the task is gone, and it may be submitted again;      |
    |                  | `ending` of a worker process; `may_pass`: false where it took too long   |
    | `left`           | nothing: the task was left between two steps, as `leave` asked           |

    The last three end a task: it is told nothing more of. With an empty key, of all tasks together,
    `jobs` tells that jobs wait in a queue: how many for which reason (`queued`), and how many are
    `running`.
    """

    key: str
    name: str
    payload: dict[str, Any]


class Backend(ABC):
    """A place where units are measured; a context manager that frees what it took at its end.

    It is made for a run, with the execution block of its spec, the number of `--jobs`, and all
    tasks that there are to submit.
    """

    # Whether units are measured on this machine, which must have what they need.
    here: ClassVar[bool] = False
    # Whether the units are leased where they are measured. Else the driver leases each one before
    # it submits it, and gives it free when it has ended; those that lease themselves write records,
    # too, and a task is finished when all of its cells have one.
    leases_itself: ClassVar[bool] = False

    @abstractmethod
    def __init__(
        self, run: RunDirectory, execution: Execution, jobs: int, tasks: Sequence[Task]
    ) -> None: ...

    @property
    @abstractmethod
    def room(self) -> int:
        """The number of tasks that it would take now."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Take a task. Raises `RefusedError` where it cannot take any."""

    @abstractmethod
    def events(self, seconds: float) -> Iterable[Event]:
        """Yield what has happened since the last call; wait for something at most so long.

        Raises `RefusedError`, such as `StorageError`, where nothing can go on.
        """

    @abstractmethod
    def leave(self, seconds: float = LEAVE_SECONDS) -> None:
        """Have every task left where it can go on later, and told as `left`, if not finished.

        Whoever takes longer than this is ended.
        """

    def detach(self) -> None:
        """Let the tasks go on without this process, which ends now.

        Raises `LabError` where they would end with it.
        """
        raise LabError("units end with the run that has them here; backend slurm can detach")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End what is running, within seconds, unless it may go on without this process."""
        del error  # there may be nothing to end


def load_backend(execution: Execution) -> type[Backend]:
    """Return the class of the backend that a sweep names. Raises `LabError` where there is none."""
    row = BACKENDS.get(execution.backend)
    return cast(type[Backend], load(row.implementation, f"the backend {row.name}, "))


State = Literal["queued", "running", "finished", "ended", "not known"]


@dataclass(frozen=True)
class Job:
    """A job, which has some units by their ids: the cells of each with its attempts at them.

    One that is `finished` has done all its work, one that has `ended` has not and will not run
    again; `reason` says why, or what a queued one waits for. `told` of its cells have a record.
    """

    id: str
    log: str
    units: Mapping[str, Mapping[str, int]]
    state: State = "not known"
    host: str = ""
    reason: str = ""
    told: int = 0

    @property
    def cells(self) -> int:
        """How many it has to measure."""
        return sum(map(len, self.units.values()))

    @property
    def may_run(self) -> bool:
        """Whether it runs, or may do so later."""
        return self.state in ("queued", "running", "not known")

    def measures(self, task: Task) -> bool:
        """Whether it measures every cell of a task, by an attempt that counts for the task."""
        attempts = self.units.get(task.key, {})
        return all(attempts.get(cell["id"], 0) >= task.attempt for cell in task.cells)

    def with_records(self, heads: Mapping[str, Head]) -> Job:
        """Return the job with what it has measured."""
        attempts = {cell: least for cells in self.units.values() for cell, least in cells.items()}
        told = sum(cell in heads and heads[cell].attempt >= of for cell, of in attempts.items())
        if told < len(attempts):
            return replace(self, told=told)
        return replace(self, told=told, state="finished", reason="")


@dataclass(frozen=True)
class Jobs:
    """The jobs of a run; `trouble` says why it is not known what they are doing, if it is not."""

    found: tuple[Job, ...]
    trouble: str = ""


def queues() -> list[Any]:
    """Return the modules of the backends whose jobs outlive their driver.

    `jobs(run)` returns the `Jobs` of a run, and `cancel(run)` ends them and returns their ids.
    """
    return [imported(row.queue) for row in BACKENDS if row.queue]


def any_may_run(run: RunDirectory) -> bool:
    """Return whether a run has jobs that run or may do so later, or it is not known."""
    return any(job.may_run for queue in queues() for job in queue.jobs(run).found)
