"""The writing of a bundle: what of a run goes into it, and in what form."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import maxk_lab
from maxk_lab.errors import LabError
from maxk_lab.files import PARTIAL, read_regular, save_atomically
from maxk_lab.sweeps.plan.cells import Cell, Unit
from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.bundles.contents import CACHE, CELLS, REPORT, SPEC, is_name
from maxk_lab.sweeps.run.bundles.manifest import FORMAT, MANIFEST, Manifest
from maxk_lab.sweeps.run.bundles.named import NamedFiles, named_files
from maxk_lab.sweeps.run.record import Record, StaleRecordError
from maxk_lab.sweeps.run.record_bytes import MOST_BYTES
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards.archive import member_info, shard_bytes
from maxk_lab.sweeps.run.shards.packing import FULL, RECORDS
from maxk_lab.sweeps.studies import STUDIES

# Records repeat each other: together, and by LZMA, they take two thirds of what each alone takes by
# Deflate. Everything else is what any program unpacks.
_OF_RECORDS, _OF_OTHERS = zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED


@dataclass(frozen=True)
class Written:
    """A bundle that was written: its records, the planned cells that have none, what is absent."""

    path: Path
    records: int
    missing: int
    stale: int
    absent: tuple[str, ...]

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.path.stat().st_size


def write_bundle(
    run: RunDirectory,
    path: Path,
    *,
    report: Mapping[str, bytes] | None = None,
    checkpoints: bool = False,
) -> Written:
    """Write a run into one file, all or nothing; equal runs give equal files.

    `report` has the files of its report by their names; with `checkpoints` all goes along that the
    cache keeps for later cells, trained policies too, and the checkpoints that the sweep names.
    Raises `LabError` for a run with a damaged record, and `StorageError` where it cannot be
    written.
    """
    plan = make_plan(run.spec())
    spec = read_regular(run.spec_path, MOST_BYTES)
    run.ids()
    named = named_files(plan.spec, checkpoints=checkpoints)
    content = _Content(run, plan, named, {f"{REPORT}/{k}": v for k, v in (report or {}).items()})
    content.files[SPEC] = spec
    content.files |= _of_cache(run, plan, checkpoints=checkpoints)
    content.check()
    save_atomically(path, content.write)
    return Written(
        path,
        content.records,
        len(plan.cells) - content.records,
        len(run.stale(plan)),
        tuple(named.absent),
    )


class _Content:
    """All that a bundle holds; the records are read on the way, a shard at a time."""

    def __init__(
        self, run: RunDirectory, plan: Plan, named: NamedFiles, report: Mapping[str, bytes]
    ) -> None:
        self.files: dict[str, bytes] = {**named.files, **report}
        self.records = 0
        self._run, self._name, self._places = run, plan.spec.name, named.places
        self._planned = sorted(plan.cells, key=lambda cell: cell.id)

    def check(self) -> None:
        """Raise `LabError` where a record is damaged: it is not handed on."""
        damaged = []
        for cell in self._planned:
            try:
                self._record(cell)
            except ValueError as error:
                damaged.append(f"{self._run.cells.place(cell.id)}: {error}")
        if damaged:
            raise LabError(
                f"{len(damaged)} damaged record{'s are' * (len(damaged) > 1) or ' is'} not handed "
                f"on ({damaged[0]}); move what is damaged aside, or measure it again: "
                f"maxk-lab fsck {self._run.root} --repair"
            )

    def write(self, file: BinaryIO) -> None:
        """Write the zip file; the manifest comes last."""
        hashes: dict[str, str] = {}
        records: dict[str, dict[str, str]] = {}
        with zipfile.ZipFile(file, "w") as archive:

            def add(name: str, data: bytes, method: int) -> None:
                hashes[name] = hashlib.sha256(data).hexdigest()
                archive.writestr(member_info(name), data, method, 9)

            for number, batch in enumerate(self._batches(), start=1):
                shard = shard_bytes(batch, zipfile.ZIP_STORED)
                name = f"{CELLS}/{number:06d}-{hashlib.sha256(shard).hexdigest()[:16]}.zip"
                add(name, shard, _OF_RECORDS)
                records[name] = {c: hashlib.sha256(data).hexdigest() for c, data in batch.items()}
            for name, data in sorted(self.files.items()):
                add(name, data, _OF_OTHERS)
            manifest = Manifest(
                format=FORMAT,
                name=self._name,
                maxk_lab=maxk_lab.__version__,
                files=hashes,
                records=records,
                named=self._places,
            )
            archive.writestr(member_info(MANIFEST), manifest.to_bytes(), _OF_OTHERS, 9)
        self.records = sum(map(len, records.values()))

    def _batches(self) -> Iterator[dict[str, bytes]]:
        """Yield the records by as many as a shard has, in the order of their ids."""
        batch: dict[str, bytes] = {}
        size = 0
        for cell in self._planned:
            data = self._record(cell)
            if data is None:
                continue
            batch[cell.id] = data
            size += len(data)
            if len(batch) >= RECORDS or size >= FULL:
                yield batch
                batch, size = {}, 0
        if batch:
            yield batch

    def _record(self, cell: Cell) -> bytes | None:
        """Return the bytes of a record; None without one, and for one of an older version.

        Raises `ValueError` where it is damaged.
        """
        try:
            data = self._run.cells.read(cell.id)
            record = Record.from_bytes(data, cell.id, cell)
        except (FileNotFoundError, StaleRecordError):
            return None
        except OSError as error:
            raise ValueError(str(error)) from error
        if record.content is not None:
            record.content.check_points()
        return data


def _of_cache(run: RunDirectory, plan: Plan, *, checkpoints: bool) -> dict[str, bytes]:
    """Return the files of the cache that go along, by their names in the bundle."""
    found = {
        path.name: path
        for unit in plan.units
        for pattern in _patterns(unit, checkpoints=checkpoints)
        for path in run.cache_path.glob(pattern)
        if path.is_file() and not path.name.startswith(PARTIAL)
    }
    return {
        f"{CACHE}/{name}": read_regular(path, MOST_BYTES)
        for name, path in found.items()
        if is_name(f"{CACHE}/{name}")
    }


def _patterns(unit: Unit, *, checkpoints: bool) -> Iterator[str]:
    try:
        part = STUDIES.get(unit.study).part("kept")
    except ModuleNotFoundError:
        return
    # A kind of another package may know of no evaluation.
    which = part.kept if checkpoints else getattr(part, "evaluation", None)
    if which is not None:
        yield from which(unit.as_dict(), [cell.as_dict() for cell in unit.cells])
