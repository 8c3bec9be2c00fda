"""The guard of a run: a process that ends the workers' groups when their parent has died.

A worker leaves by itself when its parent is gone, unless it is stuck in C code, stopped, or has
started processes of its own. The parent starts this file as a program and writes a line for each
worker: `+` and the number of its process group when it starts, `-` when it has ended. The end of
the input is the end of the parent. It is a program of its own that imports nothing of the lab, so
that it is there in a moment and takes little memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

# Seconds in which workers may leave by themselves, between two files.
GRACE = 1.0


class Guard:
    """The parent's end: tell it of every process group that begins and ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # So that what ends the group of the parent does not end the guard.
            start_new_session=True,
        )

    def add(self, group: int) -> None:
        """End the processes of `group` when this process dies."""
        self._tell("+", group)

    def remove(self, group: int) -> None:
        """Forget a group that has ended: its number may be given to others."""
        self._tell("-", group)

    def close(self) -> None:
        """Let the guard go."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.close()
            self._process.wait(GRACE)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def _tell(self, sign: str, group: int) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(f"{sign}{group}\n".encode())
            stdin.flush()
        except OSError:
            # Somebody has killed the guard. The workers leave by themselves all the same, unless
            # they are stuck.
            pass


def kill_group(group: int) -> None:
    """Kill every process of a group, if any is left."""
    # PermissionError: macOS says so of processes that have ended already.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _watch() -> None:
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        change = groups.add if line[:1] == b"+" else groups.discard
        change(int(line[1:]))
    if groups:
        time.sleep(GRACE)
    for group in groups:
        kill_group(group)


if __name__ == "__main__":
    _watch()
