"""The work of a worker process: measure the cells of a unit and write each record at once."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from maxk_lab.catalogue import load
from maxk_lab.files import WRITING
from maxk_lab.sweeps.run.events import append_event
from maxk_lab.sweeps.run.records import Record, RunDirectory, Status

# Progress of one kind is reported at most this often, or the log would outgrow the records.
SECONDS_BETWEEN_EVENTS = 0.5
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """A unit to measure, as plain data: what a worker needs to know."""

    key: int
    label: str
    unit: dict[str, Any]
    cells: tuple[dict[str, Any], ...]
    root: str
    measure: str
    provenance: dict[str, Any]

    @property
    def cell_ids(self) -> list[str]:
        """The ids of the cells to measure."""
        return [cell["id"] for cell in self.cells]


def start_worker(stop: Connection) -> None:
    """Set a worker up: one thread, deaf to Ctrl-C, and gone as soon as its parent stops or dies."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, args=(stop,), daemon=True).start()


def _leave_with_parent(stop: Connection) -> None:
    """Wait for the end of the pipe, which only the parent holds, then leave between two files."""
    try:
        stop.recv_bytes()
    except (EOFError, OSError):
        with WRITING:
            os._exit(1)


def run_unit(task: Task) -> None:
    """Measure the cells of a task; an error with a cell becomes its record and is not raised."""
    run = RunDirectory(task.root)
    reporter = _Reporter(run, task)
    reporter.tell("unit_started", pid=os.getpid())
    measuring = _Measuring(run, task, reporter)
    try:
        measure = load(task.measure)
        results = measure(
            task.unit, list(task.cells), cache=run.cache_path, event=reporter.progress
        )
        measuring.write_all(results)
    except Exception:
        measuring.fail_rest(traceback.format_exc())
    else:
        measuring.fail_rest(f"{task.measure} gave no result for this cell")
    reporter.tell("unit_finished")


class _Reporter:
    def __init__(self, run: RunDirectory, task: Task) -> None:
        self._run, self._task = run, task
        self._last: dict[str, float] = {}

    def tell(self, name: str, **payload: Any) -> None:
        about = {"unit": self._task.label, "key": self._task.key, "cell_ids": self._task.cell_ids}
        append_event(self._run.events_path, name, {**about, **payload})

    def progress(self, name: str, payload: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last.get(name, -SECONDS_BETWEEN_EVENTS) >= SECONDS_BETWEEN_EVENTS:
            self._last[name] = now
            self.tell("progress", phase=name, **payload)


class _Measuring:
    def __init__(self, run: RunDirectory, task: Task, reporter: _Reporter) -> None:
        self._run, self._task, self._reporter = run, task, reporter
        self._open = {cell["id"]: cell for cell in task.cells}
        self._since = time.monotonic()

    def write_all(self, results: Iterable[tuple[str, dict[str, Any] | Exception]]) -> None:
        for cell_id, result in results:
            if cell_id not in self._open:
                raise ValueError(
                    f"{self._task.measure} gave a result for {cell_id!r}, "
                    "which was not asked for or is done"
                )
            if isinstance(result, Exception):
                self._write(cell_id, error="".join(traceback.format_exception(result)))
            else:
                self._write(cell_id, metrics=result)

    def fail_rest(self, error: str) -> None:
        for cell_id in list(self._open):
            self._write(cell_id, error=error)

    def _write(
        self, cell_id: str, *, metrics: dict[str, Any] | None = None, error: str | None = None
    ) -> None:
        now = time.monotonic()
        # The first cell of a unit carries the time of what all share: they add up to the unit.
        timings: dict[str, Any] = {
            "seconds": round(now - self._since, 6),
            "finished": round(time.time(), 3),
        }
        if metrics is not None and "timings" in metrics:
            # Metrics are the same on every run; what a clock said belongs with the timings.
            timings = metrics["timings"] | timings
            metrics = {name: value for name, value in metrics.items() if name != "timings"}
        self._since = now
        cell, provenance = self._open[cell_id], self._task.provenance
        try:
            status: Status = "failed" if metrics is None else "done"
            self._run.write(Record(cell, status, metrics, error, provenance, timings))
        except (TypeError, ValueError):
            error = f"the metrics are not JSON: {traceback.format_exc()}"
            self._run.write(Record(cell, "failed", None, error, provenance, timings))
        del self._open[cell_id]
        if error is None:
            self._reporter.tell("cell_done", cell=cell_id, seconds=timings["seconds"])
        else:
            self._reporter.tell("cell_failed", cell=cell_id, error=error.strip().splitlines()[-1])
