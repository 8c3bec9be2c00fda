"""The CUDA devices of this machine, and which of them a worker may see. Imports no torch."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from functools import cached_property
from itertools import takewhile

from maxk_lab.errors import LabError

VARIABLE = "CUDA_VISIBLE_DEVICES"
# Seconds in which the driver must say what there is.
_PATIENCE = 20.0
_QUERY = ("nvidia-smi", "--query-gpu=index", "--format=csv,noheader")


def devices_here() -> tuple[str, ...]:
    """Return the devices that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    given = os.environ.get(VARIABLE)
    if given is None:
        try:
            told = subprocess.run(
                _QUERY, capture_output=True, text=True, timeout=_PATIENCE, check=True
            )
        except (OSError, subprocess.SubprocessError, UnicodeError):
            return ()
        return tuple(told.stdout.split())
    # As CUDA reads it: what follows a device that is none does not count.
    names = [part.strip() for part in given.split(",")]
    return tuple(takewhile(lambda name: name and not name.startswith("-"), names))


class Devices:
    """The devices of a run, given to workers as these begin, and free again when they end.

    With `share` of None those that can use a device see one each, if there is any: several see the
    same where there are more workers than devices. With a number each has so many to itself, or
    such a fraction of one; 0 is none.
    """

    def __init__(self, share: float | None) -> None:
        self._share = share
        self._taken: Counter[str] = Counter()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The devices of this machine; asked for when they are needed."""
        return devices_here()

    def most(self) -> int | None:
        """Return how many workers there may be at once; None where devices do not limit that.

        Raises `LabError` where there is room for none.
        """
        share = self._share
        if not share:
            return None
        there = len(self.names)
        # A little more than a tenth is a tenth: ten of them are one.
        most = there * int(1 / share + 1e-9) if share < 1 else there // round(share)
        if not most:
            names = f"{there} CUDA devices" if there else "no CUDA device"
            raise LabError(
                f"execution.gpus is {share:g}, and this machine has {names}: lower it, "
                "or leave it out to take what there is"
            )
        return most

    def wanted_by(self, uses_device: bool) -> bool:
        """Return whether a task gets devices, by whether it can use one."""
        return uses_device if self._share is None else bool(self._share)

    def take(self, wanted: bool) -> str | None:
        """Return what a new worker may see, as `CUDA_VISIBLE_DEVICES` says it.

        None is whatever this process sees: where no device was found, but one may be used.
        """
        if not wanted:
            return ""
        if not self.names:
            return None
        count = max(1, round(self._share or 1))
        # Those that the fewest have, the first of them first.
        chosen = sorted(self.names, key=lambda name: self._taken[name])[:count]
        self._taken.update(chosen)
        return ",".join(chosen)

    def give(self, names: str | None) -> None:
        """Take back what a worker had that has ended."""
        if names:
            self._taken.subtract(names.split(","))
