"""A run as it is read for tables of its numbers: its cells, their rows, and what has no result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from maxk_lab.errors import MistakeError, error_line, shown
from maxk_lab.report.model import Summary
from maxk_lab.report.summarise import summarise, without_record
from maxk_lab.report.tables import Estimate, PooledRow, grouped, numbers, pooled_of
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.find import find_run
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory

Run = str | os.PathLike[str] | RunDirectory
# Nearer to 0 or 1 than this, a level that is corrected for many comparisons would be 1 by rounding.
_LEAST = 1e-9


@dataclass(frozen=True)
class ReadRun:
    """A run with its plan: everything that a table of its numbers asks for."""

    directory: RunDirectory
    _numbers: dict[float, Mapping[tuple[str, Any], Mapping[str, Estimate]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def plan(self) -> Plan:
        """The plan of its spec. Raises `LabError` where there is no sound one."""
        return make_plan(self.directory.spec())

    @cached_property
    def cells(self) -> Mapping[str, Cell]:
        """The planned cells by their ids."""
        return {cell.id: cell for cell in self.plan.cells}

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """The sound records of the planned cells by their ids, failed ones too."""
        return {record.cell["id"]: record for record in self.directory.records(self.plan)}

    def summary(self, level: float) -> Summary:
        """Everything that its report shows, with intervals at `level`."""
        return summarise(self.directory, self.plan, level=level)

    def numbers_at(self, level: float) -> Mapping[tuple[str, Any], Mapping[str, Estimate]]:
        """The numbers of its report's rows, by the row's kind of study and its key."""
        if level not in self._numbers:
            studies = self.summary(level).studies
            self._numbers[level] = {
                (kind, row.key): numbers(kind, row)
                for kind, found in studies.items()
                for row in found.rows
            }
        return self._numbers[level]

    def rows_of_cells(self, level: float) -> dict[str, PooledRow]:
        """The row of every measured cell by its id: that of a report on its seed alone."""
        found: dict[str, PooledRow] = {}
        of_seeds = grouped(self._done, lambda cell: (cell.study, cell.seed))
        for (study, _), cells in of_seeds.items():
            done = {cell.id: self.records[cell.id] for cell in cells}
            pooled = pooled_of(
                study, [cell.as_dict() for cell in cells], done, level=level, alpha=1 - level
            )
            found |= {one: row for row in pooled.rows for one in row.cells.values()}
        return found

    @property
    def _done(self) -> list[Cell]:
        records = self.records
        cells = self.plan.cells
        return [cell for cell in cells if cell.id in records and records[cell.id].status == "done"]

    @cached_property
    def absent(self) -> dict[str, tuple[str, str]]:
        """The state of every cell without a result, and why, by its id."""
        records, run = self.records, self.directory
        found = {
            one: ("failed", error_line(record.error))
            for one, record in records.items()
            if record.status != "done"
        }
        without = [cell.id for cell in self.plan.cells if cell.id not in records]
        stale = set(run.stale(self.plan))
        for state, ids in without_record(without, run.damaged, stale).items():
            found |= {one: (state, run.damaged.get(one, "")) for one in ids}
        return found


def check_share(name: str, value: object, *, such_as: float, or_zero: bool = False) -> None:
    """Raise `LabError` unless an argument is a number between 0 and 1; that may be 0, or not."""
    least = 0 if or_zero else _LEAST
    if isinstance(value, int | float) and type(value) is not bool and least <= value <= 1 - _LEAST:
        return
    what = "a share from 0 to below 1," if or_zero else "a number between 0 and 1"
    raise MistakeError(f"{name} must be {what} such as {such_as}, got {shown(value)}")


def find(run: Run | None, results: str | os.PathLike[str]) -> RunDirectory:
    """The run of that name or in that place; the latest if None. Raises `LabError` without one."""
    if isinstance(run, RunDirectory):
        return run
    for given in (run, results):
        if given is not None and not isinstance(given, str | os.PathLike):
            raise MistakeError(f"a run is its name, folder or bundle, got {shown(given)}")
    return find_run(None if run is None else os.fspath(run), os.fspath(results))


def names_of(asked: Sequence[Run | None], found: Sequence[RunDirectory]) -> list[str]:
    """The names of the runs; as they were asked for where two have the same."""
    names = [directory.name for directory in found]
    return [
        name if names.count(name) == 1 else str(run.root if isinstance(run, RunDirectory) else run)
        for run, name in zip(asked, names, strict=True)
    ]
