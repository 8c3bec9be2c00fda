"""Execution: the missing cells in worker processes, every failure kept to the cells it concerns."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from maxk_lab.catalogue import load
from maxk_lab.errors import LabError
from maxk_lab.files import remove_partials
from maxk_lab.sweeps.backends import BACKENDS, LOCAL
from maxk_lab.sweeps.plan.grid import Skipped
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.plan.selection import select
from maxk_lab.sweeps.run.backends.backend import MakeBackend
from maxk_lab.sweeps.run.drive import drive
from maxk_lab.sweeps.run.events import OnEvent
from maxk_lab.sweeps.run.lock import locked
from maxk_lab.sweeps.run.progress import checked_statuses, to_measure
from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards.telling import PackingTeller
from maxk_lab.sweeps.run.workers.worker import Task
from maxk_lab.sweeps.studies import STUDIES


@dataclass(frozen=True)
class Outcome:
    """The state of the selected cells after a run, by id.

    `failed` includes `failed_before`, which were not run again. `missing` have no record though
    they were selected: somebody has removed what was written.
    """

    done: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    reused: tuple[str, ...]
    seconds: float
    failed_before: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


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
    """Measure the cells of `plan` that `run` lacks, and keep each.

    The backend that `execution` in the spec names does it, in `jobs` worker processes if it is this
    machine. Records are reused, failed ones too unless `retry_failed`; `force` measures everything
    that `only` selects again, with nothing from the cache that they could use, and replaces each
    record once its successor is there. `measure` names the `module:function` that measures a unit,
    in place of that of its study. `on_event(name, payload)` is called in this process. Raises
    `LabError` for what the user can mend. On KeyboardInterrupt workers are stopped; the same call
    later goes on from there.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise LabError(f"--jobs must be a whole number of at least 1, got {jobs!r}")
    started, execution = time.monotonic(), plan.spec.execution
    make_backend: MakeBackend = load(BACKENDS.get(execution.backend).implementation, "backend ")
    selected = select(plan, only)
    with locked(run.root):
        run.cells_path.mkdir(parents=True, exist_ok=True)
        for folder in (run.root, run.cells_path, run.cache_path):
            remove_partials(folder)
        before = {c: state for c, state in checked_statuses(plan, run).items() if c in selected}
        to_do = to_measure(before, force=force, retry_failed=retry_failed)
        for unit in plan.units if execution.backend == LOCAL else ():
            if any(cell.id in to_do for cell in unit.cells):
                unit.check_machine()
        run.write_spec(plan.spec)
        again = to_do if force else {c for c in to_do if before[c] != "missing"}
        if again:
            others = {*(cell.id for cell in plan.cells), *run.ids()} - again
            _forget(run, again, keep=others if force else None)
        stale = tuple(run.stale(plan))
        tasks = _tasks(plan, to_do, run, measure)
        tell = PackingTeller(run, on_event)
        tell(
            "run_started",
            cell_ids=_in_order(plan, to_do),
            units=len(tasks),
            jobs=jobs,
            cells=len(before),
        )
        if stale:
            tell("stale", cell_ids=list(stale))
        if run.problems:
            tell("damaged", problems=run.problems)
        try:
            if tasks:
                with make_backend(run, execution, min(jobs, len(tasks))) as backend:
                    drive(tasks, run, backend, tell, retries=execution.retries)
        except KeyboardInterrupt:
            tell("interrupted")
            raise
        after = checked_statuses(plan, run)
        tell.pack_all()
        tell("run_finished")
    return Outcome(
        done=tuple(c for c in _in_order(plan, to_do) if after[c] == "done"),
        failed=tuple(c for c in _in_order(plan, selected) if after[c] == "failed"),
        skipped=plan.skipped,
        reused=tuple(c for c, state in before.items() if c not in to_do and state == "done"),
        seconds=time.monotonic() - started,
        failed_before=tuple(
            c for c, state in before.items() if c not in to_do and state == "failed"
        ),
        stale=stale,
        missing=tuple(c for c in _in_order(plan, selected) if after[c] == "missing"),
    )


def _forget(run: RunDirectory, again: Set[str], *, keep: Set[str] | None) -> None:
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


def _tasks(plan: Plan, to_do: set[str], run: RunDirectory, measure: str | None) -> list[Task]:
    units = {
        unit.id: replace(unit, cells=tuple(c for c in unit.cells if c.id in to_do))
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


def _in_order(plan: Plan, ids: Iterable[str]) -> list[str]:
    wanted = set(ids)
    return [cell.id for cell in plan.cells if cell.id in wanted]
