"""The check of a run on disk: what its files are worth, and damaged ones moved out of the way."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from maxk_lab.errors import LabError
from maxk_lab.files import PARTIAL, check_archive, read_regular, write_atomically
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.leases import exclusive
from maxk_lab.sweeps.run.record_bytes import MOST_BYTES
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards.cells import MARK
from maxk_lab.sweeps.run.shards.packing import drop_replaced

State = Literal["done", "failed", "stale", "damaged", "left over"]
DAMAGED: Literal["damaged"] = "damaged"
# What torch and NumPy write.
ARCHIVES = (".pt", ".npz")


@dataclass(frozen=True)
class Finding:
    """A file of a run and its state; `cell` is the id of its cell where it is a record."""

    path: Path
    state: State
    why: str = ""
    cell: str | None = None


@dataclass(frozen=True)
class Examination:
    """All that was found: records, other files, and the planned cells without a record.

    Without a sound spec it is not known what is planned, and `planned` is None.
    """

    records: tuple[Finding, ...]
    files: tuple[Finding, ...]
    planned: int | None
    missing: tuple[str, ...]

    @property
    def damaged(self) -> list[Finding]:
        """The damaged ones."""
        return [one for one in (*self.records, *self.files) if one.state == DAMAGED]

    @property
    def counts(self) -> Counter[str]:
        """The number of records in each state, and of cells that have none."""
        found = Counter[str](record.state for record in self.records)
        return found + Counter(missing=len(self.missing))


def examine(run: RunDirectory) -> Examination:
    """Read every file of a run, and change none."""
    files = [*_files(run)]
    plan = None
    try:
        plan = make_plan(run.spec())
    except LabError as error:
        files.insert(0, Finding(run.spec_path, DAMAGED, str(error)))
    try:
        ids = run.ids()
    except LabError as error:
        files.append(Finding(run.cells_path, DAMAGED, str(error)))
        ids = []
    files += [Finding(path, DAMAGED, why) for path, why in run.cells.lost.items()]
    planned = {} if plan is None else {cell.id: cell for cell in plan.cells}
    there = set(ids)
    return Examination(
        tuple(_record(run, cell_id, planned, known=plan is not None) for cell_id in ids),
        tuple(files),
        None if plan is None else len(plan.cells),
        () if plan is None else tuple(c.id for c in plan.cells if c.id not in there),
    )


def repair(run: RunDirectory) -> tuple[list[Path], list[Path]]:
    """Move what is damaged aside, and remove what killed processes left; return both.

    What is moved lies in `<run>/damaged/`, beside all that was moved there before. Raises
    `LabError` while a run is at work there.
    """
    with exclusive(run.root, "fsck --repair"):
        found = examine(run)
        moved = [_moved_aside(run, one) for one in found.damaged]
        # Also what a damaged file had replaced: it is not to come to light again.
        drop_replaced(run.cells, {one.cell for one in found.damaged if one.cell is not None})
        left = [one.path for one in found.files if one.state == "left over"]
        for path in left:
            path.unlink(missing_ok=True)
    return moved, left


def _record(
    run: RunDirectory, cell_id: str, planned: Mapping[str, Cell], *, known: bool
) -> Finding:
    """Look at a record as a report reads it; where it is `known` what is planned, as planned."""
    record = run.read_once(cell_id, planned.get(cell_id))
    path = run.cells.place(cell_id)
    if record is None:
        why = run.damaged.get(cell_id)
        if why is None:
            return Finding(path, "stale", "of an older version of maxk-lab", cell_id)
        return Finding(path, DAMAGED, why.partition("not used: ")[2], cell_id)
    if record.content is not None:
        try:
            record.content.check_points()
        except ValueError as error:
            return Finding(path, DAMAGED, str(error), cell_id)
    if known and cell_id not in planned:
        return Finding(path, "stale", "of another sweep file", cell_id)
    return Finding(path, record.status, cell=cell_id)


def _files(run: RunDirectory) -> Iterator[Finding]:
    for path, why in run.damaged_files().items():
        yield Finding(path, DAMAGED, why)
    why = _wrong_with_events(run.events_path)
    if why:
        yield Finding(run.events_path, DAMAGED, why)
    for path in sorted(run.cache_path.glob("[!.]*")):
        # Optima are text, and other kinds of studies may keep what they like.
        if path.suffix in ARCHIVES and path.is_file():
            try:
                check_archive(path)
            except (OSError, ValueError) as error:
                yield Finding(path, DAMAGED, str(error))
    # Every file that is being written has such a name, and in these folders no other file has.
    for folder, pattern in (
        (run.root, f"{PARTIAL}*"),
        (run.cells_path, ".*"),
        (run.cache_path, ".*"),
    ):
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and path.name != MARK:
                yield Finding(path, "left over", "of a process that was killed, or still writes")


def _wrong_with_events(path: Path) -> str:
    if not os.path.lexists(path):
        return ""
    try:
        lines = read_regular(path, MOST_BYTES).split(b"\n")
    except (OSError, ValueError) as error:
        return str(error)
    # Two processes may have ended one torn line, which leaves an empty one.
    bad = sum(not _is_event(line) for line in lines[:-1] if line) + bool(lines[-1])
    return f"{bad} of its lines are no events" if bad else ""


def _is_event(line: bytes) -> bool:
    try:
        return "event" in json.loads(line)
    except (ValueError, RecursionError, TypeError):
        return False


def _moved_aside(run: RunDirectory, one: Finding) -> Path:
    """Move a file to the folder of damaged ones; of a record in a shard, write its bytes there."""
    folder = run.root / "damaged"
    folder.mkdir(exist_ok=True)
    aside, number = folder / one.path.name, 1
    while os.path.lexists(aside):
        number += 1
        aside = folder / f"{one.path.name}.{number}"
    if one.cell is not None and one.path != run.cells.path(one.cell):
        write_atomically(aside, run.cells.salvaged(one.cell))
    else:
        one.path.rename(aside)
    return aside
