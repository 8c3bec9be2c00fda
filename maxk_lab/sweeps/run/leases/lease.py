"""The files of leases: `<unit>.<generation>`, with the id of the driver that made it.

A file is made exclusively (O_CREAT | O_EXCL), which is atomic on local disks and, since version 3,
on NFS, where a repeated request is known for what it is; a hard link would do as well, but not
every file system has them. What is made has no content for a moment: whose it is, is not known
until then, and the process that made it is counted as living.

Whoever takes a unit from a dead driver makes the next generation; the highest one counts, and no
file is ever renamed or replaced.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from maxk_lab.files import StorageError
from maxk_lab.sweeps.run.leases.info import ID, MOST_BYTES
from maxk_lab.sweeps.run.leases.odd import read_in
from maxk_lab.sweeps.run.leases.registry import opened

_FILE = re.compile(r"([A-Za-z0-9_-]{1,200})\.([1-9][0-9]{0,8})")
# Others may be faster so many times in a row.
_TRIES = 5


class LeaseFiles:
    """The folder of the leases of a run, as the driver `owner` sees it."""

    def __init__(self, path: Path, owner: str) -> None:
        self.path, self.owner = path, owner

    def take(self, unit: str, lives: Callable[[str, str], bool]) -> int | None:
        """Return the generation that was made for the owner; None where a living driver has it.

        `lives(id, name)` says whether the driver of the lease of that name lives; the id is empty
        where it is not known. Raises `StorageError` where the file cannot be written, and
        `RefusedError` where something lies there that is no file.
        """
        if _FILE.fullmatch(f"{unit}.1") is None:
            raise ValueError(f"a unit cannot be named {unit!r}")
        for tried in range(_TRIES):
            # Most units are free, which their making tells soonest.
            top, holder = self.top(unit) if tried else (0, "")
            if top and lives(holder, f"{unit}.{top}"):
                return None
            if self._make(f"{unit}.{top + 1}"):
                # Made first, looked afterwards: of two that do so one at least sees the other.
                if self.top(unit) == (top + 1, self.owner):
                    return top + 1
                with suppress(OSError):
                    self._remove(f"{unit}.{top + 1}")
        return None

    def top(self, unit: str) -> tuple[int, str]:
        """Return the highest generation of a unit and the id of its driver; 0 where it is free."""
        for _ in range(_TRIES):
            with opened(self.path) as folder:
                if folder is None:
                    break
                generation = max(self._generations(folder, unit), default=0)
                if not generation:
                    break
                with suppress(FileNotFoundError):
                    return generation, self._owner_of(folder, f"{unit}.{generation}")
        return 0, ""

    def is_held(self, unit: str, generation: int) -> bool:
        """Return whether the owner still has this generation, and nobody has made a higher one.

        The lower ones are removed before the higher ones: while its own file is there, it is
        enough to look for the next one.
        """
        with opened(self.path) as folder:
            if folder is None:
                return False
            try:
                os.stat(f"{unit}.{generation + 1}", dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                with suppress(FileNotFoundError):
                    return self._owner_of(folder, f"{unit}.{generation}") == self.owner
            return False

    def release(self, unit: str, generation: int) -> None:
        """Remove the owner's generation and the lower ones, these first.

        Where one cannot be removed, those above it stay, or its driver, were it to come back, would
        find itself the highest. What is left is soon that of a driver that is gone.
        """
        lower: list[int] = []
        if generation > 1:
            with opened(self.path) as folder:
                found = [] if folder is None else self._generations(folder, unit)
            lower = sorted(one for one in found if one < generation)
        with suppress(OSError):
            for one in (*lower, generation):
                self._remove(f"{unit}.{one}")

    def tops(self, units: Container[str] | None = None) -> dict[str, tuple[int, str]]:
        """Return what `top` tells of every unit that is not free, by one look at the folder.

        `units` are those to tell of; without it all.
        """
        found: dict[str, tuple[int, str]] = {}
        gone: list[str] = []
        with opened(self.path) as folder:
            names = [] if folder is None else os.listdir(folder)
            highest: dict[str, int] = {}
            for match in filter(None, map(_FILE.fullmatch, names)):
                if units is None or match[1] in units:
                    highest[match[1]] = max(int(match[2]), highest.get(match[1], 0))
            for unit, generation in sorted(highest.items()):
                assert folder is not None
                try:
                    found[unit] = generation, self._owner_of(folder, f"{unit}.{generation}")
                except FileNotFoundError:
                    gone.append(unit)
        # Given back, or taken by somebody else, since the folder was listed.
        found |= {unit: top for unit in gone if (top := self.top(unit))[0]}
        return found

    def _generations(self, folder: int, unit: str) -> list[int]:
        begin, at = f"{unit}.", len(unit) + 1
        numbers = [name[at:] for name in os.listdir(folder) if name.startswith(begin)]
        return [int(number) for number in numbers if _FILE.fullmatch(f"{begin}{number}")]

    def _make(self, name: str) -> bool:
        """Make a file of the owner's; return False where it is there."""
        path, flags = f"{self.path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            try:
                file = os.open(path, flags, 0o644)
            except FileNotFoundError:
                self.path.mkdir(parents=True, exist_ok=True)
                file = os.open(path, flags, 0o644)
            except FileExistsError:
                return False
            try:
                os.write(file, self.owner.encode())
            except BaseException:
                os.unlink(path)
                raise
            finally:
                os.close(file)
        except OSError as error:
            raise StorageError(f"{self.path / name} cannot be written: {error.strerror}") from error
        return True

    def _owner_of(self, folder: int, name: str) -> str:
        """Return the id in a file, empty while it has none. Raises `FileNotFoundError`."""
        driver = read_in(folder, name, self.path, MOST_BYTES).decode(errors="replace")
        return driver if ID.fullmatch(driver) else ""

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(f"{self.path}/{name}")


class Fence(NamedTuple):
    """A lease as plain data, which tells a process that works for its driver whether it holds.

    A driver may be stopped while what it started goes on.
    """

    folder: str
    owner: str
    unit: str
    generation: int

    @property
    def held(self) -> bool:
        """Whether it is held now. Raises `RefusedError` where the disk does not answer."""
        return LeaseFiles(Path(self.folder), self.owner).is_held(self.unit, self.generation)


class Lease:
    """The right to measure a unit, until it is released, or lost by what looked like death."""

    def __init__(
        self, files: LeaseFiles, unit: str, generation: int, open_ones: MutableMapping[str, Lease]
    ) -> None:
        self.unit, self.generation = unit, generation
        self._files, self._open_ones = files, open_ones
        self._over = False

    def __repr__(self) -> str:
        return f"Lease({self.unit!r}, generation={self.generation})"

    @property
    def fence(self) -> Fence:
        """The same for other processes of this machine."""
        folder = str(self._files.path.absolute())
        return Fence(folder, self._files.owner, self.unit, self.generation)

    @property
    def held(self) -> bool:
        """Whether it is held now, which the disk is asked; what is lost once stays lost.

        Raises `RefusedError` where the disk does not answer.
        """
        if not self._over:
            self._over = not self._files.is_held(self.unit, self.generation)
        return not self._over

    def check(self, top: tuple[int, str]) -> bool:
        """Return the same where the highest generation and its owner have been looked up."""
        self._over = self._over or top != (self.generation, self._files.owner)
        return not self._over

    def release(self) -> None:
        """Give the unit back; without effect where it is lost or given back already."""
        if self.held:
            self._files.release(self.unit, self.generation)
        self._over = True
        if self._open_ones.get(self.unit) is self:
            del self._open_ones[self.unit]
