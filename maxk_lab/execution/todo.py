"""A run: the plan of a sweep, the folder of its records, and the cells that are left."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan, select

State = Literal["done", "failed", "missing"]


@dataclass(frozen=True)
class Todo:
    """The selected cells by their treatment in a run, as ids in the order of the plan.

    The run measures `cells`. It keeps the records of the `done` and of the `failed`.
    """

    cells: tuple[str, ...]
    done: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """The plan of a sweep, and the folder of its records."""

    plan: Plan
    folder: RunDirectory

    def states(self) -> dict[str, State]:
        """Return the state of every cell by its id, in the order of the plan."""
        heads = self.folder.heads
        return {
            cell.id: heads[cell.id].status if cell.id in heads else "missing"
            for cell in self.plan.cells
        }

    def todo(
        self, only: str | None = None, *, force: bool = False, retry_failed: bool = False
    ) -> Todo:
        """Return the treatment of the cells that `only` selects, by their current records.

        A cell with a record is measured again if `force`, or if it failed and `retry_failed`.
        """
        selected = select(self.plan, only)
        states = {cell: state for cell, state in self.states().items() if cell in selected}
        again = {"missing"} | ({"failed"} if retry_failed else set())
        cells = tuple(cell for cell, state in states.items() if force or state in again)
        rest = {cell: states[cell] for cell in states.keys() - set(cells)}
        return Todo(
            cells=cells,
            done=tuple(cell for cell in states if rest.get(cell) == "done"),
            failed=tuple(cell for cell in states if rest.get(cell) == "failed"),
        )

    @property
    def stale(self) -> int:
        """The number of records of cells outside the plan."""
        return self.folder.stale(self.plan)

    def seconds_left(self) -> float | None:
        """Return the seconds that one worker needs for the units with a missing cell.

        Each unit counts with the mean time of the measured units; None if no unit is measured.
        """
        heads = self.folder.heads
        seconds = {id_: head.seconds for id_, head in heads.items() if head.status == "done"}
        times = [
            [seconds[cell.id] for cell in unit.cells if cell.id in seconds]
            for unit in self.plan.units
        ]
        measured = [sum(cells) for cells in times if cells]
        missing = sum(any(cell.id not in heads for cell in unit.cells) for unit in self.plan.units)
        return missing * fmean(measured) if measured else None
