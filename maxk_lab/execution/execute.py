"""Execution: the missing cells of a plan by a backend, beside others that do the same."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.execution.backends.backend import OnEvent, Task, load_backend
from maxk_lab.execution.drive import drive
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.progress import statuses, to_measure
from maxk_lab.execution.provenance import collect_provenance
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.store import Head
from maxk_lab.installed import is_function_path
from maxk_lab.planning.grid import Skipped
from maxk_lab.planning.plan import Plan, select
from maxk_lab.sweep_file.content import names_in
from maxk_lab.sweep_file.studies import STUDIES

# The packages whose modules are imported for all units at once, without a user's code.
_OURS = ("maxk_lab", "transformers")


@dataclass(frozen=True)
class Outcome:
    """The state of the selected cells after a run, by id.

    `done` and `failed` include what other drivers have measured meanwhile; `failed` also
    `failed_before`, which were not run again. `missing` have no record though they were selected:
    something removed the files of the run. The `reused` cells had a record in this run before.
    `last` says that no other process works in the run any more.
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
    plan: Plan,
    run: RunDirectory,
    *,
    jobs: int = 1,
    only: str | None = None,
    force: bool = False,
    retry_failed: bool = False,
    on_event: OnEvent = lambda name, payload: None,
    measure: str | None = None,
) -> Outcome:
    """Measure the cells of `plan` that `run` lacks by the backend of its spec, and keep each.

    Other processes may do the same in the same run, here or on other machines: they share the units
    by leases, and where two measure the same, one record counts. Records are reused, failed ones
    too unless `retry_failed`; `force` measures everything that `only` selects again, with nothing
    from the cache that they could use. `measure` names the `module:function` that measures a unit,
    in place of that of its study. `on_event(name, payload)` is called in this process. Raises
    `LabError` for what the user can mend. On KeyboardInterrupt workers are stopped; the same call
    later goes on from there.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise LabError(f"--jobs must be a whole number of at least 1, got {jobs!r}")
    started, selected = time.monotonic(), select(plan, only)
    execution, make_backend = plan.spec.execution, load_backend(plan.spec.execution)

    def tell(name: str, **payload: Any) -> None:
        on_event(name, payload)

    with Driver(run.for_writing("measuring").root) as driver:
        driver.remove_leftovers()
        heads = {**run.heads}
        before = {c: state for c, state in statuses(plan, run).items() if c in selected}
        to_do = to_measure(before, force=force, retry_failed=retry_failed)
        if make_backend.here:
            for unit in plan.units:
                if any(cell.id in to_do for cell in unit.cells):
                    unit.check_machine()
        run.write_spec(plan.spec)
        again = {c for c in to_do if force or before[c] != "missing"}
        _clear_cache(plan, run, driver, again, shared=force)
        tasks = tasks_of(plan, to_do, run, measure, heads)
        ids, units = _in_order(plan, to_do), len(tasks)
        tell("run_started", cell_ids=ids, units=units, jobs=jobs)
        if stale := run.stale(plan):
            tell("stale", records=stale)
        try:
            if units:
                with make_backend(run, execution, min(jobs, units), tasks) as backend:
                    drive(tasks, run, backend, driver, tell)
        except KeyboardInterrupt:
            tell("interrupted")
            raise
        after = {c: state for c, state in statuses(plan, run).items() if c in selected}
        tell("run_finished")
        last = not driver.others()

    def those(state: str) -> tuple[str, ...]:
        return tuple(c for c in after if after[c] == state)

    return Outcome(
        done=tuple(c for c in those("done") if c in to_do),
        failed=those("failed"),
        skipped=plan.skipped,
        reused=tuple(c for c in before if c not in to_do and before[c] == "done"),
        seconds=time.monotonic() - started,
        failed_before=tuple(c for c in before if c not in to_do and before[c] == "failed"),
        stale=stale,
        missing=those("missing"),
        last=last,
    )


def _clear_cache(
    plan: Plan, run: RunDirectory, driver: Driver, again: Set[str], *, shared: bool
) -> None:
    """Remove what the cache holds of these cells alone: to be measured anew is not to resume.

    With `shared` that goes as well which is of no other cell, such as a pool, since its name does
    not tell the code that it was drawn with. What somebody else measures now stays.
    """
    busy = {key for one in driver.others() for key in one.tasks}
    again = again - {cell.id for unit in plan.units if unit.id in busy for cell in unit.cells}
    keep = {*(cell.id for cell in plan.cells), *run.heads} - again
    for path in run.cache_path.glob("*") if again or shared else ():
        named = set(re.split("[^0-9A-Za-z]+", path.name))
        if named & again or (shared and not named & keep):
            path.unlink(missing_ok=True)


def _in_order(plan: Plan, ids: Iterable[str]) -> list[str]:
    wanted = set(ids)
    return [cell.id for cell in plan.cells if cell.id in wanted]


def tasks_of(
    plan: Plan,
    to_do: Set[str],
    run: RunDirectory,
    measure: str | None,
    heads: Mapping[str, Head],
) -> list[Task]:
    """Return a task for each unit of the plan with a cell to do, without its other cells.

    `measure` names the `module:function` that measures them, in place of that of their studies;
    `heads` are those of the records that were there when it was decided what is to do.
    """
    units = {unit.id: unit for unit in plan.units if any(cell.id in to_do for cell in unit.cells)}
    provenance = collect_provenance() if units else {}
    tasks = []
    for key, unit in units.items():
        chosen = [cell for cell in unit.cells if cell.id in to_do]
        data, cells = unit.as_dict(), tuple(cell.as_dict() for cell in chosen)
        modules = {measure.partition(":")[0]} if measure else _modules(unit.study, data, cells)
        lab = {module for module in modules if module.partition(".")[0] in _OURS}
        task = Task(
            key=key,
            label=unit.label,
            shares=True,
            unit=data,
            cells=cells,
            root=str(run.root.absolute()),
            measure=measure or f"{STUDIES.get(unit.study).implementation}.work:measure",
            provenance=provenance,
            lab=tuple(sorted(lab)),
            own=tuple(sorted(modules - lab)),
            on_device=unit.on_device,
            attempt=1 + max(heads[c.id].attempt if c.id in heads else 0 for c in chosen),
        )
        tasks.append(task)
    return tasks


def _modules(study: str, unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the modules that a unit needs: of its study, its rows, and the user's functions."""
    paths = {f"{STUDIES.get(study).implementation}.{part}" for part in ("work", "record")}
    for catalogue, name in names_in(unit, cells).values():
        if catalogue is not None:
            paths.add(catalogue.get(name).implementation)
        else:  # a function, or the folder of a model
            paths.add(name if is_function_path(name) else "transformers")
    return {path.partition(":")[0] for path in paths}
