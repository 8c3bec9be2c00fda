"""A worker: a process that takes units from the driver and appends their records to its segment."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from socket import socket
from typing import Any

from maxk_lab.catalogue import load
from maxk_lab.errors import LabWarning
from maxk_lab.execution.provenance import without_places
from maxk_lab.execution.record import Record
from maxk_lab.execution.store import Segment
from maxk_lab.execution.tasks import Task
from maxk_lab.files import StorageError
from maxk_lab.installed import open_project_folders
from maxk_lab.leaving import Leaving, leave_when, leaving
from maxk_lab.planning.identity import without_paths
from maxk_lab.seeds import derive_seed, seed_generators
from maxk_lab.sweep_file.content import check_content

# The least seconds between two progress messages of one kind.
SECONDS_BETWEEN_EVENTS = 0.5
# The most characters of an error in a record, at its beginning and at its end.
ERROR_CHARACTERS = 10_000
# Modules that torch and statistics import in the first unit: 0.4 s that no cell should pay.
_LATE_MODULES = ("torch.fx.experimental.symbolic_shapes", "scipy.special")
_PR_SET_PDEATHSIG = 1


def main(number: int, argument: str) -> None:
    """Measure the units that come through the socket `number`, until the socket ends.

    `argument` is JSON: the process id of the `driver`, and the modules to import: `lab`, `user`.
    """
    options = json.loads(argument)
    line = socket(fileno=number)
    line.set_inheritable(False)
    # The driver decides when a worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _guard(line, options["driver"])
    warnings.simplefilter("ignore", LabWarning)  # the driver warns
    _import(line, options["lab"], options["user"])
    state = _State()
    segments: dict[str, Segment] = {}
    with line.makefile("rb") as file, suppress(EOFError, OSError):
        while True:
            task: Task = pickle.load(file)
            _send(line, "taken")
            state.restore()
            segment = segments.setdefault(task.root, Segment(Path(task.root) / "records"))
            measure_unit(task, line, segment)


def _guard(line: socket, driver: int) -> None:
    """Have this process and its child processes killed when the driver ends.

    A child waits for the end of the driver's side of the socket, so that this also works while the
    process hangs or is stopped.
    """
    worker = os.getpid()
    if os.fork():
        _signal_after(driver, signal.SIGKILL)
        return
    _signal_after(worker, signal.SIGCONT)  # the child may be stopped, too
    hung_up = select.poll()
    hung_up.register(line, 0)
    while not hung_up.poll():
        pass
    os.killpg(worker, signal.SIGKILL)


def _signal_after(parent: int, number: int) -> None:
    """Have Linux send a signal to this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it ended before the call
            os.kill(os.getpid(), number)


def _import(line: socket, lab: Iterable[str], user: Iterable[str]) -> None:
    """Import the modules of a sweep, in the same order in every worker.

    A unit whose module cannot be imported fails with the error in its record.
    """
    # A module with random numbers at import draws the same in every worker.
    seed_generators(0)
    for module in lab:
        with suppress(Exception):
            import_module(module)
    for module in _LATE_MODULES if "torch" in sys.modules else ():
        import_module(module)
    _send(line, "lab_imported")
    open_project_folders()
    for module in user:
        with suppress(Exception, SystemExit, KeyboardInterrupt):
            import_module(module)
    _send(line, "ready")


class _State:
    """The state of the process after its imports, at which every unit begins."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        torch: Any = sys.modules.get("torch")
        self._dtype = None if torch is None else torch.get_default_dtype()

    def restore(self) -> None:
        os.chdir(self._folder)
        if self._dtype is not None:
            sys.modules["torch"].set_default_dtype(self._dtype)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)


def _send(line: socket, name: str, **payload: Any) -> None:
    line.sendall(json.dumps([name, payload], default=str).encode() + b"\n")


def measure_unit(task: Task, line: socket, segment: Segment) -> None:
    """Measure the cells of a task and append their records; an error of a cell is its record.

    A user's function cannot end the process by an exception, not even by `SystemExit`.
    """
    work = _Work(task, line, segment)
    leave_when(work.leaving)
    try:
        try:
            try:
                measure = load(task.measure)
            finally:  # imports do not count as time of a cell
                work.send("unit_started", pid=os.getpid())
                work.since = time.monotonic()
            # For the generators of user's functions; folders and hashes do not change the seed.
            meaning = {name: value for name, value in task.unit.items() if name != "content"}
            seed_generators(derive_seed("process", without_paths(meaning)))
            check_content(task.unit, task.cells)
            cache = Path(task.root) / "cache"
            work.keep_all(measure(task.unit, list(task.cells), cache=cache, event=work.progress))
        except StorageError:
            raise
        except BaseException as error:
            if isinstance(error, Leaving) and work.leaving():
                work.send("left")
                return
            work.fail_rest(_format_error(error))
        else:
            work.fail_rest(f"{task.measure} returned no result for this cell")
    except StorageError as error:
        # The cell is not at fault: it is measured again when there is space.
        work.send("cannot_write", error=str(error))
    work.send("unit_finished")


def _format_error(error: BaseException) -> str:
    """Return the traceback of an error, also if the error cannot be printed."""
    try:
        text = without_places("".join(traceback.format_exception(error)))
    except BaseException:
        text = f"{type(error).__name__}, which cannot be printed"
    if len(text) <= 2 * ERROR_CHARACTERS:
        return text
    dropped = len(text) - 2 * ERROR_CHARACTERS
    head, tail = text[:ERROR_CHARACTERS], text[-ERROR_CHARACTERS:]
    return f"{head}\n[{dropped} characters are left out]\n{tail}"


class _Work:
    """A task in progress: its cells without a record, and the socket to the driver.

    Messages are lines of JSON, so that the driver runs no code of a user when it reads them.
    """

    def __init__(self, task: Task, line: socket, segment: Segment) -> None:
        self._task, self._line, self._segment = task, line, segment
        self._process = os.getpid()
        self._cells = {cell["id"]: cell for cell in task.cells}
        # The times of the last progress message of each kind, and of the last record.
        self._sent: dict[str, float] = {}
        self.since = time.monotonic()

    def send(self, name: str, **payload: Any) -> None:
        """Send a message, unless this process is a copy of the worker."""
        if os.getpid() != self._process:
            os._exit(0)  # a user's function forked, and the copy came back
        try:
            _send(self._line, name, **payload)
        except OSError:
            os._exit(1)  # the driver is gone, or a user's function closed the socket

    def progress(self, name: str, payload: dict[str, Any]) -> None:
        """Send the progress of a phase, if the last message is old enough."""
        now = time.monotonic()
        if now - self._sent.get(name, -SECONDS_BETWEEN_EVENTS) >= SECONDS_BETWEEN_EVENTS:
            self._sent[name] = now
            self.send("progress", phase=name, **payload)

    def leaving(self) -> bool:
        """Return whether the driver closed its end for writing; it writes nothing during a task."""
        return bool(select.select([self._line], [], [], 0)[0])

    def keep_all(self, results: Iterable[tuple[str, dict[str, Any] | Exception]]) -> None:
        """Append a record for each result. Raises `Leaving` if the driver asks to stop."""
        for cell_id, result in results:
            if cell_id not in self._cells:
                raise ValueError(
                    f"{self._task.measure} returned a result for {cell_id!r}, "
                    "which is no cell of the unit or is done"
                )
            if isinstance(result, StorageError):
                raise result
            if isinstance(result, BaseException):
                self._keep(cell_id, error=_format_error(result))
            else:
                # The user may have edited the code meanwhile.
                check_content(self._task.unit, [self._cells[cell_id]])
                self._keep(cell_id, metrics=result)
            if self._cells and leaving():
                raise Leaving

    def fail_rest(self, error: str) -> None:
        """Append a failed record for each cell without one."""
        for cell_id in list(self._cells):
            self._keep(cell_id, error=error)

    def _keep(
        self, cell_id: str, *, metrics: dict[str, Any] | None = None, error: str | None = None
    ) -> None:
        # The first cell of a unit carries the time of the shared work.
        now = time.monotonic()
        clock = {"seconds": round(now - self.since, 6), "finished": round(time.time(), 3)}
        self.since = now
        # Metrics are equal in every run; times are not.
        timings = (metrics or {}).get("timings", {}) | clock
        if metrics is not None:
            metrics = {name: value for name, value in metrics.items() if name != "timings"}
        cell, origin = self._cells[cell_id], self._task.provenance
        try:
            record = Record(cell, "failed" if error else "done", metrics, error, origin, timings)
            line = record.to_line(self._task.attempt)
        except Exception as refused:  # the timings of the user, too
            error = f"the metrics cannot be kept: {_format_error(refused)}"
            line = Record(cell, "failed", None, error, origin, clock).to_line(self._task.attempt)
        if os.getpid() != self._process:
            os._exit(0)  # as in `send`
        self._segment.append(line)
        del self._cells[cell_id]
        self.send("recorded")
