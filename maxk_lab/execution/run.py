"""The measuring of a run: the cells without a record, by a pool of workers or on Ray."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.provenance import collect_provenance
from maxk_lab.execution.store import Head
from maxk_lab.execution.tasks import Backend, Modules, OnEvent, Task
from maxk_lab.execution.todo import Run
from maxk_lab.installed import is_function_path
from maxk_lab.planning.cells import Unit
from maxk_lab.planning.grid import Skipped
from maxk_lab.planning.plan import Plan
from maxk_lab.sweep_file.content import names_in
from maxk_lab.sweep_file.studies import STUDIES

__all__ = ["Outcome", "Run", "execute"]

# The packages that every worker imports before the modules of the user.
_LAB_PACKAGES = ("maxk_lab", "transformers")


@dataclass(frozen=True)
class Outcome:
    """The selected cells after a run, as ids in the order of the plan.

    `done` were measured in this run, by this driver or another; the `reused` had a record before.
    `failed` includes `failed_before`, which this run did not retry. `missing` lost their record
    during the run. `last` means that no other driver works in the run.
    """

    done: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    reused: tuple[str, ...]
    seconds: float
    failed_before: tuple[str, ...] = ()
    stale: int = 0
    missing: tuple[str, ...] = ()
    last: bool = True


def execute(
    run: Run,
    *,
    jobs: int = 1,
    only: str | None = None,
    force: bool = False,
    retry_failed: bool = False,
    on_event: OnEvent = lambda name, payload: None,
    measure: str | None = None,
) -> Outcome:
    """Measure the cells that `run.todo` returns, with `jobs` workers or on Ray.

    Other processes, here or on other machines, may do the same in the same run: they share the
    units by leases. With `force` a cell ignores cached files of earlier measurements. `measure`
    names the `module:function` that measures a unit, instead of the function of its study.
    `on_event(name, payload)` is called in this process. Raises `LabError` for errors that the user
    can mend. Raises KeyboardInterrupt after a signal; a later call resumes.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise LabError(f"--jobs must be a whole number of at least 1, got {jobs!r}")
    started, plan = time.monotonic(), run.plan
    folder = run.folder.for_writing("measuring")
    local = plan.spec.execution.backend == "local"
    with Driver(folder.root) as driver:
        driver.remove_leftovers()
        heads = {**folder.heads}
        todo = run.todo(only, force=force, retry_failed=retry_failed)
        tasks = tasks_of(run, set(todo.cells), measure, heads)
        units = {unit.id: unit for unit in plan.units} if tasks and local else {}
        for task in tasks if local else ():
            units[task.key].check_machine()
        folder.write_spec(plan.spec)
        again = {cell for cell in todo.cells if cell in heads or force}
        _clear_cache(run, driver, again, shared=force)
        on_event("run_started", {"cell_ids": list(todo.cells), "units": len(tasks), "jobs": jobs})
        if stale := run.stale:
            on_event("stale", {"records": stale})
        try:
            if tasks:
                from maxk_lab.execution.drive import drive

                modules = modules_of(plan, measure)
                with _backend(run, min(jobs, len(tasks)), tasks, modules) as backend:
                    drive(tasks, folder, backend, driver, on_event)
        except KeyboardInterrupt:
            on_event("interrupted", {})
            raise
        after = run.todo(only) if tasks else todo
        on_event("run_finished", {})
        last = not driver.others()
    measured = set(todo.cells)
    return Outcome(
        done=tuple(cell for cell in after.done if cell in measured),
        failed=after.failed,
        skipped=plan.skipped,
        reused=todo.done,
        seconds=time.monotonic() - started,
        failed_before=todo.failed,
        stale=stale,
        missing=after.cells,
        last=last,
    )


def _backend(
    run: Run, jobs: int, tasks: Sequence[Task], modules: Modules
) -> AbstractContextManager[Backend]:
    execution = run.plan.spec.execution
    if execution.backend == "local":
        from maxk_lab.execution.pool import Pool

        return Pool(execution, jobs, tasks, modules)
    from maxk_lab.execution.ray import RayBackend

    return RayBackend(run.folder, execution, jobs, modules)


def _clear_cache(run: Run, driver: Driver, again: Set[str], *, shared: bool) -> None:
    """Remove the files of the cells that are measured `again`, so that they do not resume.

    With `shared`, also remove files that cells share, such as pools and trained policies.
    Files of cells that other drivers measure stay.
    """
    plan, folder = run.plan, run.folder
    if not (again or shared):
        return
    busy = {key for info in driver.others() for key in info.tasks}
    again = again - {cell.id for unit in plan.units if unit.id in busy for cell in unit.cells}
    keep = {*(cell.id for cell in plan.cells), *folder.heads} - again
    for path in folder.cache_path.glob("*"):
        names = set(re.split("[^0-9A-Za-z]+", path.name))
        if names & again or (shared and not names & keep):
            path.unlink(missing_ok=True)


def tasks_of(
    run: Run, cells: Set[str], measure: str | None, heads: Mapping[str, Head]
) -> list[Task]:
    """Return a task for each unit of the plan with one of these cells, without its other cells.

    `measure` names the `module:function` that measures them, instead of those of their studies.
    `heads` are the heads of the records when the cells were chosen.
    """
    units = [unit for unit in run.plan.units if any(cell.id in cells for cell in unit.cells)]
    provenance = collect_provenance() if units else {}
    tasks = []
    for unit in units:
        # Studies measure the cells of one n together.
        chosen = sorted((cell for cell in unit.cells if cell.id in cells), key=lambda cell: cell.n)
        task = Task(
            key=unit.id,
            label=unit.label,
            unit=unit.as_dict(),
            cells=tuple(cell.as_dict() for cell in chosen),
            root=str(run.folder.root.absolute()),
            measure=measure or f"{STUDIES.get(unit.study).implementation}.work:measure",
            provenance=provenance,
            on_device=unit.on_device,
            attempt=1 + max(heads[c.id].attempt if c.id in heads else 0 for c in chosen),
        )
        tasks.append(task)
    return tasks


def modules_of(plan: Plan, measure: str | None) -> Modules:
    """Return the modules that the sweep names, which every worker imports."""
    # Units that differ in their seeds name the same modules.
    units = {id(unit.like or unit): unit for unit in plan.units}.values()
    modules = {module for unit in units for module in _modules_of_unit(unit)}
    if measure is not None:
        modules = {measure.partition(":")[0]}
    lab = {module for module in modules if module.partition(".")[0] in _LAB_PACKAGES}
    return Modules(tuple(sorted(lab)), tuple(sorted(modules - lab)))


def _modules_of_unit(unit: Unit) -> set[str]:
    """Return the modules of a unit: of its study, its rows, and the user's functions."""
    package = STUDIES.get(unit.study).implementation
    paths = {f"{package}.work", f"{package}.record"}
    cells: list[dict[str, Any]] = [cell.axes for cell in unit.cells]
    for catalogue, name in names_in(unit.as_dict(), cells).values():
        if catalogue is not None:
            paths.add(catalogue.get(name).implementation)
        else:  # a function, or the folder of a model
            paths.add(name if is_function_path(name) else "transformers")
    return {path.partition(":")[0] for path in paths}
