"""Runs as a DataFrame: one line for each measure of a cell or row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.errors import MistakeError, error_line, shown, warn
from maxk_lab.execution.archive import find_run
from maxk_lab.execution.record import Record
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.reports.report import Report, changed_line, read_report
from maxk_lab.reports.tables import (
    CELLS,
    ROWS,
    axes,
    estimate_lines,
    frame,
    grouped,
    number_lines,
    pooled_study,
    row_estimates,
    rows_of_cells,
)
from maxk_lab.sweep_file.content import changed_since
from maxk_lab.sweep_file.studies import STUDIES
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    import pandas as pd

Run = str | os.PathLike[str] | RunDirectory
# A level closer to 0 or 1 would round to 1 after correction for many comparisons.
_LEAST = 1e-9
# The columns that identify the row or cell of a number.
_WHOSE = {"cells": CELLS, "seeds": ROWS}


def load(
    run: Run | Sequence[Run] | None = None,
    *,
    over: Literal["cells", "seeds"] = "cells",
    failed: bool = True,
    level: float = 0.95,
    results: str | os.PathLike[str] = "results",
) -> pd.DataFrame:
    """Return the numbers of a run as a DataFrame: one line for each cell and measure.

    `run` is the name of a run under `results`, a folder or a bundle; the latest run if None. For
    several runs, in a list, the column `run` has their names.

    `over="cells"` has the numbers of every cell, which has one seed: the intervals are not about
    other seeds. `over="seeds"` is the table `estimates` of the report, pooled over the seeds. Its
    columns are those of `maxk_lab.reports.tables.Tables`. Over cells, `seed` and `cell` replace
    `seeds` and `seeds_finished`.

    A cell without a result is one line with its `status` (failed or missing) and no measure; over
    seeds it makes its row incomplete. `failed=False` removes these lines. Warns about code and
    models that changed since the measurement. Raises `LabError` if there is no such run.

        frame = load("tsp_sweep", over="seeds").query("measure == 'variance' and k == 8")
        frame.pivot_table("value", index="n", columns="baseline")
    """
    if not isinstance(over, str) or over not in _WHOSE:
        raise MistakeError(f"over must be one of {', '.join(map(repr, _WHOSE))}, got {shown(over)}")
    check_share("level", level, such_as=0.95)
    several = isinstance(run, Sequence) and not isinstance(run, str)
    runs: list[Run | None] = list(run) if several else [run]  # type: ignore[arg-type,list-item]
    if not runs:
        raise MistakeError("run must be one run or several, got an empty list")
    lines: list[dict[str, Any]] = []
    directories = [find(each, results) for each in runs]
    for name, directory in zip(names_of(runs, directories), directories, strict=True):
        read = ReadRun(directory)
        if changed := changed_since(read.plan.spec):
            warn(f"{name}: {changed_line(changed)}")
        estimates = read.cell_lines(level) if over == "cells" else read.estimate_lines(level)
        first = {"run": name} if several else {}
        lines += (first | line for line in estimates if failed or "measure" in line)
    return frame(lines, _WHOSE[over], ("run",) if several else ())


@dataclass(frozen=True)
class ReadRun:
    """A run with its plan and its records."""

    directory: RunDirectory

    @cached_property
    def plan(self) -> Plan:
        """The plan of the sweep. Raises `LabError` if the sweep is invalid."""
        return make_plan(self.directory.spec())

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """The valid records of the planned cells by id, also failed records."""
        return {record.cell["id"]: record for record in self.directory.records(self.plan)}

    def report(self, level: float) -> Report:
        """Return the report of the run, with intervals at `level`."""
        return read_report(self.directory, self.plan, level=level)

    def estimates(self, level: float) -> pd.DataFrame:
        """Return the table `estimates` of the report, with intervals at `level`."""
        return frame([*self.estimate_lines(level)], ROWS)

    def estimate_lines(self, level: float) -> Iterator[dict[str, Any]]:
        """Yield the lines of `estimates`."""
        done = {cell: record for cell, record in self.records.items() if record.status == "done"}
        cells = [cell.as_dict() for cell in self.plan.cells]
        studies = {
            kind: pooled_study(kind, members, done, level=level, alpha=1 - level)
            for kind, members in grouped(cells, lambda cell: str(cell["study"])).items()
        }
        yield from estimate_lines(studies)

    def cells(self, level: float) -> pd.DataFrame:
        """Return the numbers of each cell, with intervals at `level`."""
        return frame([*self.cell_lines(level)], CELLS)

    def cell_lines(self, level: float) -> Iterator[dict[str, Any]]:
        """Yield the lines of every cell, in the order of the plan."""
        rows = rows_of_cells(self.records.values(), level)
        for cell in self.plan.cells:
            row = rows.get(cell.id)
            key = STUDIES.get(cell.study).load_module("table").key(cell.as_dict())
            status, reason = self.absent.get(cell.id, ("done", ""))
            bias = "" if row is None else row.bias_state
            place = {"row": key.path, "seed": cell.seed, "cell": cell.id, "status": status}
            estimates = row_estimates(cell.study, row) if row is not None else {}
            if row is None or estimates:
                place = axes(cell.study, key) | place | {"bias": bias}
                yield from number_lines(place, estimates, visible_line(reason))

    @cached_property
    def absent(self) -> dict[str, tuple[str, str]]:
        """Return the state of every cell without a result, and the reason, by its id."""
        failed = {
            cell: ("failed", error_line(record.error))
            for cell, record in self.records.items()
            if record.status != "done"
        }
        missing = [cell.id for cell in self.plan.cells if cell.id not in self.records]
        return failed | dict.fromkeys(missing, ("missing", ""))


def check_share(name: str, value: object, *, such_as: float, or_zero: bool = False) -> None:
    """Raise `LabError` unless an argument is a number between 0 and 1; `or_zero` allows 0."""
    least = 0 if or_zero else _LEAST
    if isinstance(value, int | float) and type(value) is not bool and least <= value <= 1 - _LEAST:
        return
    what = "a share from 0 to below 1," if or_zero else "a number between 0 and 1"
    raise MistakeError(f"{name} must be {what} such as {such_as}, got {shown(value)}")


def find(run: Run | None, results: str | os.PathLike[str]) -> RunDirectory:
    """The run with a name or at a path; the latest if None. Raises `LabError` without a run."""
    if isinstance(run, RunDirectory):
        return run
    for place in (run, results):
        if place is not None and not isinstance(place, str | os.PathLike):
            raise MistakeError(f"a run is its name, folder or bundle, got {shown(place)}")
    return find_run(None if run is None else os.fspath(run), os.fspath(results))


def names_of(runs: Sequence[Run | None], directories: Sequence[RunDirectory]) -> list[str]:
    """Return the names of the runs; for equal names the arguments."""
    names = [directory.name for directory in directories]
    return [
        name if names.count(name) == 1 else str(run.root if isinstance(run, RunDirectory) else run)
        for run, name in zip(runs, names, strict=True)
    ]
