"""Records on disk: one file per finished cell, complete or absent, checked on every reading."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.files import check_regular, read_regular, write_atomically
from maxk_lab.memory import collector_at_rest
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.record import Record, StaleRecordError, Status
from maxk_lab.sweeps.spec.schema import SweepSpec

__all__ = ["Record", "RunDirectory", "Status", "find_folder", "find_run", "find_runs"]

# A record of more bytes is neither written nor read.
MOST_BYTES = 256 * 2**20
_Decode = Callable[[bytes, str, Cell | None], Record]


@dataclass(frozen=True)
class _Reading:
    """A way to read a record, and those that were read, each with the stamp of its file."""

    decode: _Decode
    known: dict[str, tuple[tuple[int, int, int], Record]] = field(default_factory=dict)


def _as_planned(record: Record, cell: Cell) -> Record:
    """Return the record with the plan's setting: an earlier spec may have varied something else."""
    if record.cell.get("setting", {}) == cell.setting:
        return record
    bare = {key: value for key, value in record.cell.items() if key != "setting"}
    return replace(record, cell=bare | ({"setting": dict(cell.setting)} if cell.setting else {}))


class RunDirectory:
    """A run on disk: `<root>/{spec.yaml, cells/<id>.json, cache/, events.log, report/}`."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.spec_path = self.root / "spec.yaml"
        self.cells_path = self.root / "cells"
        self.cache_path = self.root / "cache"
        self.events_path = self.root / "events.log"
        self.report_path = self.root / "report"
        self._problems: dict[str, str] = {}
        self._older: set[str] = set()
        self._whole, self._outlined = _Reading(Record.from_bytes), _Reading(Record.outline)
        self._checked = _Reading(Record.checked_outline)

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.root)!r})"

    @property
    def name(self) -> str:
        """The name of the folder, which is that of the sweep."""
        return self.root.name

    @property
    def problems(self) -> list[str]:
        """Damaged records met so far, one line each; they count as absent."""
        return list(self._problems.values())

    @property
    def damaged(self) -> Mapping[str, str]:
        """The same lines by the ids of the cells."""
        return dict(self._problems)

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
        """Keep the resolved spec, in place of that of an earlier run."""
        from maxk_lab.sweeps.spec.load import spec_to_yaml

        write_atomically(self.spec_path, spec_to_yaml(spec).encode())

    def write(self, record: Record) -> None:
        """Write a record, all or nothing, that is sound when it is read.

        Raises `ValueError` or `TypeError` for one that would be damaged.
        """
        data = record.to_bytes()
        if len(data) > MOST_BYTES:
            raise ValueError(f"the record has {len(data):,} bytes, at most {MOST_BYTES:,} are read")
        Record.from_bytes(data, record.cell["id"])
        write_atomically(self._path(record.cell["id"]), data)

    def read(self, cell_id: str) -> Record | None:
        """Return the record of a cell; None if absent, damaged or of an older version."""
        return self._read(cell_id, self._whole)

    def records(self, plan: Plan) -> list[Record]:
        """Return the records of the plan's cells in its order, failed too, with its setting."""
        return self._of_plan(plan, self._whole)

    def outlines(self, plan: Plan) -> list[Record]:
        """Return the same, without metrics and provenance where they were not read before.

        They take a tenth of the memory. What is in the metrics is not looked at.
        """
        return self._of_plan(plan, self._outlined)

    def checked_outlines(self, plan: Plan) -> list[Record]:
        """Return the same of the records that are sound in all that they hold."""
        return self._of_plan(plan, self._checked)

    def _of_plan(self, plan: Plan, reading: _Reading) -> list[Record]:
        there = set(self.ids())
        self._problems = {one: why for one, why in self._problems.items() if one in there}
        self._older &= there
        found = (
            (self._read(cell.id, reading, cell), cell) for cell in plan.cells if cell.id in there
        )
        with collector_at_rest():
            return [_as_planned(record, cell) for record, cell in found if record is not None]

    def all_records(self) -> Iterator[Record]:
        """Yield every sound record of this identity version, also where no plan asks for it."""
        return (record for cell_id in self.ids() if (record := self.read(cell_id)) is not None)

    def all_outlines(self) -> Iterator[Record]:
        """Yield the same without metrics and provenance; see `outlines`."""
        found = (self._read(cell_id, self._outlined) for cell_id in self.ids())
        return (record for record in found if record is not None)

    def ids(self) -> list[str]:
        """Return the ids of all cells with a file, sorted."""
        try:
            names = os.listdir(self.cells_path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LabError(f"the records of {self.root} cannot be listed: {error}") from error
        return sorted(
            name.removesuffix(".json")
            for name in names
            if name.endswith(".json") and not name.startswith(".")
        )

    def stale(self, plan: Plan) -> list[str]:
        """Return cells with a record that the plan does not reuse: of another spec or version.

        Those of the plan's own cells are told once they were read.
        """
        planned = {cell.id for cell in plan.cells} - self._older
        return [one for one in self.ids() if one not in planned]

    def _read(self, cell_id: str, reading: _Reading, planned: Cell | None = None) -> Record | None:
        path = f"{self.cells_path}/{cell_id}.json"
        self._problems.pop(cell_id, None)
        self._older.discard(cell_id)
        try:
            status = os.stat(path)
            # Records are replaced, never edited: the same file need not be read twice.
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            for known in (self._whole.known, reading.known):
                if cell_id in known and known[cell_id][0] == stamp:
                    return known[cell_id][1]
            record = reading.decode(read_regular(path, MOST_BYTES), cell_id, planned)
        except FileNotFoundError:
            return None
        except StaleRecordError:
            self._older.add(cell_id)
            return None
        except (ValueError, OSError) as error:
            self._problems[cell_id] = f"{path}: damaged and not used: {error}"
            return None
        reading.known[cell_id] = (stamp, record)
        return record

    def _path(self, cell_id: str) -> Path:
        return self.cells_path / f"{cell_id}.json"


def find_runs(results: str | Path = "results") -> list[RunDirectory]:
    """Return every run under `results`, the one that ran last first."""
    found = [RunDirectory(path.parent) for path in Path(results).glob("*/spec.yaml")]
    return sorted(found, key=lambda run: (-_last_change(run), run.name))


def find_run(
    name_or_path: str | Path | None = None, results: str | Path = "results"
) -> RunDirectory:
    """Return the run of that name under `results` or in that folder; the latest if None.

    Raises `LabError` where there is none.
    """
    if name_or_path is not None:
        for root in (Path(results) / name_or_path, Path(name_or_path)):
            if os.path.lexists(root / "spec.yaml"):
                return RunDirectory(root)
    runs = find_runs(results)
    if name_or_path is None and runs:
        return runs[0]
    if not runs:
        raise LabError(
            f"no runs under {results}; start one with: maxk-lab run experiments/tsp_sweep.yaml"
        )
    known = [run.name for run in runs]
    also = did_you_mean(str(name_or_path), known)
    raise LabError(f"no run {str(name_or_path)!r}{also}; known: {', '.join(known)}")


def find_folder(name_or_path: str, results: str | Path = "results") -> RunDirectory:
    """Return the same of a run that may have lost its spec, but not its records.

    Raises `LabError` where there is none.
    """
    for root in (Path(results) / name_or_path, Path(name_or_path)):
        if (root / "cells").is_dir():
            return RunDirectory(root)
    return find_run(name_or_path, results)


def _last_change(run: RunDirectory) -> float:
    return max(path.stat().st_mtime for path in (run.spec_path, run.events_path) if path.exists())
