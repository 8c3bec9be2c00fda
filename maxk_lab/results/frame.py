"""Runs as a tidy table: one line for each cell, or row of the report, and measure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.errors import MistakeError, shown, warn
from maxk_lab.report.model import Summary
from maxk_lab.report.parts import PoolPart
from maxk_lab.report.report import changed_line
from maxk_lab.report.tables import OF_ROWS, axes, estimates, frame, lines_of, numbers
from maxk_lab.results.reading import ReadRun, Run, check_share, find, names_of
from maxk_lab.sweeps.plan.changes import changed_since
from maxk_lab.sweeps.studies import STUDIES

if TYPE_CHECKING:
    import pandas as pd

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
        told = _of_cells(read, level) if over == "cells" else estimates(read.summary(level).studies)
        first = {"run": name} if several else {}
        lines += (first | line for line in told if failed or "measure" in line)
    return frame(lines, _WHOSE[over], ("run",) if several else ())


def frame_of_rows(summary: Summary) -> pd.DataFrame:
    """The numbers of a report that was put together already, as `load` has them over seeds."""
    return frame(list(estimates(summary.studies)), OF_ROWS)


def _of_cells(read: ReadRun, level: float) -> Iterator[dict[str, Any]]:
    """The lines of every cell, in the order of the plan."""
    rows = read.rows_of_cells(level)
    for cell in read.plan.cells:
        row = rows.get(cell.id)
        part: PoolPart = STUDIES.get(cell.study).part("pool")
        key = part.key(cell.as_dict()) if row is None else row.key
        status, reason = read.absent.get(cell.id, ("done", ""))
        place = axes(cell.study, key) | {"seed": cell.seed, "cell": cell.id, "status": status}
        found = numbers(cell.study, row) if row is not None else {}
        if row is None or found:
            yield from lines_of(place, found, reason)
