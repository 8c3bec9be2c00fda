"""The tasks of a run: its units with the cells that are to be measured, and what they find."""

from __future__ import annotations

import re
import shutil
from collections.abc import Set
from dataclasses import replace

from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.workers.worker import Task
from maxk_lab.sweeps.studies import STUDIES


def tasks_of(plan: Plan, to_do: Set[str], run: RunDirectory, measure: str | None) -> list[Task]:
    """Return a task for each unit of the plan with a cell to do, without its other cells.

    `measure` names the `module:function` that measures them, in place of that of their studies.
    """
    units = {
        unit.id: replace(unit, cells=tuple(cell for cell in unit.cells if cell.id in to_do))
        for unit in plan.units
        if any(cell.id in to_do for cell in unit.cells)
    }
    provenance = collect_provenance() if units else {}
    return [
        Task(
            key=key,
            label=unit.label,
            shares=unit.shares,
            work=sum(unit.work().values()),
            unit=unit.as_dict(),
            cells=tuple(cell.as_dict() for cell in unit.cells),
            root=str(run.root.absolute()),
            measure=measure or f"{STUDIES.get(unit.study).implementation}.worker:measure",
            provenance=provenance,
            on_device=unit.on_device,
        )
        for key, unit in units.items()
    ]


def forget(run: RunDirectory, again: Set[str], *, keep: Set[str] | None) -> None:
    """Remove what the cache keeps of these cells alone: to be measured anew is not to resume.

    With `keep`, what cells share goes as well, such as pools, whose names do not tell the code that
    they were drawn with; what is left belongs to a cell of `keep` alone, such as its trained
    policy.
    """
    for path in list(run.cache_path.glob("*")):
        named = set(re.split("[^0-9A-Za-z]+", path.name))
        if not named & again and (keep is None or named & keep):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
