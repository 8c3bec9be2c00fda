"""The limits of a run, held to by the driver: it looks, and says which process exceeds one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from maxk_lab.sweeps.quantities import spelled, spelled_size
from maxk_lab.sweeps.run.supervisor.fork_server import Child, ForkServer
from maxk_lab.sweeps.spec.execution import Execution

# Seconds between two looks at the memory of the workers: each takes a millisecond or two.
BETWEEN_LOOKS = 0.1
# Seconds that a process has to import what its task needs, before the clock of the task runs.
LOADING = 120.0


class Excess(NamedTuple):
    """The limit that a process exceeds, in words for a record, and whether that may pass."""

    why: str
    may_pass: bool


class Limits:
    """Looks at the time and the memory that processes take."""

    def __init__(self, execution: Execution) -> None:
        self._timeout, self.of_calls = execution.timeout, execution.reward_timeout
        self._memory = None if execution.memory is None else Memory(execution.memory)

    def look(self, children: Iterable[Child]) -> None:
        """Look at the memory of these processes, if it is time to."""
        if self._memory is not None:
            self._memory.look([child.pid for child in children])

    def excess(self, child: Child) -> Excess | None:
        """Return what a process with a task exceeds; None where it keeps to all limits."""
        memory, now = self._memory, time.monotonic()
        if memory is not None and memory.taken.get(child.pid, 0) > memory.most:
            return Excess(f"took more than execution.memory, {spelled_size(memory.most)}", True)
        if self.of_calls is not None and child.call and now - child.call[1] > self.of_calls:
            limit = f"execution.reward_timeout, {spelled(self.of_calls)}"
            return Excess(f"{child.call[0]} took longer than {limit}, in one call", False)
        if self._timeout is not None and now - child.since > self._timeout:
            limit = f"execution.timeout, {spelled(self._timeout)}"
            return Excess(f"took longer than {limit}, for a cell", False)
        return None

    def too_slow(self, server: ForkServer) -> bool:
        """Return whether the import of the user's modules takes more than a call may."""
        most = min(self.of_calls or LOADING, LOADING)
        return server.own_since is not None and time.monotonic() - server.own_since > most


class Memory:
    """The resident memory of process groups: bytes that all their processes have together.

    What processes of a group share is counted for each of them. A process that has left its group
    is not seen.
    """

    def __init__(self, most: int) -> None:
        import psutil

        self._psutil = psutil
        self.most = most
        self.taken: dict[int, int] = {}
        self._looked = float("-inf")

    def look(self, groups: Iterable[int]) -> None:
        """Look at these groups, unless that was a moment ago."""
        now = time.monotonic()
        if now - self._looked < BETWEEN_LOOKS:
            return
        self._looked, self.taken = now, dict.fromkeys(groups, 0)
        for pid in self._psutil.pids():
            with suppress(OSError, self._psutil.Error):  # it has ended meanwhile
                if (group := os.getpgid(pid)) in self.taken:
                    self.taken[group] += self._psutil.Process(pid).memory_info().rss
