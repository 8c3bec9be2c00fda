"""A task that workers of this machine are at: what is left of it, and how often it was lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from maxk_lab.sweeps.run.workers.worker import Task


@dataclass
class OpenTask:
    """A task that is not done: its cells without a record, by their ids.

    `lost` counts the workers that it lost since its last record. `shared` says that what its cells
    share, if anything, has been done before; a task that has one cell for fear that it ends the
    worker is `alone`.
    """

    task: Task
    cells: dict[str, dict[str, Any]]
    shared: bool
    lost: int = 0
    alone: bool = False

    @classmethod
    def of(cls, task: Task) -> OpenTask:
        """Return a task of which nothing has been done."""
        return cls(task, {cell["id"]: cell for cell in task.cells}, shared=not task.shares)

    @property
    def rest(self) -> Task:
        """The task without the cells that have a record."""
        return replace(self.task, cells=tuple(self.cells.values()))

    def recorded(self, cell_id: Any) -> None:
        """Take note of a record. Raises `KeyError` for that of another cell."""
        del self.cells[cell_id]
        self.lost, self.shared = 0, True

    def cut(self) -> list[OpenTask]:
        """Return its cells as tasks of their own."""
        return [
            replace(self, cells={cell_id: cell}, alone=True) for cell_id, cell in self.cells.items()
        ]
