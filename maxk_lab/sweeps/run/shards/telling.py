"""Packing on the way: of what a run at work has written, and of all when it ends."""

from __future__ import annotations

from typing import Any

from maxk_lab.files import StorageError
from maxk_lab.sweeps.run.events import OnEvent, Teller
from maxk_lab.sweeps.run.records import RunDirectory

# So many new records lie in files of their own before they are packed.
MOST_LOOSE = 2_000


class PackingTeller(Teller):
    """Tells the events of a run, and packs the records that they are about."""

    def __init__(self, run: RunDirectory, on_event: OnEvent) -> None:
        super().__init__(run.events_path, on_event)
        self._run = run
        self._new: set[str] = set()

    def __call__(self, name: str, **payload: Any) -> None:
        """Tell one event, and pack on the way what nobody replaces while this process is at work.

        That is what is done: `--force` bears no other run beside it. A failed record another driver
        may replace at any moment, with `--retry-failed`; it waits until nobody else is there.
        """
        super().__call__(name, **payload)
        if name == "cell_done":
            self._new.add(payload["cell"])
        if len(self._new) >= MOST_LOOSE:
            new, self._new = self._new, set()
            self._pack(new)

    def pack_all(self) -> None:
        """Pack all that the run has, once nobody writes there any more."""
        self._pack(None)

    def _pack(self, only: set[str] | None) -> None:
        """Pack, or tell why not: records are as good in files of their own."""
        try:
            packed = self._run.pack(only)
        except StorageError as error:
            self("not_packed", error=str(error))
        else:
            if packed:
                self("packed", records=packed)
