"""The files of a run's records: single ones, and shards, in which a record is looked for next."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from maxk_lab.errors import RefusedError
from maxk_lab.files import open_regular, read_regular, write_atomically
from maxk_lab.sweeps.run.record_bytes import MOST_BYTES
from maxk_lab.sweeps.run.shards.archive import SUFFIX, Archive, Stamp, stamp

RECORD = ".json"
# Written anew with every shard, before the files go that it holds: to look at it is cheaper than to
# list the folder.
MARK = ".packed"
# A reader beside a process that packs looks so often again for what has just moved.
_ATTEMPTS = 5


class Cells:
    """The folder `cells`: a record is a file of its own, or a member of a shard.

    A file of its own always counts before what shards hold of its cell, and of two shards that with
    the higher number: these are newer. Nothing is lost from sight while another process packs: it
    removes a file only when the shard with its bytes is there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # By the ids of their cells, as they were when the folder was last looked at.
        self._loose: set[str] = set()
        self._packed: dict[str, Archive] = {}
        self._archives: dict[str, Archive] = {}
        self._lost: dict[str, str] = {}
        self._marked: Stamp | None = None

    @property
    def problems(self) -> list[str]:
        """A line for every shard whose list of records is lost."""
        return [
            f"{self.folder / name}: no record in it can be found, and its cells count as missing: "
            f"{why}"
            for name, why in self._lost.items()
        ]

    @property
    def lost(self) -> dict[Path, str]:
        """The same shards, and what is wrong with each."""
        return {self.folder / name: why for name, why in self._lost.items()}

    @property
    def loose(self) -> frozenset[str]:
        """The ids of cells with a file of their own, when the folder was last looked at."""
        return frozenset(self._loose)

    @property
    def archives(self) -> list[Archive]:
        """The shards that can be read, the oldest first, as of then."""
        return list(self._archives.values())

    def ids(self) -> list[str]:
        """Look at the folder, and return the ids of all cells with a record, sorted.

        Raises `RefusedError` where it cannot be listed.
        """
        self._look()
        return sorted(self._loose | self._packed.keys())

    def path(self, cell_id: str) -> Path:
        """Return the path of the file that a record has or had of its own."""
        return self.folder / f"{cell_id}{RECORD}"

    def packed(self, cell_id: str) -> Archive | None:
        """Return the newest shard with a record of the cell, as of the last look at the folder."""
        return self._packed.get(cell_id)

    def place(self, cell_id: str) -> Path:
        """Return where its record lies, for people: in a shard, the path of the shard and on."""
        archive = self._packed.get(cell_id)
        path = self.path(cell_id)
        if archive is None or cell_id in self._loose or os.path.lexists(path):
            return path
        return archive.path / path.name

    def stamp(self, cell_id: str) -> Stamp:
        """Return what tells a record from every other. Raises `FileNotFoundError` without one."""
        try:
            return stamp(os.stat(f"{self.folder}/{cell_id}{RECORD}"))
        except FileNotFoundError:
            return self._archive(cell_id).stamp(cell_id)

    def read(self, cell_id: str) -> bytes:
        """Return the bytes of a record.

        Raises `FileNotFoundError` without one, and `OSError` or `ValueError` where it is damaged.
        """
        for _ in range(_ATTEMPTS):
            try:
                return read_regular(f"{self.folder}/{cell_id}{RECORD}", MOST_BYTES)
            except FileNotFoundError:
                archive = self._archive(cell_id)
            try:
                return archive.read(cell_id)
            except FileNotFoundError:
                self._look()
        raise FileNotFoundError(f"no record of {cell_id}")

    def peek(self, cell_id: str) -> bytes | None:
        """Return the same, or None without a record; the folder is listed only if need be.

        What others have packed is seen at once: what they had removed is not taken for missing.
        """
        try:
            return read_regular(f"{self.folder}/{cell_id}{RECORD}", MOST_BYTES)
        except FileNotFoundError:
            if self._mark() != self._marked:
                self._look()
            return self.read(cell_id) if cell_id in self._packed else None

    def mark(self, archive: Archive) -> None:
        """Show others that there is a new shard. Raises `StorageError` where it cannot."""
        write_atomically(self.folder / MARK, f"{archive.path.name}\n".encode())

    def _mark(self) -> Stamp | None:
        """Return what tells the latest shard from others, None where nobody knows of any."""
        try:
            # Opened, for a network may know an older state of what is not.
            with open_regular(self.folder / MARK) as file:
                return stamp(os.fstat(file.fileno()))
        except (OSError, ValueError):
            return None

    def salvaged(self, cell_id: str) -> bytes:
        """Return what is left of a damaged record in a shard, still compressed if need be."""
        archive = self._archive(cell_id)
        for read in (archive.read, archive.raw):
            with contextlib.suppress(ValueError):
                return read(cell_id)
        return b""

    def _archive(self, cell_id: str) -> Archive:
        """Return the shard that holds what has no file of its own. Raises `FileNotFoundError`."""
        # What had a file of its own a moment ago has been packed since.
        if cell_id in self._loose or cell_id not in self._packed:
            self._look()
        if cell_id not in self._packed:
            raise FileNotFoundError(f"no record of {cell_id}")
        return self._packed[cell_id]

    def _look(self) -> None:
        """Take in what the folder holds. Raises `RefusedError` where it cannot be listed."""
        self._marked = self._mark()
        for _ in range(_ATTEMPTS):
            self._loose, shards = self._listed()
            opened = dict(self._opened(shards))
            if opened.keys() | self._lost.keys() == shards:
                break
        # Sorted by number; those of one number have been copied from each other.
        in_order = sorted(opened.values(), key=lambda one: (one.number, one.path.name))
        if in_order != self.archives:
            self._archives = {one.path.name: one for one in in_order}
            self._packed = {cell_id: one for one in in_order for cell_id in one.members}

    def _listed(self) -> tuple[set[str], set[str]]:
        """Return the cells with a file of their own, and the names of the shards.

        A listing need not show what comes and goes meanwhile. The last one began after whatever the
        one before it lacks was gone, and shows the shard that it has gone to.
        """
        loose, shards = self._names()
        for _ in range(_ATTEMPTS):
            more, again = self._names()
            if again == shards:
                return loose | more, shards
            loose, shards = more, again
        return loose, shards

    def _names(self) -> tuple[set[str], set[str]]:
        try:
            names = [one for one in os.listdir(self.folder) if not one.startswith(".")]
        except FileNotFoundError:
            return set(), set()
        except OSError as error:
            raise RefusedError(
                f"the records of {self.folder.parent} cannot be listed: {error}"
            ) from error
        records = {one.removesuffix(RECORD) for one in names if one.endswith(RECORD)}
        return records, {one for one in names if one.endswith(SUFFIX)}

    def _opened(self, names: set[str]) -> Iterator[tuple[str, Archive]]:
        """Yield the shards of these names that can be read, and keep why others cannot."""
        self._lost = {}
        for name in sorted(names):
            try:
                known = self._archives.get(name)
                if known is None or known.own != stamp(os.stat(known.path)):
                    known = Archive.opened(self.folder / name)
                yield name, known
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                self._lost[name] = str(error)
