"""Runs as a tidy table: one line for each cell, or row of the report, and measure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.errors import MistakeError, error_line, shown, warn
from maxk_lab.execution.bundle import find_run
from maxk_lab.execution.record import Record
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.cells import Cell
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.reports.model import Summary
from maxk_lab.reports.report import changed_line
from maxk_lab.reports.summarise import summarise
from maxk_lab.reports.tables import (
    OF_ROWS,
    Estimate,
    axes,
    estimates,
    frame,
    lines_of,
    numbers,
    rows_of_cells,
)
from maxk_lab.sweep_file.content import changed_since
from maxk_lab.sweep_file.studies import STUDIES

if TYPE_CHECKING:
    import pandas as pd

Run = str | os.PathLike[str] | RunDirectory
# Nearer to 0 or 1 than this, a level that is corrected for many comparisons would be 1 by rounding.
_LEAST = 1e-9
# The columns that say whose a number is.
_WHOSE = {"cells": ("seed", "cell", "status"), "seeds": OF_ROWS}


def load(
    run: Run | Sequence[Run] | None = None,
    *,
    over: Literal["cells", "seeds"] = "cells",
    failed: bool = True,
    level: float = 0.95,
    results: str | os.PathLike[str] = "results",
) -> pd.DataFrame:
    """The numbers of a run as a tidy table: one line for each cell and measure.

    `run` is the name of a run under `results`, a folder or a bundle; the latest run if None. Of
    several, in a list, the column `run` tells which.

    `over="cells"` has the numbers of every cell, and so of one seed alone: their intervals say
    nothing of other seeds. `over="seeds"` has those of the report, pooled over the seeds, to the
    last digit. Both come from the functions that the report is made by.

    The columns are `study`, `environment`, one for each setting that the sweep varies, the axes
    (`estimator`, `baseline`, `n`, `k`, `stage`), then `seed`, `cell` and `status`, or over seeds
    `seeds`, `seeds_finished` and `status`; then the number: `measure`, `value`, `low` and `high` at
    `level`, `about` (what the interval is about: fixed instances, new instances, seeds or
    exact), `unit`, and the `reason` where the value or its interval is missing.

    A cell without a result is one line with its `status` (failed or missing) and no
    measure; over seeds it is a row that is incomplete. With `failed=False` these are left out.
    Warns of code and models that are no more as they were measured. Raises `LabError` where there
    is no such run.

        frame = load("tsp_sweep", over="seeds").query("measure == 'variance' and k == 8")
        frame.pivot_table("value", index="n", columns="baseline")
    """
    if not isinstance(over, str) or over not in _WHOSE:
        raise MistakeError(f"over must be one of {', '.join(map(repr, _WHOSE))}, got {shown(over)}")
    check_share("level", level, such_as=0.95)
    several = isinstance(run, Sequence) and not isinstance(run, str)
    asked: list[Run | None] = list(run) if several else [run]  # type: ignore[arg-type,list-item]
    if not asked:
        raise MistakeError("run must be one run or several, got an empty list")
    lines: list[dict[str, Any]] = []
    names = names_of(asked, found := [find(one, results) for one in asked])
    for name, directory in zip(names, found, strict=True):
        read = ReadRun(directory)
        if changed := changed_since(read.plan.spec):
            warn(f"{name}: {changed_line(changed)}")
        told = _of_cells(read, level) if over == "cells" else estimates(read.summary(level).studies)
        first = {"run": name} if several else {}
        lines += (first | line for line in told if failed or "measure" in line)
    return frame(lines, _WHOSE[over], ("run",) if several else ())


def _of_cells(read: ReadRun, level: float) -> Iterator[dict[str, Any]]:
    """The lines of every cell, in the order of the plan."""
    rows = rows_of_cells(read.records.values(), level)
    for cell in read.plan.cells:
        row = rows.get(cell.id)
        key = STUDIES.get(cell.study).part("pool").key(cell.as_dict())
        status, reason = read.absent.get(cell.id, ("done", ""))
        place = axes(cell.study, key) | {"seed": cell.seed, "cell": cell.id, "status": status}
        found = numbers(cell.study, row) if row is not None else {}
        if row is None or found:
            yield from lines_of(place, found, reason)


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

    @cached_property
    def absent(self) -> dict[str, tuple[str, str]]:
        """The state of every cell without a result, and why, by its id."""
        records = self.records
        found = {
            one: ("failed", error_line(record.error))
            for one, record in records.items()
            if record.status != "done"
        }
        without = [cell.id for cell in self.plan.cells if cell.id not in records]
        return found | dict.fromkeys(without, ("missing", ""))


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
