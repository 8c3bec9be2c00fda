"""The limits of a run, held to by the driver: it looks, and says which process exceeds one."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

import psutil

from maxk_lab.sweeps.quantities import spelled, spelled_size
from maxk_lab.sweeps.run.supervisor.fork_server import Child
from maxk_lab.sweeps.spec.execution import Execution

# Seconds between two looks at the memory of the workers: each takes a millisecond or two.
BETWEEN_LOOKS = 0.1


class Excess(NamedTuple):
    """The limit that a process exceeds, in words for a record, and whether that may pass."""

    why: str
    may_pass: bool


class Limits:
    """Looks at the time and the memory that processes take.

    Memory is the resident one of a process group: what its processes share is counted for each of
    them, and one that has left its group is not seen.
    """

    def __init__(self, execution: Execution) -> None:
        self._execution, self._looked = execution, 0.0
        self.of_calls = execution.reward_timeout
        # The bytes of each group.
        self._memory: dict[int, int] = {}

    def look(self, children: Collection[Child]) -> None:
        """Look at the memory of these processes, if it is time to."""
        now = time.monotonic()
        if self._execution.memory is None or now - self._looked < BETWEEN_LOOKS:
            return
        self._looked, self._memory = now, dict.fromkeys((child.pid for child in children), 0)
        for pid in psutil.pids():
            with suppress(OSError, psutil.Error):  # it has ended meanwhile
                if (group := os.getpgid(pid)) in self._memory:
                    self._memory[group] += psutil.Process(pid).memory_info().rss

    def excess(self, child: Child) -> Excess | None:
        """Return what a process with a task exceeds; None where it keeps to all limits."""
        limits, now = self._execution, time.monotonic()
        if limits.memory is not None and self._memory.get(child.pid, 0) > limits.memory:
            limit = f"execution.memory, {spelled_size(limits.memory)}"
            return Excess(f"took more than {limit}", may_pass=True)
        if self.of_calls is not None and child.call and now - child.call[1] > self.of_calls:
            limit = f"execution.reward_timeout, {spelled(self.of_calls)}, in one call"
            return Excess(f"{child.call[0]} took longer than {limit}", may_pass=False)
        if limits.timeout is not None and now - child.since > limits.timeout:
            limit = f"execution.timeout, {spelled(limits.timeout)}, for a cell"
            return Excess(f"took longer than {limit}", may_pass=False)
        return None
