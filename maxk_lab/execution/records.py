"""A run on disk: its sweep, records, cache and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

    `place` is the path in messages; `root` is the folder of the files. They differ for a bundle.
    """

    def __init__(self, place: str | Path) -> None:
        self.place = Path(place)
        # The records that were read; None for an unreadable record.
        self._records: dict[Head, Record | None] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.place)!r})"

    @cached_property
    def root(self) -> Path:
        """The folder of the run's files."""
        return self.place

    @property
    def name(self) -> str:
        """The name of the folder, which is the name of the sweep unless a user renames it."""
        return self.place.name

    @property
    def spec_path(self) -> Path:
        """The file of the latest resolved sweep."""
        return self.root / "spec.yaml"

    @property
    def records_path(self) -> Path:
        """The folder of the segments."""
        return self.root / "records"

    @property
    def cache_path(self) -> Path:
        """The folder of pools, policies and held-out instances, which later cells reuse."""
        return self.root / "cache"

    @property
    def report_path(self) -> Path:
        """The folder of the run's report."""
        return self.root / "report"

    def title(self, spec: Sweep) -> str:
        """Return the name of the run in reports and trackers."""
        return self.name

    def for_writing(self, what: str) -> Self:
        """Return the run for a change; `what` is the verb. Raises `LabError` for a bundle."""
        return self

    @property
    def changed(self) -> float:
        """The time of the run's last change, in seconds since 1970; 0 if it is unknown."""
        return max(map(modified, (self.spec_path, *self.records_path.glob("*"))))

    def cached(self, unit: Unit, what: str) -> Iterator[Path]:
        """Yield the cache files of a unit; `what` names a function of the kind's module `spec`.

        That function returns the patterns of the files, as `evaluation` does.
        """
        patterns = getattr(STUDIES.get(unit.study).load_module("spec"), what, None)
        if patterns is None:
            return
        for pattern in patterns(unit.as_dict(), [cell.as_dict() for cell in unit.cells]):
            for path in self.cache_path.glob(pattern):
                if path.is_file() and not path.name.startswith(PARTIAL):
                    yield path

    def spec(self) -> Sweep:
        """Return the latest resolved sweep. Raises `LabError` if it is invalid."""
        from maxk_lab.sweep_file.load import read_spec

        return read_spec(self.spec_path)

    def write_spec(self, spec: Sweep) -> None:
        """Write the resolved sweep; an equal file is left alone and keeps its time."""
        from maxk_lab.sweep_file.load import spec_to_yaml

        data = spec_to_yaml(spec).encode()
        with suppress(OSError):
            if self.spec_path.read_bytes() == data:
                return
        write_atomically(self.spec_path, data)

    @cached_property
    def store(self) -> Store:
        """The store of the run's records."""
        return Store(self.records_path)

    @cached_property
    def _segment(self) -> Segment:
        return Segment(self.records_path)

    def append(self, lines: bytes) -> None:
        """Append lines to the segment of this process. Raises `StorageError`."""
        self._segment.append(lines)

    def write(self, record: Record, attempt: int | None = None) -> None:
        """Append a record, as the next attempt of its cell if `attempt` is None.

        Raises `ValueError` or `TypeError` for an unreadable record, or `StorageError`.
        """
        if attempt is None:
            head = self.heads.get(record.cell["id"])
            attempt = head.attempt + 1 if head else 1
        self.append(record.to_line(attempt))

    @property
    def heads(self) -> Mapping[str, Head]:
        """The head of the latest attempt of each cell, by cell id."""
        self.store.refresh()
        return self.store.heads

    def ids(self) -> list[str]:
        """Return the ids of all cells with a record, sorted."""
        return sorted(self.heads)

    def read(self, cell_id: str, planned: Cell | None = None) -> Record | None:
        """Return the record of a cell, with the planned cell; None if missing or unreadable."""
        return self._record(self.heads.get(cell_id), planned)

    def _record(self, head: Head | None, planned: Cell | None = None) -> Record | None:
        if head is None:
            return None
        if head not in self._records:
            self._records[head] = self._decode(head)
        record = self._records[head]
        # A record may hold removed settings, or settings of another plan.
        if record and planned is not None and record.cell != (cell := planned.as_dict()):
            return replace(record, cell=cell)
        return record

    def _decode(self, head: Head) -> Record | None:
        path = self.records_path / head.segment
        try:
            return Record.from_line(self.store.read(head))
        except OSError as error:
            reason = error.strerror or error
            warn(f"{path} cannot be read: {reason}; its cells count as missing")
        except ValueError as error:
            line = path.read_bytes()[: head.offset].count(b"\n") + 1
            warn(unreadable_line(path, line, error))
        return None

    def records(self, plan: Plan) -> list[Record]:
        """Return the records of the plan's cells in the plan's order, also failed records."""
        heads = self.heads
        records = (self._record(heads.get(cell.id), cell) for cell in plan.cells)
        return [record for record in records if record is not None]

    def failed(self) -> list[Record]:
        """Return the records of all failed cells by id, also of cells outside the plan."""
        heads = [head for _, head in sorted(self.heads.items()) if head.status == "failed"]
        return [record for record in map(self._record, heads) if record is not None]

    def stale(self, plan: Plan) -> int:
        """Return the number of records of cells outside the plan."""
        return len(self.heads.keys() - {cell.id for cell in plan.cells})


def modified(path: Path) -> float:
    """Return the time of a file's last change, in seconds since 1970; 0 if it is unknown."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
