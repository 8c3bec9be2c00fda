"""The work of a worker process: measure the cells of a unit and send each record at once."""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket
from typing import Any

from maxk_lab.calls import Leaving, leaving, watch
from maxk_lab.catalogue import load
from maxk_lab.errors import error_line
from maxk_lab.files import WRITING, StorageError
from maxk_lab.process_state import seed_generators, unchanged
from maxk_lab.seeds import derive_seed
from maxk_lab.sweeps.places import without_places
from maxk_lab.sweeps.plan.content import check_content
from maxk_lab.sweeps.plan.identity import without_paths
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.store import Head, Status
from maxk_lab.sweeps.run.workers.board import Board
from maxk_lab.sweeps.run.workers.devices import VARIABLE

# Progress of one kind is reported at most this often, or the log would outgrow the records.
SECONDS_BETWEEN_EVENTS = 0.5
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# The characters of an error that a record keeps: its beginning, and its end, which says most.
KEPT_OF_ERROR = 10_000


@dataclass(frozen=True)
class Task:
    """A unit to measure, as plain data: what a worker needs to know."""

    # The id of the unit, also where not all of its cells are to be measured.
    key: str
    label: str
    # Its work, in units of a trajectory's decision.
    work: float
    # Whether the cells rest on work that is done once for all of them.
    shares: bool
    unit: dict[str, Any]
    cells: tuple[dict[str, Any], ...]
    root: str
    measure: str
    provenance: dict[str, Any]
    # Whether it can use a CUDA device.
    on_device: bool = False
    # One more than any of its cells has been measured before.
    attempt: int = 1

    def unmeasured(self, heads: Mapping[str, Head]) -> Task:
        """Return the task without the cells that somebody has measured since it was planned."""
        cells = (
            cell
            for cell in self.cells
            if (head := heads.get(cell["id"])) is None or head.attempt < self.attempt
        )
        return replace(self, cells=tuple(cells))


def work(line: socket, board: Board, devices: str | None) -> None:
    """Measure the tasks that come through `line`, and tell their events through it, until it ends.

    Of the CUDA devices it sees those that `devices` names; None: as its parent does. The process
    has one thread to compute with and a group of its own, which Ctrl-C in a terminal does not
    reach: the parent decides when it ends. It leaves as soon as the parent stops or dies.
    """
    os.setsid()
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if devices is not None:
        os.environ[VARIABLE] = devices
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _print_to_stderr()
    watch(board)
    tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(line, tasks), daemon=True).start()
    _send(line, "ready", {})
    while True:
        run_unit(tasks.get(), line)


def _receive(line: socket, tasks: queue.SimpleQueue[Task]) -> None:
    """Take in tasks; at the end of the line, which only the parent holds, leave between two files.

    What the functions of the user have started goes, too.
    """
    try:
        with line.makefile("rb") as file:
            while True:
                tasks.put(pickle.load(file))
    except (EOFError, OSError, pickle.UnpicklingError):
        with WRITING:
            os.killpg(os.getpid(), signal.SIGKILL)


def _print_to_stderr() -> None:
    """Send what a function of the user prints to stderr: stdout is for the results of the verb."""
    try:
        os.dup2(sys.__stderr__.fileno() if sys.__stderr__ else -1, 1)
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _send(line: socket, name: str, payload: dict[str, Any]) -> None:
    """Send an event as a line of JSON, which cannot be made to run anything where it is read."""
    try:
        line.sendall(json.dumps([name, payload], default=str).encode() + b"\n")
    except OSError:
        # The parent is gone, or a function of the user has closed the line: nobody listens.
        os._exit(1)


def run_unit(task: Task, line: socket) -> None:
    """Measure the cells of a task; an error with a cell becomes its record and is not raised.

    Nothing that a function of the user raises ends the process, not even `SystemExit`. Each unit
    finds the process in the same state, whatever has been measured before it.
    """
    reporter = _Reporter(line, task)
    # No cell's time pays for what a new worker imports. What this raises is raised again below.
    with suppress(BaseException):
        load(task.measure)
    cache = Path(task.root) / "cache"
    reporter.tell("unit_started", pid=os.getpid())
    measuring = _Measuring(task, reporter)
    try:
        try:
            measure = load(task.measure)
            with unchanged():
                # For the functions of the user: the lab draws from generators of its own.
                seed_generators(_process_seed(task.unit))
                check_content(task.cells[0]["study"], task.unit, task.cells)
                results = measure(task.unit, list(task.cells), cache=cache, event=reporter.progress)
                measuring.write_all(results)
        except StorageError:
            raise
        except Leaving:
            reporter.tell("left")
            return
        except BaseException as error:
            measuring.fail_rest(_told(error))
        else:
            measuring.fail_rest(f"{task.measure} gave no result for this cell")
    except StorageError as error:
        # No fault of the cell: it is measured when there is room for its record.
        reporter.tell("cannot_write", error=str(error))
    reporter.tell("unit_finished")


def _process_seed(unit: Mapping[str, Any]) -> int:
    """The seed of global generators: neither places nor the content of code change it."""
    told = {name: value for name, value in unit.items() if name != "content"}
    return derive_seed("process", without_paths(told))


def _told(error: BaseException) -> str:
    """Return the traceback of an error, whatever the user's own class of errors does."""
    try:
        text = without_places("".join(traceback.format_exception(error)))
    except BaseException:
        text = f"{type(error).__name__}, which cannot be told"
    if len(text) <= 2 * KEPT_OF_ERROR:
        return text
    left_out = len(text) - 2 * KEPT_OF_ERROR
    return f"{text[:KEPT_OF_ERROR]}\n[{left_out} characters are left out]\n{text[-KEPT_OF_ERROR:]}"


class _Reporter:
    def __init__(self, line: socket, task: Task) -> None:
        self._line, self._task, self._process = line, task, os.getpid()
        self._last: dict[str, float] = {}

    def tell(self, name: str, **payload: Any) -> None:
        self.leave_copies()
        _send(self._line, name, {"unit": self._task.label, "key": self._task.key, **payload})

    def leave_copies(self) -> None:
        """End here in a copy of the process: a function of the user that forked came back twice."""
        if os.getpid() != self._process:
            os._exit(0)

    def progress(self, name: str, payload: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last.get(name, -SECONDS_BETWEEN_EVENTS) >= SECONDS_BETWEEN_EVENTS:
            self._last[name] = now
            self.tell("progress", phase=name, **payload)


class _Measuring:
    def __init__(self, task: Task, reporter: _Reporter) -> None:
        self._task, self._reporter = task, reporter
        self._open = {cell["id"]: cell for cell in task.cells}
        self._since = time.monotonic()

    def write_all(self, results: Iterable[tuple[str, dict[str, Any] | Exception]]) -> None:
        for cell_id, result in results:
            if cell_id not in self._open:
                raise ValueError(
                    f"{self._task.measure} gave a result for {cell_id!r}, "
                    "which was not asked for or is done"
                )
            if isinstance(result, StorageError):
                raise result
            if isinstance(result, BaseException):
                self._write(cell_id, error=_told(result))
            else:
                # Code that was edited meanwhile may be what has measured it.
                check_content(self._open[cell_id]["study"], self._task.unit, [self._open[cell_id]])
                self._write(cell_id, metrics=result)
            if self._open and leaving():
                raise Leaving

    def fail_rest(self, error: str) -> None:
        for cell_id in list(self._open):
            self._write(cell_id, error=error)

    def _write(
        self, cell_id: str, *, metrics: dict[str, Any] | None = None, error: str | None = None
    ) -> None:
        self._reporter.leave_copies()
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
            record = Record(cell, status, metrics, error, provenance, timings)
            line = record.to_line(self._task.attempt)
        except Exception as refused:
            error = f"the metrics cannot be kept: {_told(refused)}"
            record = Record(cell, "failed", None, error, provenance, timings)
            line = record.to_line(self._task.attempt)
        del self._open[cell_id]
        told = {"cell": cell_id, "record": line.decode()}
        if error is None:
            self._reporter.tell("cell_done", **told, seconds=timings["seconds"])
        else:
            self._reporter.tell("cell_failed", **told, error=error_line(error))
