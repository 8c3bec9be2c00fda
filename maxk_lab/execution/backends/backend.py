"""The base class of a backend: it runs the units that it is given, and tells what becomes of them.

What is measured, by whom, and what is kept is the driver's (`execution/drive.py`). A backend only
has a unit measured somewhere; on every node that is done by the processes of
`supervisor/local.py`, so that limits and failures mean the same everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

from maxk_lab.catalogue import load

if TYPE_CHECKING:
    from maxk_lab.execution.records import RunDirectory
    from maxk_lab.execution.store import Head
    from maxk_lab.sweep_file.execution import Execution

# The class of each backend, which is imported when a run uses it.
_CLASSES = {
    "local": "maxk_lab.execution.supervisor.local:LocalBackend",
    "ray": "maxk_lab.execution.backends.ray.backend:RayBackend",
}


OnEvent = Callable[[str, dict[str, Any]], None]
# Tells an event of a run by its name, with its payload by keywords.
Tell = Callable[..., None]


@dataclass(frozen=True)
class Task:
    """A unit to measure, as plain data: all that the process needs to know that measures it."""

    # The id of the unit, also where not all of its cells are to be measured.
    key: str
    label: str
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

    The last three end a task: no event of it follows.
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
    def leave(self, seconds: float) -> None:
        """Have every task left where it can go on later, and told as `left`, if not finished.

        Whoever takes longer than this is ended.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End what is running, within seconds."""
        del error  # there may be nothing to end


def load_backend(execution: Execution) -> type[Backend]:
    """Return the class of the backend that a sweep names. Raises `LabError` where there is none."""
    name = execution.backend
    return cast(type[Backend], load(_CLASSES[name], f"the backend {name}, "))
