"""Copies of what another run has done: its records, and of its cache what their units can use."""

from __future__ import annotations

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from maxk_lab.files import PARTIAL, save_atomically, write_atomically
from maxk_lab.sweeps.plan.cells import Cell, Unit
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.leases import Driver, Lease
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards import packing
from maxk_lab.sweeps.studies import STUDIES

# The key of the provenance that names the run a record was copied from.
REUSED_FROM = "reused_from"


def copy_cells(
    plan: Plan,
    found: Mapping[str, RunDirectory],
    run: RunDirectory,
    driver: Driver,
    before: Mapping[str, str | None],
) -> dict[str, str]:
    """Copy the records of these cells from the runs that have them, and return their names.

    What another driver is measuring, or has measured since `before`, is left to it; what is damaged
    is left out. A copy has the metrics, timings and provenance of its original, and in addition the
    name of the run. Each is written whole or not at all, after the files of the cache. Raises
    `StorageError` where one cannot be written.
    """
    copying = _Copying(run)
    for unit in plan.units:
        cells = [cell for cell in unit.cells if cell.id in found]
        lease = driver.take(unit.id) if cells else None
        if lease is None:
            continue
        copying.leases.append(lease)
        free = [one for one in cells if run.fingerprint(one.id) == before.get(one.id)]
        for origin, some in _by_run(free, found).items():
            _share_cache(unit, some, origin, run)
            for cell in some:
                if (record := _copy_of(cell, origin)) is not None:
                    copying.take(record, origin.name, alone=cell.id in before)
        copying.write_if_full()
    copying.write_rest()
    return copying.copied


@dataclass
class _Copying:
    """Records on their way into a run: by the thousand as a shard, the rest as files.

    Each file is flushed to the disk for itself, which takes most of the time. The leases of the
    units hold until their records are there.
    """

    run: RunDirectory
    copied: dict[str, str] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    _records: dict[str, bytes] = field(default_factory=dict)

    def take(self, record: Record, origin: str, *, alone: bool) -> None:
        """Take in a record; `alone` it replaces a damaged file, which would hide it in a shard."""
        cell_id = record.cell["id"]
        self.copied[cell_id] = origin
        if alone:
            self.run.write(record)
        else:
            self._records[cell_id] = record.to_bytes()

    def write_if_full(self) -> None:
        """Write what there is, if it is enough for a shard."""
        if packing.is_full(len(self._records), sum(map(len, self._records.values()))):
            packing.write_packed(self.run.cells, self._records)
            self._free()

    def write_rest(self) -> None:
        """Write what is left as files."""
        for cell_id, data in self._records.items():
            write_atomically(self.run.cells.path(cell_id), data)
        self._free()

    def _free(self) -> None:
        self._records.clear()
        while self.leases:
            self.leases.pop().release()


def _by_run(
    cells: Sequence[Cell], found: Mapping[str, RunDirectory]
) -> Mapping[RunDirectory, list[Cell]]:
    grouped: dict[RunDirectory, list[Cell]] = defaultdict(list)
    for cell in cells:
        grouped[found[cell.id]].append(cell)
    return grouped


def _copy_of(cell: Cell, origin: RunDirectory) -> Record | None:
    """Return a copy of a record that is sound and done, None of any other."""
    record = origin.read_once(cell.id, cell)
    if record is None or record.status != "done":
        return None
    # A copy of a copy names the run that has measured the cell.
    told = record.provenance.get(REUSED_FROM) or _origin(record, origin)
    return replace(record, provenance={**record.provenance, REUSED_FROM: told})


def _origin(record: Record, run: RunDirectory) -> dict[str, str]:
    """Return which run measured a record, and when; its commit is in the provenance already."""
    finished = time.gmtime(record.timings.get("finished", 0.0))
    return {"run": run.name, "measured": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", finished)}


def _share_cache(
    unit: Unit, cells: Sequence[Cell], origin: RunDirectory, run: RunDirectory
) -> None:
    """Put beside the records what the cache has for them: the pool, the policies they trained."""
    try:
        kept = STUDIES.get(unit.study).part("kept").kept
    except ModuleNotFoundError:
        return
    for pattern in kept(unit.as_dict(), [cell.as_dict() for cell in cells]):
        for path in origin.cache_path.glob(pattern):
            copy = run.cache_path / path.name
            if not copy.exists() and not path.is_symlink() and not path.name.startswith(PARTIAL):
                _share(path, copy)


def _share(path: Path, copy: Path) -> None:
    """Let two runs have a file: it is replaced when it changes, never written into."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    # The file may have been removed, or have come here in another way.
    with suppress(FileNotFoundError, FileExistsError, IsADirectoryError):
        try:
            os.link(path, copy, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:  # not every file system has links
            with path.open("rb") as file:
                save_atomically(copy, lambda target: shutil.copyfileobj(file, target))
