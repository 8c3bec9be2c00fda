"""Runs as a tidy table: one line for each cell, or row of the report, and measure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.errors import MistakeError, shown, warn
from maxk_lab.report.absent import changed_line
from maxk_lab.report.model import Summary
from maxk_lab.report.parts import RowsPart
from maxk_lab.report.rows import Measured
from maxk_lab.results.reading import ReadRun, Run, axes, check_share, find, names_of, numbers
from maxk_lab.statistics.intervals import undefined
from maxk_lab.sweeps.plan.changes import changed_since
from maxk_lab.sweeps.studies import STUDIES

if TYPE_CHECKING:
    import pandas as pd

# The columns of every table: first who, then what.
_WHOSE = {"cells": ("seed", "cell", "status"), "seeds": ("seeds", "seeds_finished", "status")}
_NUMBER = ("measure", "value", "low", "high", "level", "about", "unit", "reason")


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
    `level`, `about` (what the interval is about: these instances, instances like these, seeds, or
    exact), `unit`, and the `reason` where the value or its interval is missing.

    A cell without a result is one line with its `status` (failed, missing, stale or damaged) and no
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
        told = _of_cells(read, level) if over == "cells" else _of_rows(read.summary(level))
        first = {"run": name} if several else {}
        lines += (first | line for line in told if failed or "measure" in line)
    return _frame(lines, ("run",) if several else (), _WHOSE[over])


def frame_of_rows(summary: Summary) -> pd.DataFrame:
    """The numbers of a report that was put together already, as `load` has them over seeds."""
    return _frame(list(_of_rows(summary)), (), _WHOSE["seeds"])


def _of_cells(read: ReadRun, level: float) -> Iterator[dict[str, Any]]:
    """The lines of every cell, in the order of the plan."""
    rows = read.rows_of_cells(level)
    for cell in read.plan.cells:
        row = rows.get(cell.id)
        part: RowsPart = STUDIES.get(cell.study).part("rows")
        key = part.key(cell.as_dict()) if row is None else row.key
        status, reason = read.absent.get(cell.id, ("done", ""))
        place = axes(cell.study, key) | {"seed": cell.seed, "cell": cell.id, "status": status}
        if row is None:
            yield place | _number(None, reason)
        else:
            yield from _with_numbers(place, numbers(cell.study, row))


def _of_rows(summary: Summary) -> Iterator[dict[str, Any]]:
    """The lines of every row of the report, in its order."""
    for kind, found in summary.studies.items():
        for row in found.rows:
            seeds = {"seeds": len(row.cells), "seeds_finished": len(row.finished)}
            status = "done" if row.all_finished else "incomplete"
            place = axes(kind, row.key) | seeds | {"status": status}
            if row.all_finished:
                yield from _with_numbers(place, numbers(kind, row))
            else:
                yield place | _number(None, row.unfinished)


def _with_numbers(
    place: Mapping[str, Any], found: Mapping[str, Measured]
) -> Iterator[dict[str, Any]]:
    for name, measured in found.items():
        yield {**place, "measure": name, **_number(measured)}


def _number(measured: Measured | None, reason: str = "") -> dict[str, Any]:
    if measured is None:
        measured = Measured(undefined(float("nan"), reason))
    found = measured.interval
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "level": found.level,
        "about": found.question,
        "unit": measured.unit,
        "reason": found.reason,
    }


def _frame(
    lines: Sequence[Mapping[str, Any]], first: Sequence[str], whose: Sequence[str]
) -> pd.DataFrame:
    """The table of the lines: the columns of any of them, which of the others are empty."""
    import pandas as pd

    fixed = {"study", "environment", *first, *whose, *_NUMBER}
    kinds = [kind for kind in STUDIES if any(line["study"] == kind.name for line in lines)]
    of_kinds = list(dict.fromkeys(axis for kind in kinds for axis in kind.axes))
    varied = dict.fromkeys(name for line in lines for name in line)
    settings = [name for name in varied if name not in {*fixed, *of_kinds}]
    columns = [*first, "study", "environment", *settings, *of_kinds, *whose, *_NUMBER]
    found = pd.DataFrame.from_records(list(lines), columns=columns)
    for name in (*settings, *of_kinds):
        # A kind of study without an axis would turn the whole numbers of the others into floats.
        if all(type(value) is int for value in (line.get(name, 0) for line in lines)):
            found[name] = found[name].astype("Int64")
    return found
