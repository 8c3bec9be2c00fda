"""Records on disk: one per finished cell, complete or absent, checked on every reading."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from maxk_lab.errors import LabError
from maxk_lab.files import check_regular, read_regular, write_atomically
from maxk_lab.memory import collector_at_rest
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.plan.changes import ELSE, changes
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.record import Record, Status
from maxk_lab.sweeps.run.record_bytes import MOST_BYTES
from maxk_lab.sweeps.run.shards import packing
from maxk_lab.sweeps.run.shards.cells import Cells
from maxk_lab.sweeps.run.shards.readings import Reading, Readings
from maxk_lab.sweeps.spec.schema import SweepSpec

__all__ = ["Record", "RunDirectory", "Status"]

# Of a record that is sound its status, else what is wrong with it.
RecordState = Literal["done", "failed", "damaged", "older"]
# The most records of which it is told why they are stale.
_EXPLAINED = 1000


def _as_planned(record: Record, cell: Cell) -> Record:
    """Return the record with the plan's setting: an earlier spec may have varied something else."""
    if record.cell.get("setting", {}) == cell.setting:
        return record
    bare = {key: value for key, value in record.cell.items() if key != "setting"}
    return replace(record, cell=bare | ({"setting": dict(cell.setting)} if cell.setting else {}))


class RunDirectory:
    """A run on disk: `<root>/{spec.yaml, cells/, cache/, events.log, report/}`.

    A record is a file `cells/<id>.json`, or one of the thousand in a shard
    `cells/<number>-<hash>.zip`, where it has the same name and the same bytes. `cells` finds them
    elsewhere: a `Bundle` is a run in one file, of which `root` is the path.
    """

    def __init__(self, root: str | Path, cells: Cells | None = None) -> None:
        self.root = Path(root)
        self.spec_path = self.root / "spec.yaml"
        self.cells_path = self.root / "cells"
        self.cache_path = self.root / "cache"
        self.events_path = self.root / "events.log"
        self.report_path = self.root / "report"
        self.cells = Cells(self.cells_path) if cells is None else cells
        self._readings = Readings(self.cells)

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.root)!r})"

    @property
    def name(self) -> str:
        """The name of the folder: that of the sweep, until it is copied or renamed."""
        return self.root.name

    def title(self, spec: SweepSpec) -> str:
        """Return the name that reports and trackers call a run of this spec by: its own."""
        return self.name

    @property
    def told_by(self) -> Sequence[Path]:
        """The files that tell by their age when a run last worked here."""
        return self.spec_path, self.events_path

    def for_writing(self, what: str) -> Self:
        """Return the run, as one that can be changed for `what`.

        Raises `LabError` for a bundle.
        """
        return self

    @property
    def repairable(self) -> bool:
        """Whether what is damaged can be moved aside, and measured again."""
        return True

    def damaged_files(self) -> Mapping[Path, str]:
        """Return what is wrong with files as a whole, where the run knows how each has to be."""
        return {}

    @property
    def problems(self) -> list[str]:
        """Damaged records and shards met so far, one line each; they count as absent."""
        return [*self.cells.problems, *self._readings.damaged.values()]

    @property
    def damaged(self) -> Mapping[str, str]:
        """The lines about damaged records, by the ids of their cells."""
        return dict(self._readings.damaged)

    @property
    def unusable(self) -> Set[str]:
        """The ids of cells whose records were found damaged, or of an older version."""
        return self._readings.damaged.keys() | self._readings.older

    def spec(self) -> SweepSpec:
        """Return the resolved spec of the latest run. Raises `LabError` without a sound one."""
        from maxk_lab.sweeps.spec.load import read_spec

        try:
            check_regular(self.spec_path, MOST_BYTES)
        except FileNotFoundError:
            raise LabError(f"{self.spec_path} does not exist") from None
        except (ValueError, OSError) as error:
            raise LabError(f"{self.spec_path} cannot be read: {error}") from None
        return read_spec(self.spec_path)

    def write_spec(self, spec: SweepSpec) -> None:
        """Keep the resolved spec, in place of that of an earlier run.

        An equal one stays as it is, with its time: what was made of it since is still right.
        """
        from maxk_lab.sweeps.spec.load import spec_to_yaml

        data = spec_to_yaml(spec).encode()
        with suppress(OSError, ValueError):
            if read_regular(self.spec_path, MOST_BYTES) == data:
                return
        write_atomically(self.spec_path, data)

    def write(self, record: Record) -> None:
        """Write a record, all or nothing, that is sound when it is read.

        Raises `ValueError` or `TypeError` for one that would be damaged.
        """
        data = record.to_bytes()
        if len(data) > MOST_BYTES:
            raise ValueError(f"the record has {len(data):,} bytes, at most {MOST_BYTES:,} are read")
        Record.from_bytes(data, record.cell["id"])
        write_atomically(self.cells.path(record.cell["id"]), data)

    def read(self, cell_id: str) -> Record | None:
        """Return the record of a cell; None if absent, damaged or of an older version."""
        return self._readings.read(cell_id, self._readings.whole)

    def read_once(self, cell_id: str, planned: Cell | None = None) -> Record | None:
        """Return the same, without keeping it for the next reading."""
        return self._readings.read(cell_id, Reading(Record.from_bytes), planned)

    def state(self, cell_id: str) -> RecordState | None:
        """Return the state of a record, None without one; its metrics are not looked at."""
        record = self._readings.read(cell_id, Reading(Record.outline))
        if record is not None:
            return record.status
        if cell_id in self._readings.damaged:
            return "damaged"
        return "older" if cell_id in self._readings.older else None

    def records(self, plan: Plan) -> list[Record]:
        """Return the records of the plan's cells in its order, failed too, with its setting."""
        return self._of_plan(plan, self._readings.whole)

    def outlines(self, plan: Plan) -> list[Record]:
        """Return the same, without metrics and provenance where they were not read before.

        They take a tenth of the memory. What is in the metrics is not looked at.
        """
        return self._of_plan(plan, self._readings.outlined)

    def checked_outlines(self, plan: Plan) -> list[Record]:
        """Return the same of the records that are sound in all that they hold."""
        return self._of_plan(plan, self._readings.checked)

    def _of_plan(self, plan: Plan, reading: Reading) -> list[Record]:
        there, read = set(self.ids()), self._readings.read
        self._readings.keep(there)
        found = ((read(cell.id, reading, cell), cell) for cell in plan.cells if cell.id in there)
        with collector_at_rest():
            return [_as_planned(record, cell) for record, cell in found if record is not None]

    def all_outlines(self) -> Iterator[Record]:
        """Yield an outline of every sound record, also where no plan asks for it."""
        readings = self._readings
        found = (readings.read(cell_id, readings.outlined) for cell_id in self.ids())
        return (record for record in found if record is not None)

    def ids(self) -> list[str]:
        """Return the ids of all cells with a record, sorted."""
        return self.cells.ids()

    def stale(self, plan: Plan) -> list[str]:
        """Return cells with a record that the plan does not reuse: of another spec or version.

        Those of the plan's own cells are told once they were read.
        """
        planned = {cell.id for cell in plan.cells} - self._readings.older
        return [one for one in self.ids() if one not in planned]

    def stale_because(self, plan: Plan) -> dict[str, str]:
        """Return the reasons why the plan does not reuse the same, by their ids.

        Of very many, those of the first.
        """
        stale, readings = self.stale(plan), self._readings
        read = (readings.read(one, readings.outlined) for one in stale[:_EXPLAINED])
        told = changes((record.cell for record in read if record is not None), plan)
        return {one: told.get(one, ELSE) for one in stale if one not in readings.damaged}

    def fingerprint(self, cell_id: str) -> str | None:
        """Return a hash of the bytes of a record, sound or not; None where there is none."""
        try:
            data = self.cells.peek(cell_id)
        except (OSError, ValueError) as error:
            return str(error)
        return None if data is None else hashlib.sha256(data).hexdigest()

    def pack(self, only: Collection[str] | None = None) -> int:
        """Pack sound records into shards by a thousand, and return how many were packed.

        With `only`, those of these cells; else of all, and what has been replaced is dropped from
        the shards. For a process beside which nobody writes these records: without `only`, one that
        is alone at work in the run. Readers see every record all the time. Raises `StorageError`
        where a shard cannot be written; nothing is lost then, or when this process is killed.
        """
        packed = packing.pack(self.cells, self._readings.is_sound, self._readings.moved, only)
        if only is None:
            packing.drop_replaced(self.cells)
        return packed
