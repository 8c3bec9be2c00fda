"""Tasks: units as plain data for a worker, and the events of their measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from maxk_lab.execution.store import Head

# Receives the name and the payload of each event of a run.
OnEvent = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class Task:
    """A unit to measure, as plain data for a worker."""

    # The id of the unit, also if only some of its cells are measured.
    key: str
    label: str
    unit: dict[str, Any]
    # In the order in which the study measures them.
    cells: tuple[dict[str, Any], ...]
    # The folder of the run.
    root: str
    # The `module:function` that measures the unit.
    measure: str
    provenance: dict[str, Any]
    # Whether the unit can use a CUDA device.
    on_device: bool = False
    # One more than the largest attempt of its cells before.
    attempt: int = 1

    def unmeasured(self, heads: Mapping[str, Head]) -> Task:
        """Return the task without the cells that have a record since the task was made."""
        cells = (
            cell
            for cell in self.cells
            if (head := heads.get(cell["id"])) is None or head.attempt < self.attempt
        )
        return replace(self, cells=tuple(cells))


class Modules(NamedTuple):
    """The modules that a sweep names: those of the lab, and those of the user and of plugins."""

    lab: tuple[str, ...] = ()
    user: tuple[str, ...] = ()


class Event(NamedTuple):
    """An event of a task; `key` is the key of the task.

    | name            | payload                                                              |
    |-----------------|----------------------------------------------------------------------|
    | `unit_started`  | `cell_ids`, and `pid` or `host` of the worker                        |
    | `progress`      | `phase`, and `step`/`steps` or `done`/`of`                           |
    | `unit_finished` | empty: every cell has a record, or no worker took the task           |
    | `lost`          | `why`: the worker died, took too long or too much memory             |
    | `left`          | empty: the task stopped between two steps, after `leave`             |

    The last three end a task.
    """

    key: str
    name: str
    payload: dict[str, Any]


class Backend(Protocol):
    """A place where tasks are measured; at the end of its `with` block every worker is gone."""

    @property
    def room(self) -> int:
        """The number of tasks that can begin now."""

    def begin(self, task: Task) -> None:
        """Begin a task. Raises `RefusedError` if the backend cannot."""

    def events(self, seconds: float, waiting: int) -> Iterable[Event]:
        """Yield the events since the last call; wait at most `seconds` for the first.

        `waiting` tasks have not begun. Raises `RefusedError`, such as `StorageError`, if the run
        cannot go on.
        """

    def leave(self, seconds: float) -> None:
        """Stop every task at a checkpoint, and kill workers that take longer than `seconds`."""

    def __enter__(self) -> Self:
        """Start the backend."""

    def __exit__(self, *error: object) -> None:
        """End every worker."""
