"""A bundle as a run: read like the folder of a run, and never written to."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Never, Self

from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.bundles.contents import FILES, SPEC, Contents
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards.archive import Stamp
from maxk_lab.sweeps.run.shards.cells import RECORD, Cells
from maxk_lab.sweeps.spec.schema import SweepSpec


class BundledCells(Cells):
    """The records of a bundle. Each is what was bundled, by its hash in the manifest, or damaged.

    A shard is unpacked into memory once one of its records is asked for.
    """

    def __init__(self, contents: Contents) -> None:
        super().__init__(contents.path)
        self._contents = contents
        self._shards = {
            cell_id: shard
            for shard, records in contents.manifest.records.items()
            for cell_id in records
        }
        self._numbers = {cell_id: number for number, cell_id in enumerate(sorted(self._shards))}
        self._unpacked: dict[str, zipfile.ZipFile | ValueError] = {}

    def ids(self) -> list[str]:
        """Return the ids of all cells with a record, sorted."""
        return list(self._numbers)

    def place(self, cell_id: str) -> Path:
        """Return where its record lies, for people."""
        return self.path(cell_id)

    def stamp(self, cell_id: str) -> Stamp:
        """Return what tells a record from every other. Raises `FileNotFoundError` without one."""
        self._check_there(cell_id)
        return (*self._contents.own, self._numbers[cell_id])

    def read(self, cell_id: str) -> bytes:
        """Return the bytes of a record.

        Raises `FileNotFoundError` without one, and `ValueError` where it is damaged.
        """
        self._check_there(cell_id)
        shard = self._shards[cell_id]
        if shard not in self._unpacked:
            self._unpacked[shard] = self._unpack(shard)
        unpacked = self._unpacked[shard]
        if isinstance(unpacked, ValueError):
            raise unpacked
        try:
            data = _stored(unpacked, f"{cell_id}{RECORD}")
        except (KeyError, zipfile.BadZipFile, RuntimeError, EOFError) as error:
            raise ValueError(f"it cannot be found in {shard}: {error}") from None
        if hashlib.sha256(data).hexdigest() != self._contents.manifest.records[shard][cell_id]:
            raise ValueError("its bytes are not those that were bundled")
        return data

    def peek(self, cell_id: str) -> bytes | None:
        """Return the same, or None without a record."""
        return self.read(cell_id) if cell_id in self._shards else None

    def _check_there(self, cell_id: str) -> None:
        if cell_id not in self._shards:
            raise FileNotFoundError(f"no record of {cell_id}")

    def _unpack(self, shard: str) -> zipfile.ZipFile | ValueError:
        try:
            return zipfile.ZipFile(io.BytesIO(self._contents.read_unchecked(shard)))
        except (ValueError, zipfile.BadZipFile, RuntimeError, EOFError) as error:
            return ValueError(f"{shard} of the bundle is damaged: {error}")


class Bundle(RunDirectory):
    """A run that was bundled: all its files lie in one, which is its `root`."""

    def __init__(self, contents: Contents) -> None:
        super().__init__(contents.path, BundledCells(contents))
        self.contents = contents
        self.report_path = contents.path.with_name(f"{contents.path.stem}-report")

    @classmethod
    def opened(cls, path: str | Path) -> Self:
        """Return the run in a bundle. Raises `LabError` for a file that is none."""
        return cls(Contents.opened(Path(path)))

    def title(self, spec: SweepSpec) -> str:
        """Return the name of the run that was bundled, whatever the file is called."""
        return spec.name

    @property
    def told_by(self) -> Sequence[Path]:
        """The bundle itself."""
        return (self.root,)

    @property
    def repairable(self) -> bool:
        """Whether what is damaged can be moved aside: not in a bundle."""
        return False

    def spec(self) -> SweepSpec:
        """Return the resolved spec. Raises `LabError` where it is damaged."""
        from maxk_lab.sweeps.spec.load import spec_of
        from maxk_lab.sweeps.spec.source import decoded

        return spec_of(decoded(self.spec_bytes(), self.spec_path), str(self.spec_path))

    def spec_bytes(self) -> bytes:
        """Return the resolved spec as it is written. Raises `LabError` where it is damaged."""
        return self.content(SPEC)

    def content(self, name: str) -> bytes:
        """Return a file of the bundle. Raises `LabError` where it is damaged or missing."""
        try:
            return self.contents.read(name)
        except ValueError as error:
            raise LabError(f"{self.root}/{name} is damaged: {error}") from None

    def damaged_files(self) -> Mapping[Path, str]:
        """Return what is wrong with its files, each by where it lies; every one is read."""
        found = {}
        for name in self.contents.manifest.files:
            try:
                self.contents.read(name)
            except ValueError as error:
                found[self.root / name] = str(error)
        return found

    def named_files(self) -> Mapping[str, str]:
        """Return the places in the bundle of files that the sweep names, by their hashes."""
        return {
            known: place
            for known, place in self.contents.manifest.named.items()
            if place.startswith(f"{FILES}/")
        }

    def for_writing(self, what: str) -> Never:
        """Raise `LabError`: nothing is written into a bundle."""
        raise LabError(
            f"{self.root} is a bundle, and {what} needs the run itself; "
            f"this unpacks it and goes on with it: maxk-lab run {self.root}"
        )

    def write(self, record: object) -> Never:
        """Raise `LabError`."""
        self.for_writing("a new record")

    def write_spec(self, spec: object) -> Never:
        """Raise `LabError`."""
        self.for_writing("another spec")


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a member that lies in the archive as it is: what is in memory unfolds no further."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise RuntimeError("it is compressed in a way that no record of a bundle is")
    return archive.read(name)
