"""The registration of a process in a run, and the signs of life that it gives there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from maxk_lab.errors import LabError, first_line, warn
from maxk_lab.files import StorageError, remove_partials
from maxk_lab.sweeps.run.leases.clock import AwakeClock
from maxk_lab.sweeps.run.leases.info import DriverInfo
from maxk_lab.sweeps.run.leases.registry import Registry

_POLL = 0.05
# A wait of less is not worth a word.
_UNTOLD = 2.0


class OthersError(LabError):
    """Others are at work in the run, and what is to be done bears none."""


class Registration:
    """This process in `<run>/drivers/`, whose file a thread rewrites every `beat` seconds.

    It is in force within a `with` block. `alone` says what this process does that bears no other
    process beside it; two with other hashes of their specs bear each other neither.
    """

    def __init__(
        self,
        run_root: Path,
        *,
        spec_hash: str = "",
        alone: str = "",
        clock: Callable[[], float] = time.monotonic,
        beat: float = 5.0,
        expiry: float = 60.0,
    ) -> None:
        self.root = Path(run_root)
        self.info = DriverInfo.of_this_process(spec_hash, alone)
        self._every, self._expiry = beat, expiry
        self._clock = AwakeClock(clock, most=2 * beat)
        self._registry = Registry(self.root, self._clock, expiry)
        # The last sign of life, why there was none since, and why there is to be none any more.
        self._shown, self._trouble, self._over = 0.0, "", ""
        self._writing = threading.RLock()
        self._leaving = threading.Event()

    def __enter__(self) -> Self:
        """Register. Raises `LabError` that names the process that this one cannot be beside."""
        self.root.mkdir(parents=True, exist_ok=True)
        try:
            try:
                self._show()
            except OSError as error:
                path = self._registry.path_of(self.info.id)
                raise StorageError(f"{path} cannot be written: {error.strerror}") from error
            threading.Thread(target=self._beat_on, name="beat", daemon=True).start()
            self._wait_for_those_against()
        except BaseException:
            self._unregister()
            raise
        self._remove_the_dead()
        return self

    def __exit__(self, *error: object) -> None:
        self._unregister()

    def others(self) -> list[DriverInfo]:
        """Return the others that are registered, but for those that are dead."""
        return [one for one, dead in self._registry.all() if not dead and one.id != self.info.id]

    def is_known_to_live(self, one: DriverInfo) -> bool:
        """Return whether another one was seen to live: beside this process, or by a new beat."""
        return self._registry.is_known_to_live(one)

    def check(self) -> None:
        """Raise `StorageError` where this process can show no more that it lives, and is to end.

        It is to be asked several times a second: a disk may answer neither yes nor no.
        """
        silent = self._clock() - self._shown
        if self._over or silent >= self._expiry / 2:
            why = self._over or (
                f"nothing could be written there for {silent:.0f} s: "
                f"{self._trouble or 'the disk does not answer'}"
            )
            raise StorageError(
                f"{self._registry.path_of(self.info.id)} no longer shows that this process "
                f"(process {self.info.pid}) lives, and others may measure what it is at; {why}"
            )

    @contextmanager
    def alone(self, what: str, *, patient: bool = False) -> Iterator[None]:
        """Do something brief that bears no other process; those that register meanwhile wait.

        Raises `OthersError`, which begins with `what`, such as `--force`, where others live. Of
        those of which it is not known yet it waits to learn it where it is `patient`.
        """
        try:
            self._mark(what)
            waited = 0.0
            while others := self.others():
                living = [one for one in others if self.is_known_to_live(one)]
                if living or not patient:
                    raise OthersError(
                        f"{what} bears no other run beside it, and {self.root} is in use by "
                        f"another run ({_named(living or others)}); wait for it or stop it"
                    )
                waited = self._wait(waited, self._looking(others))
            yield
        finally:
            self._mark("")

    def remove_leftovers(self, folders: Sequence[Path]) -> None:
        """Remove what killed processes left half written in these folders, if no other lives."""
        if not self.others():
            with suppress(OthersError), self.alone("the removal of files half written"):
                for folder in (*folders, self._registry.path):
                    with self._writing:
                        remove_partials(folder)

    def move(self, there: Path) -> None:
        """Rename the folder of the run, for a process that is alone in it and ends its work.

        It shows no more that it lives: that would make the folder anew. Raises `OSError`.
        """
        with self._writing:
            self._leaving.set()
            self.root.rename(there)
            self.root = there
            self._registry.path = there / self._registry.path.name

    def beat(self) -> None:
        """Show once that this process lives.

        Where somebody took it for dead and removed its file, it may have to end: what has come to
        work in the run since then may not bear it.
        """
        try:
            with self._writing:
                if self._leaving.is_set() or self._over:
                    return
                was_removed = not self._registry.path_of(self.info.id).exists()
                against = self._against() if was_removed else []
                if not against:
                    self._show()
                    against = self._against() if was_removed else []
                if against:
                    self._over = f"it was taken for dead, and {_named(against)} came after it"
                    self._registry.remove(self.info.id)
        except Exception as error:
            # Whatever it was may pass: it counts when it has lasted.
            self._trouble = getattr(error, "strerror", None) or first_line(error)

    def _beat_on(self) -> None:
        while not self._leaving.wait(self._every):
            self.beat()

    def _show(self) -> None:
        with self._writing:
            self.info = self.info.model_copy(update={"beat": self.info.beat + 1})
            self._registry.write(self.info)
            self._shown, self._trouble = self._clock(), ""

    def _mark(self, what: str) -> None:
        with self._writing:
            self.info = self.info.model_copy(update={"alone": what, "brief": bool(what)})
            try:
                self._show()
            except OSError as error:
                path = self._registry.path_of(self.info.id)
                raise StorageError(f"{path} cannot be written: {error.strerror}") from error

    def _against(self) -> list[DriverInfo]:
        """Return the living ones that this process cannot be beside."""
        mine = self.info
        return [
            one
            for one in self.others()
            if mine.alone or one.alone or (mine.spec and one.spec and mine.spec != one.spec)
        ]

    def _wait_for_those_against(self) -> None:
        """Wait until nobody is in the way. Raises `LabError` once it is known that one lives."""
        waited = 0.0
        while against := self._against():
            living = [one for one in against if self._registry.is_known_to_live(one)]
            if lasting := [one for one in living if not one.brief]:
                raise LabError(self._refusal(lasting[0]))
            busy = f"waiting for the end of {living[0].alone} ({living[0]})" if living else ""
            waited = self._wait(waited, busy or self._looking(against))

    def _wait(self, waited: float, why: str) -> float:
        """Wait a little, tell once why, and return how long it has been in all."""
        if waited <= _UNTOLD < waited + _POLL:
            warn(why)
        time.sleep(_POLL)
        return waited + _POLL

    def _looking(self, unknown: Sequence[DriverInfo]) -> str:
        return (
            f"looking for up to {self._expiry:.0f} s whether another run still works in "
            f"{self.root} ({_named(unknown)})"
        )

    def _refusal(self, one: DriverInfo) -> str:
        if one.alone:
            return f"{self.root} is in use by {one.alone} ({one}); wait for it or stop it"
        if self.info.alone:
            return f"{self.root} is in use by another run ({one}); wait for it or stop it"
        return (
            f"{self.root} is in use by another run, with another sweep file ({one}); "
            "wait for it or stop it, or give this sweep a name of its own"
        )

    def _remove_the_dead(self) -> None:
        with suppress(OSError):
            for one, dead in self._registry.all():
                if dead:
                    self._registry.remove(one.id)

    def _unregister(self) -> None:
        self._leaving.set()
        # The thread may wait for a disk that does not answer.
        if self._writing.acquire(timeout=self._every):
            try:
                with suppress(OSError):
                    self._registry.remove(self.info.id)
            finally:
                self._writing.release()


def registered(run_root: Path) -> list[DriverInfo]:
    """Return who is registered in a run, but for processes of this machine that have ended.

    Of those on other machines only who registers and looks for a while knows whether they live.
    """
    registry = Registry(Path(run_root), AwakeClock(time.monotonic, most=0), expiry=1)
    return [one for one, dead in registry.all() if not dead]


def _named(found: Sequence[DriverInfo]) -> str:
    return "; ".join(map(str, found[:3])) + (f" and {len(found) - 3} more" if found[3:] else "")
