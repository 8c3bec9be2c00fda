"""A run: the plan of a sweep, the folder of its records, and the cells that are left."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
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
        """Return the seconds that one worker needs for the missing cells.

        A cell counts with the mean time of the measured cells of its kind of study, or of all
        kinds if no cell of its kind is measured; None if no cell is measured.
        """
        heads, times = self.folder.heads, dict[str, list[float]]()
        for cell in self.plan.cells:
            if (head := heads.get(cell.id)) is not None and head.status == "done":
                times.setdefault(cell.study, []).append(head.seconds)
        if not times:
            return None
        mean = fmean(chain.from_iterable(times.values()))
        means = {kind: fmean(seconds) for kind, seconds in times.items()}
        missing = (cell.study for cell in self.plan.cells if cell.id not in heads)
        return sum((means.get(kind, mean) for kind in missing), 0.0)
