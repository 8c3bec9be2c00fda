"""The work of a process that measures: it takes units, and sends each record at once."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import Any

from maxk_lab.catalogue import load
from maxk_lab.execution.backends.backend import Task
from maxk_lab.execution.places import without_places
from maxk_lab.execution.record import Record
from maxk_lab.execution.supervisor.devices import VARIABLE
from maxk_lab.files import StorageError
from maxk_lab.leaving import Leaving, leave_when, leaving
from maxk_lab.planning.identity import without_paths
from maxk_lab.seeds import derive_seed, seed_generators
from maxk_lab.sweep_file.content import check_content

# Progress of one kind is reported at most this often, or the log would outgrow the records.
SECONDS_BETWEEN_EVENTS = 0.5
# The characters of an error that a record keeps: its beginning, and its end, which says most.
KEPT_OF_ERROR = 10_000


def main(number: int, devices: str) -> None:
    """Work at the end of the socket of this number, in a process that is no copy of another."""
    work(socket(fileno=number), json.loads(devices))


def work(line: socket, devices: str | None) -> None:
    """Measure the tasks that come through `line`, and tell their events through it, until its end.

    Of the CUDA devices it sees those that `devices` names; None: as its parent does. Only the
    driver holds the other end, and the server ends this process where that closes meanwhile.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if devices is not None:
        os.environ[VARIABLE] = devices
    with line.makefile("rb") as file, suppress(EOFError, OSError):
        while True:
            run_unit(pickle.load(file), line)


def run_unit(task: Task, line: socket) -> None:
    """Measure the cells of a task; an error with a cell becomes its record and is not raised.

    Nothing that a function of the user raises ends the process, not even `SystemExit`.
    """
    work = _Work(task, line)
    leave_when(work.leaving)
    try:
        try:
            try:
                measure = load(task.measure)
            finally:  # no cell's time pays for an import
                work.tell("unit_started", pid=os.getpid())
                work.since = time.monotonic()
            # For the functions of the user: the lab draws from generators of its own. Neither
            # places nor the content of code change the seed.
            told = {name: value for name, value in task.unit.items() if name != "content"}
            seed_generators(derive_seed("process", without_paths(told)))
            check_content(task.unit, task.cells)
            cache = Path(task.root) / "cache"
            work.keep_all(measure(task.unit, list(task.cells), cache=cache, event=work.progress))
        except StorageError:
            raise
        except BaseException as error:
            if isinstance(error, Leaving) and work.leaving():
                work.tell("left")
                return
            work.fail_rest(_told(error))
        else:
            work.fail_rest(f"{task.measure} gave no result for this cell")
    except StorageError as error:
        # No fault of the cell: it is measured when there is room for its record.
        work.tell("cannot_write", error=str(error))
    work.tell("unit_finished")


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


class _Work:
    """A task in hand, and the events that the driver reads of it.

    Events are lines of JSON, so that reading them runs no code of a user.
    """

    def __init__(self, task: Task, line: socket) -> None:
        self._task, self._line, self._process = task, line, os.getpid()
        self._open = {cell["id"]: cell for cell in task.cells}
        # When progress of each kind was told last, and the last record.
        self._last: dict[str, float] = {}
        self.since = time.monotonic()

    def tell(self, name: str, **payload: Any) -> None:
        if os.getpid() != self._process:
            os._exit(0)  # a copy: a function of the user that forked came back twice
        try:
            self._line.sendall(json.dumps([name, payload], default=str).encode() + b"\n")
        except OSError:
            # The driver is gone, or a function of the user has closed the line: nobody listens.
            os._exit(1)

    def progress(self, name: str, payload: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last.get(name, -SECONDS_BETWEEN_EVENTS) >= SECONDS_BETWEEN_EVENTS:
            self._last[name] = now
            self.tell("progress", phase=name, **payload)

    def leaving(self) -> bool:
        """Whether the driver has closed its end for writing: nothing else comes during a task."""
        return bool(select.select([self._line], [], [], 0)[0])

    def keep_all(self, results: Iterable[tuple[str, dict[str, Any] | Exception]]) -> None:
        for cell_id, result in results:
            if cell_id not in self._open:
                raise ValueError(
                    f"{self._task.measure} gave a result for {cell_id!r}, "
                    "which was not asked for or is done"
                )
            if isinstance(result, StorageError):
                raise result
            if isinstance(result, BaseException):
                self._keep(cell_id, error=_told(result))
            else:
                # Code that was edited meanwhile may be what has measured it.
                check_content(self._task.unit, [self._open[cell_id]])
                self._keep(cell_id, metrics=result)
            if self._open and leaving():
                raise Leaving

    def fail_rest(self, error: str) -> None:
        for cell_id in list(self._open):
            self._keep(cell_id, error=error)

    def _keep(
        self, cell_id: str, *, metrics: dict[str, Any] | None = None, error: str | None = None
    ) -> None:
        # The first cell of a unit carries the time of what all share: they add up to the unit.
        now = time.monotonic()
        clock = {"seconds": round(now - self.since, 6), "finished": round(time.time(), 3)}
        self.since = now
        # Metrics are the same on every run; what a clock said belongs with the timings.
        timings = (metrics or {}).get("timings", {}) | clock
        if metrics is not None:
            metrics = {name: value for name, value in metrics.items() if name != "timings"}
        cell, about = self._open[cell_id], (self._task.provenance, timings)
        try:
            record = Record(cell, "failed" if error else "done", metrics, error, *about)
            line = record.to_line(self._task.attempt)
        except Exception as refused:
            error = f"the metrics cannot be kept: {_told(refused)}"
            line = Record(cell, "failed", None, error, *about).to_line(self._task.attempt)
        del self._open[cell_id]
        self.tell("record", line=line.decode())
