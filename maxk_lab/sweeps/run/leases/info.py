"""Who drives a run: one process on one machine, told apart from all that came before it."""

from __future__ import annotations

import os
import re
import secrets
import time
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Longer ones are in no file that a driver has written.
MOST_BYTES = 2**14
ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_Text = Annotated[str, Field(max_length=1000)]


class DriverInfo(BaseModel):
    """A process that is registered in a run.

    `started` is when its process started, in the ticks of the system; `boot` and `namespace` say
    within what its number is one of a kind. They are empty where the system does not tell them.
    `spec` is the hash of its sweep, empty where it has none. `alone` says what it does that bears
    no other process beside it; where it is `brief`, others wait for its end.
    """

    # What a later version adds is no reason to think that a process is dead.
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    id: _Text
    host: _Text = ""
    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0
    started: _Text = ""
    boot: _Text = ""
    namespace: _Text = ""
    since: _Text = ""
    spec: _Text = ""
    alone: _Text = ""
    brief: bool = False
    beat: int = 0

    def __str__(self) -> str:
        if not self.pid:
            return f"an unknown process, {self.id}"
        return f"process {self.pid} on {self.host}, since {self.since}"

    @classmethod
    def of_this_process(cls, spec: str, alone: str) -> DriverInfo:
        """Return that of this process, with an id that no other has."""
        return cls(
            id=secrets.token_hex(8),
            host=os.uname().nodename,
            pid=os.getpid(),
            started=_state_and_start(os.getpid())[1],
            boot=_boot(),
            namespace=_namespace(),
            since=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            spec=spec,
            alone=alone,
        )

    @classmethod
    def from_bytes(cls, data: bytes, driver: str) -> DriverInfo:
        """Return what the file of a driver says; the id alone where that makes no sense.

        Nobody writes such a file, but a machine that lost its power may leave one.
        """
        try:
            found = cls.model_validate_json(data)
        except ValueError:
            return cls(id=driver)
        return found if found.id == driver else cls(id=driver)

    def to_bytes(self) -> bytes:
        """Return what its file says."""
        return self.model_dump_json().encode()

    def is_neighbour(self) -> bool:
        """Return whether this process would see it in the list of processes."""
        here = (os.uname().nodename, _boot(), _namespace())
        return self.pid > 0 and (self.host, self.boot, self.namespace) == here

    def has_ended(self) -> bool:
        """Return whether it has ended for certain: it ran beside this process, and does no more."""
        if not self.is_neighbour():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # of another user
        state, started = _state_and_start(self.pid)
        # A zombie only waits for its parent to ask how it ended.
        return state in ("Z", "X") or bool(started and started != self.started)


@cache
def _boot() -> str:
    return _text("/proc/sys/kernel/random/boot_id").strip()


@cache
def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _state_and_start(pid: int) -> tuple[str, str]:
    """Return the state of a process and when it started; empty where that cannot be seen."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
