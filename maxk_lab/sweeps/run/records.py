"""Records on disk: one file per finished cell, complete or absent, checked on every reading."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.files import write_atomically
from maxk_lab.memory import collector_at_rest
from maxk_lab.sweeps.plan.cells import OUTSIDE_MEANING, Cell
from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION, content_hash
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.record_bytes import decoded, encoded, outlined
from maxk_lab.sweeps.spec.schema import SweepSpec

Status = Literal["done", "failed"]


@dataclass(frozen=True)
class Record:
    """The outcome of a cell: its metrics if done, the traceback if failed, and its provenance."""

    cell: dict[str, Any]
    status: Status
    metrics: dict[str, Any] | None = None
    error: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the record as JSON with its checksum.

        Raises `ValueError` or `TypeError` for what JSON cannot hold.
        """
        return encoded(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Record:
        """Return the record in `data`. Raises `ValueError` that says what is damaged."""
        return cls._of(decoded(data))

    @classmethod
    def outline(cls, data: bytes) -> Record:
        """Return the same without metrics and provenance, in half of the time. Raises alike."""
        return cls._of(outlined(data))

    @classmethod
    def _of(cls, content: dict[str, Any]) -> Record:
        try:
            return cls(**content)
        except TypeError:
            raise ValueError("not a record") from None


@dataclass(frozen=True)
class _Reading:
    """A way to read a record, and those that were read, each with the stamp of its file."""

    decode: Callable[[bytes], Record]
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
        self._whole, self._outlined = _Reading(Record.from_bytes), _Reading(Record.outline)

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

    def spec(self) -> SweepSpec:
        """Return the resolved spec of the latest run. Raises `LabError` when there is none."""
        from maxk_lab.sweeps.spec.load import read_spec

        return read_spec(self.spec_path)

    def write_spec(self, spec: SweepSpec) -> None:
        """Keep the resolved spec, in place of that of an earlier run."""
        from maxk_lab.sweeps.spec.load import spec_to_yaml

        write_atomically(self.spec_path, spec_to_yaml(spec).encode())

    def write(self, record: Record) -> None:
        """Write a record, all or nothing. Raises as `Record.to_bytes` does."""
        write_atomically(self._path(record.cell["id"]), record.to_bytes())

    def read(self, cell_id: str) -> Record | None:
        """Return the record of a cell; None if absent, damaged or of another identity version."""
        record = self._read(cell_id, self._whole)
        return None if record is None or _of_other_version(record) else record

    def records(self, plan: Plan) -> list[Record]:
        """Return the records of the plan's cells in its order, failed too, with its setting."""
        return self._of_plan(plan, self._whole)

    def outlines(self, plan: Plan) -> list[Record]:
        """Return the same, without metrics and provenance where they were not read before.

        They take a tenth of the memory.
        """
        return self._of_plan(plan, self._outlined)

    def _of_plan(self, plan: Plan, reading: _Reading) -> list[Record]:
        there = set(self.ids())
        self._problems = {one: why for one, why in self._problems.items() if one in there}
        found = (
            (self._read(cell.id, reading, cell), cell) for cell in plan.cells if cell.id in there
        )
        with collector_at_rest():
            return [_as_planned(record, cell) for record, cell in found if record is not None]

    def all_records(self) -> Iterator[Record]:
        """Yield every sound record of this identity version, also where no plan asks for it."""
        return (record for cell_id in self.ids() if (record := self.read(cell_id)) is not None)

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

        The id of a cell tells its version, too.
        """
        planned = {cell.id for cell in plan.cells}
        return [one for one in self.ids() if one not in planned]

    def _read(self, cell_id: str, reading: _Reading, planned: Cell | None = None) -> Record | None:
        path = f"{self.cells_path}/{cell_id}.json"
        try:
            status = os.stat(path)
            # Records are replaced, never edited: the same file need not be read twice.
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            for known in (self._whole.known, reading.known):
                if cell_id in known and known[cell_id][0] == stamp:
                    return known[cell_id][1]
            with open(path, "rb") as file:
                record = reading.decode(file.read())
            if not _is_of(record, cell_id, planned):
                raise ValueError("it is not the record of this cell")
        except FileNotFoundError:
            self._problems.pop(cell_id, None)
            return None
        except (ValueError, OSError) as error:
            self._problems[cell_id] = f"{path}: damaged and not used: {error}"
            return None
        self._problems.pop(cell_id, None)
        reading.known[cell_id] = (stamp, record)
        return record

    def _path(self, cell_id: str) -> Path:
        return self.cells_path / f"{cell_id}.json"


def _of_other_version(record: Record) -> bool:
    return record.cell.get("identity_version") != IDENTITY_VERSION


def _is_of(record: Record, cell_id: str, planned: Cell | None) -> bool:
    """Whether it is the record of the cell with this id, which may be `planned`."""
    if planned is not None and record.cell == planned.as_dict():
        return True
    meaning = {key: value for key, value in record.cell.items() if key not in OUTSIDE_MEANING}
    return record.cell.get("id") == cell_id == content_hash(meaning)


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
            if (root / "spec.yaml").is_file():
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


def _last_change(run: RunDirectory) -> float:
    return max(path.stat().st_mtime for path in (run.spec_path, run.events_path) if path.exists())
