"""The driver of a run: a registered process that takes leases of units."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.leases.info import DriverInfo
from maxk_lab.sweeps.run.leases.lease import Lease, LeaseFiles
from maxk_lab.sweeps.run.leases.registration import Registration, registered

FOLDER = "leases"


class Driver(Registration):
    """A process that runs units of a run, within a `with` block; leases end with it.

    `spec_hash` is that of the sweep without what says how it is executed: drivers with another one
    refuse to begin. `clock` counts seconds, from any beginning.
    """

    def __init__(
        self,
        run_root: Path,
        *,
        spec_hash: str,
        clock: Callable[[], float] = time.monotonic,
        beat: float = 5.0,
        expiry: float = 60.0,
    ) -> None:
        super().__init__(run_root, spec_hash=spec_hash, clock=clock, beat=beat, expiry=expiry)
        self._files = LeaseFiles(self.root / FOLDER, self.info.id)
        self._leases: dict[str, Lease] = {}

    def __exit__(self, *error: object) -> None:
        for lease in list(self._leases.values()):
            with suppress(LabError):
                lease.release()
        with suppress(LabError):
            if not self.others():
                self._remove_the_dead()
                self._sweep()
        super().__exit__(*error)

    def take(self, unit_id: str) -> Lease | None:
        """Return a lease of a unit; None where another living driver has it.

        It may have been measured by another one until now: whoever takes a unit looks at its
        records again. Raises `StorageError` where the lease cannot be written.
        """
        mine = self._leases.get(unit_id)
        if mine is not None and mine.held:
            return mine
        generation = self._files.take(unit_id, self._lives)
        if generation is None:
            return None
        lease = Lease(self._files, unit_id, generation, self._leases)
        self._leases[unit_id] = lease
        return lease

    def lost(self) -> list[str]:
        """Return the units whose leases hold no more, though none was given back.

        Whatever their number, the folder is listed once. Raises `RefusedError` where the disk does
        not answer.
        """
        mine = dict(self._leases)
        tops = self._files.tops(mine) if mine else {}
        return [unit for unit, lease in mine.items() if not lease.check(tops.get(unit, (0, "")))]

    def holder(self, unit_id: str) -> DriverInfo | None:
        """Return the living driver that has a unit, perhaps this one; None where it is free."""
        generation, driver = self._files.top(unit_id)
        if not generation:
            return None
        return self.info if driver == self.info.id else self._registry.living(driver)

    def _lives(self, driver: str, lease: str) -> bool:
        if not driver:  # it is being made, or was when its process died
            return bool(self.others()) and not self._registry.is_silent(lease)
        # One of its own that it knows nothing of could not be removed when it was given back.
        return driver != self.info.id and self._registry.living(driver) is not None

    def _sweep(self) -> None:
        """Remove the leases of the dead, each by taking it: a new one may come at any moment."""
        for unit in self._files.tops():
            if lease := self.take(unit):
                lease.release()


def held(run_root: Path) -> dict[str, DriverInfo]:
    """Return the units that are leased by processes that `registered` tells, each with its own."""
    there = {one.id: one for one in registered(run_root)}
    leased = LeaseFiles(Path(run_root) / FOLDER, "").tops()
    return {unit: there[driver] for unit, (_, driver) in leased.items() if driver in there}


@contextmanager
def exclusive(run_root: Path, what: str = "a repair") -> Iterator[Registration]:
    """Keep a run for oneself, to do `what` with it; no run may begin meanwhile.

    Raises `LabError` that names the processes that work there: host, number and since when.
    """
    with Registration(run_root, alone=what) as alone:
        yield alone
