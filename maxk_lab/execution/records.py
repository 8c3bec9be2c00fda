"""A run on disk: its sweep, its records and what reports and later cells keep there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

from maxk_lab.errors import warn
from maxk_lab.execution.record import Record
from maxk_lab.execution.store import Head, Segment, Status, Store, unreadable_line
from maxk_lab.files import PARTIAL, write_atomically
from maxk_lab.planning.cells import Cell, Unit
from maxk_lab.planning.plan import Plan
from maxk_lab.sweep_file.model import Sweep
from maxk_lab.sweep_file.studies import STUDIES

__all__ = ["Record", "RunDirectory", "Status"]


class RunDirectory:
    """A run on disk: `<root>/{spec.yaml, records/, cache/, report/}`.

    Its records are in a `Store`, to which this process appends a segment of its own. `place` is
    where it lies, for people.
    """

    def __init__(self, place: str | Path) -> None:
        self.place = Path(place)
        # None for a record that cannot be read.
        self._records: dict[Head, Record | None] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.place)!r})"

    @cached_property
    def root(self) -> Path:
        """The folder of its files."""
        return self.place

    @property
    def name(self) -> str:
        """The name of the folder: that of the sweep, until it is copied or renamed."""
        return self.place.name

    @property
    def spec_path(self) -> Path:
        """The file of the resolved spec of the latest run."""
        return self.root / "spec.yaml"

    @property
    def records_path(self) -> Path:
        """The folder of the segments."""
        return self.root / "records"

    @property
    def cache_path(self) -> Path:
        """The folder of what later cells can use: pools, policies, held-out instances."""
        return self.root / "cache"

    @property
    def report_path(self) -> Path:
        """The folder of its report."""
        return self.root / "report"

    def title(self, spec: Sweep) -> str:
        """Return the name that reports and trackers call a run of this spec by: its own."""
        return self.name

    def for_writing(self, what: str) -> Self:
        """Return the run, as one that can be changed for `what`.

        Raises `LabError` for a bundle.
        """
        return self

    @property
    def changed(self) -> float:
        """The time of its last change, in seconds since 1970; 0 where that is not known."""
        return max(map(modified, (self.spec_path, *self.records_path.glob("*"))))

    def cached(self, unit: Unit, what: str, cells: Iterable[Cell] | None = None) -> Iterator[Path]:
        """Yield what the cache has of a unit, as far as its kind calls it `what`.

        That is the name of a function of the kind's module `spec`, such as `evaluation`; a kind
        without files has none. It is asked about these `cells`; all of the unit if None.
        """
        patterns = getattr(STUDIES.get(unit.study).part("spec"), what, None)
        if patterns is None:
            return
        chosen = unit.cells if cells is None else cells
        for pattern in patterns(unit.as_dict(), [cell.as_dict() for cell in chosen]):
            for path in self.cache_path.glob(pattern):
                if path.is_file() and not path.name.startswith(PARTIAL):
                    yield path

    def spec(self) -> Sweep:
        """Return the resolved spec of the latest run. Raises `LabError` without a sound one."""
        from maxk_lab.sweep_file.load import read_spec

        return read_spec(self.spec_path)

    def write_spec(self, spec: Sweep) -> None:
        """Keep the resolved spec, in place of that of an earlier run.

        An equal one stays as it is, with its time: what was made of it since is still right.
        """
        from maxk_lab.sweep_file.load import spec_to_yaml

        data = spec_to_yaml(spec).encode()
        with suppress(OSError):
            if self.spec_path.read_bytes() == data:
                return
        write_atomically(self.spec_path, data)

    @cached_property
    def store(self) -> Store:
        """Its records."""
        return Store(self.records_path)

    @cached_property
    def _segment(self) -> Segment:
        return Segment(self.records_path)

    def append(self, lines: bytes) -> None:
        """Append records, as whole lines, to the segment of this process.

        Raises `StorageError` where they cannot be written.
        """
        self._segment.append(lines)

    def write(self, record: Record, attempt: int | None = None) -> None:
        """Append a record; of its cell it is the next attempt where that is not said.

        Raises `ValueError` or `TypeError` for an unreadable record, and as `append` does.
        """
        self.append(record.to_line(attempt or self.attempt(record.cell["id"]) + 1))

    @property
    def heads(self) -> Mapping[str, Head]:
        """The heads of the records that count now, by the ids of their cells."""
        self.store.look()
        return self.store.heads

    def ids(self) -> list[str]:
        """Return the ids of all cells with a record, sorted."""
        return sorted(self.heads)

    def attempt(self, cell_id: str) -> int:
        """Return how often a cell was measured, 0 without a record."""
        head = self.heads.get(cell_id)
        return head.attempt if head else 0

    def read(self, cell_id: str, planned: Cell | None = None) -> Record | None:
        """Return the record of a cell, which may be `planned`; None if missing or unreadable."""
        return self._of(self.heads.get(cell_id), planned)

    def _of(self, head: Head | None, planned: Cell | None = None) -> Record | None:
        if head is None:
            return None
        if head not in self._records:
            self._records[head] = self._decoded(head)
        record = self._records[head]
        if record is None:
            return None
        # The record may name removed settings, or what another plan varied.
        if planned is not None and record.cell != (cell := planned.as_dict()):
            return replace(record, cell=cell)
        return record

    def _decoded(self, head: Head) -> Record | None:
        try:
            return Record.from_line(self.store.read(head))
        except (ValueError, OSError) as error:
            path = self.records_path / head.segment
            line = path.read_bytes()[: head.offset].count(b"\n") + 1
            warn(unreadable_line(path, line, error))
            return None

    def records(self, plan: Plan) -> list[Record]:
        """Return the records of the plan's cells in its order, failed too, with its setting."""
        heads = self.heads
        records = (self._of(heads.get(cell.id), cell) for cell in plan.cells)
        return [record for record in records if record is not None]

    def failed(self) -> list[Record]:
        """Return the records of all failed cells, also where no plan asks for them."""
        heads = [head for _, head in sorted(self.heads.items()) if head.status == "failed"]
        return [record for record in map(self._of, heads) if record is not None]

    def stale(self, plan: Plan) -> int:
        """Return how many records are not of cells of the plan."""
        return len(self.heads.keys() - {cell.id for cell in plan.cells})


def modified(path: Path) -> float:
    """Return when a file was last written, in seconds since 1970; 0 where that is not known."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
