"""The pool: long-lived worker processes of this machine, their clock and their memory."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any, Self

import psutil

from maxk_lab.errors import RefusedError, warn
from maxk_lab.execution.devices import VARIABLE, Devices
from maxk_lab.execution.tasks import Event, Modules, Task
from maxk_lab.files import StorageError
from maxk_lab.installed import current_folder
from maxk_lab.sweep_file.execution import Execution, spelled, spelled_size

# One thread for each worker. The check for CUDA asks the driver, which is fast.
_ENVIRONMENT = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
) | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
_PROGRAM = (
    "import sys; line, argument, sys.path[:] = int(sys.argv[1]), sys.argv[2], sys.argv[3:]; "
    "from maxk_lab.execution.worker import main; main(line, argument)"
)
# Seconds to import modules (a loaded machine needs minutes), and to take a task.
IMPORT_SECONDS, TAKE_SECONDS = 600.0, 4.0
# Seconds between two checks of the workers' memory: each takes a millisecond or two.
MEMORY_SECONDS = 0.1
# Workers in a row that may end before they are ready.
_STARTS = 3
_CHUNK_BYTES = 2**16


class Worker:
    """A worker process as its driver sees it; `pid` is the id of its process group, too."""

    def __init__(self, devices: str | None, modules: Modules, folder: str | None = None) -> None:
        """Start the process in `folder`, or in the current one. Raises `OSError`."""
        self.devices = devices
        self.line, end = socket.socketpair()
        options = json.dumps({"driver": os.getpid(), **modules._asdict()})
        visible = {} if devices is None else {VARIABLE: devices}
        try:
            # The worker imports nothing of the calling script, and prints to stderr.
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(end.fileno()), options, *sys.path],
                pass_fds=[end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,
                env=os.environ | _ENVIRONMENT | visible,
                cwd=folder,
                # Ctrl-C in a terminal reaches the driver only.
                start_new_session=True,
            )
        except BaseException:
            self.line.close()
            raise
        finally:
            end.close()
        self.line.setblocking(False)
        self.pid = self.process.pid
        # None between two tasks; the worker reports when it has taken a task.
        self.task: Task | None = None
        self.ready = self.has_begun = False
        # None before the modules of the lab are imported.
        self.lab_imported: float | None = None
        # When it started, and when its clock started: at its last record, or with its task.
        self.started = self.since = time.monotonic()
        self._unread = b""

    @property
    def ending(self) -> str:
        """How the process ended, e.g. `signal SIGKILL`, or `exit code 9`."""
        code = self.process.poll()
        if code is not None and code < 0:
            with suppress(ValueError):  # a real-time signal has no name
                return f"signal {signal.Signals(-code).name}"
            return f"signal {-code}"
        return f"exit code {code}"

    def begin(self, task: Task) -> None:
        """Send a task to the worker. Its clock starts when the measuring function is imported."""
        self.task, self.has_begun, self.since = task, False, time.monotonic() + IMPORT_SECONDS
        self.line.settimeout(TAKE_SECONDS)
        try:
            self.line.sendall(pickle.dumps(task))
        except OSError:
            self.kill()  # a ready worker that takes no task is dead or stopped
        self.line.setblocking(False)

    def leave(self) -> None:
        """Ask the worker to stop its task at a checkpoint, and to end."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """Kill the worker and all processes that it started."""
        # PermissionError: macOS raises it for processes that have ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the worker and wait for its end."""
        self.kill()
        self.process.wait()
        self.kill()  # what it started before it ended
        self.line.close()

    def messages(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the messages since the last call, without waiting. Raises `ValueError`."""
        while True:
            try:
                chunk = self.line.recv(_CHUNK_BYTES)
            except OSError:
                return
            if not chunk:
                self.kill()  # a user's function closed the socket, or the worker is dead
                return
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            yield from map(json.loads, lines)


class Pool:
    """At most `jobs` workers of this machine, each with one device if `gpus` or the tasks say so.

    A worker that dies, hangs or grows too large loses its task, and another takes its place. Raises
    `LabError` if the machine has no device for any worker.
    """

    def __init__(
        self, execution: Execution, jobs: int, tasks: Sequence[Task], modules: Modules
    ) -> None:
        self._execution, self._modules = execution, modules
        self._devices = Devices(execution.gpus)
        most = self._devices.most()
        if most is not None and most < jobs:
            warn(f"execution.gpus leaves devices for {most} of {jobs} workers: no more are started")
            jobs = most
        self._jobs = jobs
        self._on_device = self._devices.wanted_by(any(task.on_device for task in tasks))
        self._workers: list[Worker] = []
        # W&B changes the current folder for a moment while workers may start.
        self._folder = next(iter(current_folder()), None)
        # Starts that may fail before the run is given up.
        self._starts = _STARTS
        # The bytes of each process group, and when they were counted.
        self._memory: dict[int, int] = {}
        self._counted = 0.0
        # The time at which workers are killed, after `leave`.
        self._deadline: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.close()

    @property
    def room(self) -> int:
        """The number of workers that wait for a task."""
        return sum(worker.ready and worker.task is None for worker in self._workers)

    def begin(self, task: Task) -> None:
        """Give a task to an idle worker."""
        next(w for w in self._workers if w.ready and w.task is None).begin(task)

    def leave(self, seconds: float) -> None:
        """Have every worker write a checkpoint and end; kill workers that take longer."""
        self._deadline = time.monotonic() + seconds
        for worker in self._workers:
            worker.leave()
            worker.ready = False

    def events(self, seconds: float, waiting: int) -> Iterator[Event]:
        """Yield the events since the last call; start workers for the `waiting` tasks.

        Raises `StorageError` if a worker cannot write, `RefusedError` if no worker starts.
        """
        if self._deadline is None:
            self._start(waiting)
        wait([worker.line for worker in self._workers], seconds)
        self._count_memory()
        for worker in list(self._workers):
            yield from self._listen(worker)
            fault = self._fault(worker)
            if fault is not None:
                worker.close()
                self._workers.remove(worker)
                self._devices.give(worker.devices)
                if worker.task is not None:
                    yield Event(worker.task.key, *fault)
                elif not worker.ready and self._deadline is None:
                    self._note_failed_start()

    def _start(self, waiting: int) -> None:
        """Start workers while tasks wait and there is room."""
        idle = sum(worker.task is None for worker in self._workers)
        while idle < waiting and len(self._workers) < self._jobs:
            devices = self._devices.take(self._on_device)
            try:
                self._workers.append(Worker(devices, self._modules, self._folder))
            except OSError as error:
                self._devices.give(devices)
                if self._workers:
                    return
                reason = error.strerror or error
                raise RefusedError(f"no worker process can be started: {reason}") from error
            idle += 1

    def _note_failed_start(self) -> None:
        """Let the next workers import the user's modules with the units that need them.

        The record of such a unit then has the reason. Raises `RefusedError` after three workers.
        """
        self._modules = self._modules._replace(user=())
        self._starts -= 1
        if not self._starts:
            raise RefusedError(
                "three workers ended, or imported for over 10 minutes, before their first task"
            )

    def _listen(self, worker: Worker) -> Iterator[Event]:
        """Yield the events in the messages of a worker; kill it after an invalid message."""
        try:
            for name, payload in worker.messages():
                if name not in ("progress", "taken"):
                    worker.since = time.monotonic()
                if name == "taken":
                    worker.has_begun = True
                elif name == "lab_imported":
                    worker.lab_imported = worker.since
                elif name == "ready":
                    worker.ready, self._starts = self._deadline is None, _STARTS
                elif name == "cannot_write":
                    raise StorageError(payload["error"])
                elif worker.task is not None and name != "recorded":
                    task = worker.task
                    if name == "unit_started":
                        payload["cell_ids"] = [cell["id"] for cell in task.cells]
                    if name in ("unit_finished", "left"):
                        worker.task = None
                    yield Event(task.key, name, payload)
        except (ValueError, TypeError, KeyError):
            worker.kill()  # a user's function wrote to the socket

    def _fault(self, worker: Worker) -> tuple[str, dict[str, Any]] | None:
        """Return the event that ends the task of a worker: dead, too slow or too large; or None."""
        now = time.monotonic()
        if self._deadline is not None:
            ended = worker.process.poll() is not None
            idle = worker.task is None
            return ("left", {}) if ended or idle or now >= self._deadline else None
        if worker.process.poll() is not None:
            if not worker.has_begun:
                return "unit_finished", {}  # it died while it was idle: no cell is at fault
            why = f"the worker process died while measuring ({worker.ending})"
            why += ": out of memory, killed, or ended by code that was called"
            return "lost", {"why": why}
        limits = self._execution
        if not worker.ready:
            slow = now - (worker.lab_imported or worker.started) > self._patience(worker)
            return ("lost", {}) if slow else None
        if worker.task is None:
            return None
        if limits.memory is not None and self._memory.get(worker.pid, 0) > limits.memory:
            why = f"took more than execution.memory, {spelled_size(limits.memory)}"
            return "lost", {"why": why}
        if limits.timeout is None or now - worker.since <= limits.timeout:
            return None
        why = f"took longer than execution.timeout, {spelled(limits.timeout)}, for a cell"
        return "lost", {"why": why}

    def _patience(self, worker: Worker) -> float:
        """Return the seconds that a worker has to import the modules that it imports now."""
        limit = self._execution.timeout if worker.lab_imported else None
        return min(limit or IMPORT_SECONDS, IMPORT_SECONDS)

    def _count_memory(self) -> None:
        """Count the resident memory of each worker with all processes of its group."""
        now = time.monotonic()
        if self._execution.memory is None or now - self._counted < MEMORY_SECONDS:
            return
        self._counted, self._memory = now, dict.fromkeys((w.pid for w in self._workers), 0)
        for pid in psutil.pids():
            with suppress(OSError, psutil.Error):  # it ended meanwhile
                if (group := os.getpgid(pid)) in self._memory:
                    self._memory[group] += psutil.Process(pid).memory_info().rss
