"""The CUDA devices of this machine, and the devices that each worker sees. Imports no torch."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from functools import cached_property
from itertools import takewhile

from maxk_lab.errors import LabError

VARIABLE = "CUDA_VISIBLE_DEVICES"
_QUERY = ("nvidia-smi", "--query-gpu=index", "--format=csv,noheader")
_QUERY_SECONDS = 20.0


def devices_here() -> tuple[str, ...]:
    """Return the devices that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    visible = os.environ.get(VARIABLE)
    if visible is None:
        try:
            done = subprocess.run(
                _QUERY, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True
            )
        except (OSError, subprocess.SubprocessError, UnicodeError):
            return ()
        return tuple(done.stdout.split())
    # As in CUDA, an invalid name hides the names behind it.
    names = [name.strip() for name in visible.split(",")]
    return tuple(takewhile(lambda name: name and not name.startswith("-"), names))


class Devices:
    """The devices of a run: workers take them at their start and give them back at their end.

    If `share` is None, each worker that can use a device gets one if there is any; several workers
    may share it. Otherwise a worker gets `share` devices, or this fraction of a device.
    """

    def __init__(self, share: float | None) -> None:
        self._share = share
        self._users: Counter[str] = Counter()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The devices of this machine."""
        return devices_here()

    def most(self) -> int | None:
        """Return how many workers the devices allow; None if they set no limit.

        Raises `LabError` if the devices allow none.
        """
        share = self._share
        if not share:
            return None
        count = len(self.names)
        # Ten workers of a little more than a tenth share a device.
        most = count * int(1 / share + 1e-9) if share < 1 else count // round(share)
        if not most:
            names = f"{count} CUDA devices" if count else "no CUDA device"
            raise LabError(
                f"execution.gpus is {share:g}, and this machine has {names}: lower it, "
                "or leave it out to use the devices that exist"
            )
        return most

    def wanted_by(self, uses_device: bool) -> bool:
        """Return whether a worker gets devices, if it can or cannot use one."""
        return uses_device if self._share is None else bool(self._share)

    def take(self, uses_device: bool) -> str | None:
        """Return the `CUDA_VISIBLE_DEVICES` of a new worker.

        None if no device is known but one may be used: the worker sees the devices of this process.
        """
        if not uses_device:
            return ""
        if not self.names:
            return None
        count = max(1, round(self._share or 1))
        # The devices with the fewest workers, in their order.
        chosen = sorted(self.names, key=lambda name: self._users[name])[:count]
        self._users.update(chosen)
        return ",".join(chosen)

    def give(self, names: str | None) -> None:
        """Take back the devices of a worker that has ended."""
        if names:
            self._users.subtract(names.split(","))
