"""A worker process as its parent sees it: given tasks, listened to, and ended whatever it does."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pickle
import signal
import socket
import time
from collections.abc import Iterable, Iterator
from itertools import count
from multiprocessing import resource_tracker, spawn
from typing import Any

from maxk_lab.sweeps.run.store import MOST_BYTES
from maxk_lab.sweeps.run.workers.board import Board
from maxk_lab.sweeps.run.workers.guard import Guard, kill_group
from maxk_lab.sweeps.run.workers.worker import Task, work

# Seconds that a worker has to leave between two files, then after SIGTERM, then after SIGKILL.
# Only a process that the system itself holds up, as for a lost disk, outlasts all three.
ASKED, TERMINATED, KILLED = 1.5, 1.0, 1.0
# Seconds that a worker has to import what its task needs, before the clock of the task runs.
_LOADING = 120.0
_TICK = 0.02
# The bytes of the longest line that a worker tells, and of what is read at once.
LONGEST = 2 * MOST_BYTES
_PART = 2**16
_PARTS = 100


class Worker:
    """A worker process: the line to it, its board, the devices that it sees, the task that it has.

    Nothing here waits for the process, which may be stopped, or stuck, in the middle of a word.
    """

    def __init__(self, guard: Guard, devices: str | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = socket.socketpair()
        self.line.setblocking(False)
        self._unsent, self._unread = b"", b""
        self.board, self._guard, self.devices = Board(), guard, devices
        self.task: Task | None = None
        self.ready = False
        # The time of its last step: its start, that of its unit, or a record.
        self.since = time.monotonic()
        self._process = context.Process(
            target=work, args=(theirs, self.board, devices), name="maxk-lab worker"
        )
        # Python starts it with the first process, and lets Ctrl-C through again when it has.
        resource_tracker.ensure_running()
        # Until it has a group of its own, Ctrl-C in a terminal would reach it, too.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with _without_main():
                self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        guard.add(self.group)

    @property
    def group(self) -> int:
        """The number of its process group, which is that of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs; processes that it has started do not count."""
        return self._process.is_alive()

    @property
    def ending(self) -> str:
        """The way in which the process ended, e.g. `signal SIGKILL`, or `exit code 9`."""
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}"

    def begin(self, task: Task) -> None:
        """Give it a task. One that has just died takes none, which `alive` then tells."""
        self.task, self.since = task, time.monotonic() + _LOADING
        self._unsent = pickle.dumps(task)
        self._send()

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events that it has told since the last call, and send on what it is sent.

        Raises `ValueError` for what is no event: a function of the user has written it.
        """
        self._send()
        # All that is left of one that has ended; of others not so much that nothing else is done.
        for _ in range(_PARTS) if self.alive else count():
            try:
                part = self.line.recv(_PART)
            except BlockingIOError:
                return
            except OSError:
                part = b""
            if not part:
                self.kill()
                return
            *lines, self._unread = (self._unread + part).split(b"\n")
            for text in lines:
                name, payload = json.loads(text)
                yield str(name), dict(payload)
            if len(self._unread) > LONGEST:
                raise ValueError("a line without end")

    def _send(self) -> None:
        """Send as much of the task as the process takes now."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self.line.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""

    def kill(self) -> None:
        """Kill the process and all that it has started, and wait for its end."""
        kill_group(self.group)
        # It may not have its group yet.
        self._process.kill()
        self._process.join(KILLED)
        self._guard.remove(self.group)
        self.line.close()


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Let a process that starts meanwhile leave the main module of this one alone.

    It needs nothing of it. Python would import it there once more, and a script that runs a sweep
    without `if __name__ == "__main__":` would begin that sweep again in each of its workers.
    """
    prepared = spawn.get_preparation_data

    def without_main(name: str) -> dict[str, Any]:
        data = prepared(name)
        return {key: value for key, value in data.items() if not key.startswith("init_main_from_")}

    spawn.get_preparation_data = without_main
    try:
        yield
    finally:
        spawn.get_preparation_data = prepared


def stop(workers: Iterable[Worker]) -> None:
    """End workers within five seconds: ask each to leave, then SIGTERM, then SIGKILL."""
    running = list(workers)
    for worker in running:
        # Not closed yet: then a copy of it in a child of ours would keep it open.
        with contextlib.suppress(OSError):
            worker.line.shutdown(socket.SHUT_RDWR)
    if not _gone(running, ASKED):
        for worker in running:
            if worker.alive:
                _terminate(worker.group)
        _gone(running, TERMINATED)
    for worker in running:
        worker.kill()


def _gone(workers: Iterable[Worker], seconds: float) -> bool:
    """Wait until the workers have ended, but no longer than this; return whether they have."""
    end = time.monotonic() + seconds
    while any(worker.alive for worker in workers):
        if time.monotonic() >= end:
            return False
        time.sleep(_TICK)
    return True


def _terminate(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM)
