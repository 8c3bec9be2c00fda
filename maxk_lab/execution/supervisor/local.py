"""The local backend: a process per unit, and each failure kept to the unit that it concerns."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

import psutil

from maxk_lab.errors import RefusedError, warn
from maxk_lab.execution.backends.backend import Backend, Event, Task
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.supervisor.devices import Devices
from maxk_lab.execution.supervisor.fork_server import FORKS, Child, ForkServer
from maxk_lab.files import StorageError
from maxk_lab.sweep_file.execution import Execution, spelled, spelled_size

# A process gets no other unit once it is so old: a start costs some hundredths of a second.
SHARED_SECONDS = 1.0
# Seconds that a process has to import what its task needs, before the clock of the task runs.
LOADING = 120.0
# Seconds between two looks at the memory of the workers: each takes a millisecond or two.
BETWEEN_LOOKS = 0.1
# So many servers in a row that end, and no unit begun meanwhile, are no accident.
_STARTS = 3


class LocalBackend(Backend):
    """Processes of this machine, at most `jobs`, forked from a server as they are needed.

    Each unit has a process to itself, but units that call no function of the user's and follow each
    other within a second share one. A process that dies, or takes more time or memory than it may,
    takes nothing with it, and its task is told as lost. Raises `LabError` where there is no device
    for any process.
    """

    here = True

    def __init__(
        self, run: RunDirectory, execution: Execution, jobs: int, tasks: Sequence[Task]
    ) -> None:
        del run  # a task says where its records belong
        self._devices = Devices(execution.gpus)
        most = self._devices.most()
        if most is not None and most < jobs:
            warn(f"execution.gpus leaves devices for {most} of {jobs} workers: no more are started")
            jobs = most
        self._jobs, self._execution = jobs, execution
        # The bytes of each process group, and when they were counted.
        self._memory, self._looked = dict[int, int](), 0.0
        self._lab = {module for task in tasks for module in task.lab} if FORKS else set[str]()
        # What a module does to its process when it is imported is for the units that name it.
        sets = {task.own for task in tasks} if FORKS else set[tuple[str, ...]]()
        self._own = sets.pop() if len(sets) == 1 else ()
        self._server: ForkServer | None = None
        # The starts that are left until a unit begins.
        self._starts = _STARTS
        self._waiting: deque[Task] = deque()
        self._open: dict[Child, Task] = {}
        # All that have not ended.
        self._children: list[Child] = []
        # The time by which every task has been left.
        self._leaving: float | None = None

    def __exit__(self, *error: object) -> None:
        """End every process that is left."""
        if self._server is not None:
            self._server.close()

    @property
    def room(self) -> int:
        """The processes that there may be without a task."""
        return self._jobs - len(self._waiting) - len(self._open)

    def submit(self, task: Task) -> None:
        """Take a task, which a process begins at the next call of `events`."""
        self._waiting.append(task)

    def leave(self, seconds: float) -> None:
        """Ask every process to write a checkpoint and to leave; end those that take longer."""
        self._leaving = time.monotonic() + seconds
        for child in self._open:
            child.leave()

    def events(self, seconds: float) -> Iterator[Event]:
        """Yield what the processes told, and what became of those that died or were too slow.

        Raises `StorageError` where records cannot be written, `RefusedError` where no process
        starts.
        """
        if self._leaving is None:
            self._begin()
        else:
            yield from self._left(self._leaving)
        self._hear(seconds)
        self._look_at_memory()
        for child in list(self._open):
            yield from self._listen(child)
            if child in self._open and (lost := self._fault(child)) is not None:
                child.kill()
                yield Event(self._open.pop(child).key, "lost", lost)

    def _look_at_memory(self) -> None:
        """Count the memory of all processes with a task, if it is time to.

        It is the resident one of a process group: what its processes share is counted for each of
        them, and one that has left its group is not seen.
        """
        now = time.monotonic()
        if self._execution.memory is None or now - self._looked < BETWEEN_LOOKS:
            return
        self._looked, self._memory = now, dict.fromkeys((child.pid for child in self._open), 0)
        for pid in psutil.pids():
            with suppress(OSError, psutil.Error):  # it has ended meanwhile
                if (group := os.getpgid(pid)) in self._memory:
                    self._memory[group] += psutil.Process(pid).memory_info().rss

    def _fault(self, child: Child) -> dict[str, Any] | None:
        """Return why a process loses its task: it has ended, or exceeds a limit; None: it does not.

        A limit of time would be met again.
        """
        limits, now = self._execution, time.monotonic()
        if child.code is not None:
            why = f"the worker process died while measuring ({child.ending})"
            why += ": out of memory, killed, or ended by code that was called"
            return {"why": why, "ending": child.ending}
        if limits.memory is not None and self._memory.get(child.pid, 0) > limits.memory:
            why = f"took more than execution.memory, {spelled_size(limits.memory)}"
            return {"why": why, "ending": why}
        if limits.timeout is None or now - child.since <= limits.timeout:
            return None
        why = f"took longer than execution.timeout, {spelled(limits.timeout)}, for a cell"
        return {"why": why, "ending": why, "may_pass": False}

    def _hear(self, seconds: float) -> None:
        """Wait for something to happen, and take in which processes have ended."""
        server = self._server
        if server is None or server.ended:
            return
        wait([server.line, *(child.line for child in self._open if child.code is None)], seconds)
        server.listen()
        for child in [one for one in self._children if one.code is not None]:
            if child not in self._open:
                self._children.remove(child)
                self._devices.give(child.devices)
                child.line.close()

    def _begin(self) -> None:
        """Give what waits to processes, of which new ones are started if they are needed."""
        server = self._ready_server() if self._waiting else None
        while server is not None and self._waiting:
            child = self._child(server, self._waiting[0])
            if child is None:
                return
            self._open[child] = task = self._waiting.popleft()
            child.since = time.monotonic() + LOADING
            child.begin(task)

    def _ready_server(self) -> ForkServer | None:
        """Return the server once it has imported all; a new one is begun where it has ended.

        Without the user's modules, if it was these that ended it or take too long: then each unit
        imports them, and has what they do in its record. Raises `RefusedError` where none begins.
        """
        server = self._server
        if server is not None and server.ready and not server.ended:
            return server
        if server is not None:
            if not (server.ready or server.ended):
                return None
            if not server.ready and self._own:
                self._own = ()
            elif self._starts:
                self._starts -= 1
            else:
                raise RefusedError(
                    "worker processes end before they begin to work; see the messages above"
                )
            server.close()
        try:
            patience = min(self._execution.timeout or LOADING, LOADING)
            self._server = ForkServer(self._lab, self._own, patience)
        except OSError as error:
            raise RefusedError(f"no worker process can be started: {error.strerror}") from error
        return None

    def _child(self, server: ForkServer, task: Task) -> Child | None:
        """Return a process for a task; None where there is none, and no room for another."""
        on_device, now = self._devices.wanted_by(task.on_device), time.monotonic()
        for child in [one for one in self._children if one.idle]:
            young = now - child.born < SHARED_SECONDS and not task.own
            if (young or not FORKS) and (child.devices != "" or not on_device):
                child.idle = False
                return child
            child.leave()
        ending = [child for child in self._children if child not in self._open]
        if len(self._open) + sum(bool(child.devices) for child in ending) >= self._jobs:
            return None
        devices = self._devices.take(on_device)
        try:
            child = server.start(devices)
        except OSError as error:
            self._devices.give(devices)
            if self._open or server.ended:
                return None  # those that run do the work
            raise RefusedError(f"no worker process can be started: {error.strerror}") from error
        self._children.append(child)
        return child

    def _left(self, end: float) -> Iterator[Event]:
        """Yield which tasks no process has any more; those that take too long lose theirs."""
        late = list(self._open) if time.monotonic() >= end else []
        for child in late:
            child.kill()
        for task in (*self._waiting, *map(self._open.pop, late)):
            yield Event(task.key, "left", {})
        self._waiting.clear()

    def _listen(self, child: Child) -> Iterator[Event]:
        """Yield the events of a process to pass on; one that tells what is none is killed."""
        try:
            for name, payload in child.events():
                yield from self._noted(child, name, payload)
        except (ValueError, TypeError, KeyError):
            child.kill()  # a function of the user has written to the line

    def _noted(self, child: Child, name: str, payload: dict[str, Any]) -> Iterator[Event]:
        """Take note of an event, and yield what there is to pass on."""
        task = self._open[child]
        if name == "cannot_write":
            raise StorageError(payload["error"])
        if name in ("unit_finished", "left"):
            del self._open[child]
            child.idle = not (task.own and FORKS) and self._leaving is None
            if not child.idle:
                child.leave()
        if name == "unit_started":
            self._starts = _STARTS
            payload["cell_ids"] = [cell["id"] for cell in task.cells]
        if name == "record":
            payload["line"] = payload["line"].encode()
        if name != "progress":
            child.since = time.monotonic()
        yield Event(task.key, name, payload)
