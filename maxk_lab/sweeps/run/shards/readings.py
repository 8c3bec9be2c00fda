"""Readings of records: each is decoded once as long as it stays the same, and the damaged noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.run.record import Record, StaleRecordError
from maxk_lab.sweeps.run.shards.archive import Stamp
from maxk_lab.sweeps.run.shards.cells import Cells

_Decode = Callable[[bytes, str, Cell | None], Record]


@dataclass(frozen=True)
class Reading:
    """A way to read a record, and those that were read, each with its stamp."""

    decode: _Decode
    known: dict[str, tuple[Stamp, Record]] = field(default_factory=dict)


class Readings:
    """The records of a folder of cells, read in three ways: whole, in outline, or both.

    `damaged` has a line for each record that was found damaged, `older` the ids of those that are
    of an older version of maxk-lab.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self.whole, self.outlined = Reading(Record.from_bytes), Reading(Record.outline)
        self.checked = Reading(Record.checked_outline)
        self.damaged: dict[str, str] = {}
        self.older: set[str] = set()

    def read(self, cell_id: str, reading: Reading, planned: Cell | None = None) -> Record | None:
        """Return the record of a cell; None if absent, damaged or of an older version."""
        self.damaged.pop(cell_id, None)
        self.older.discard(cell_id)
        try:
            # Records are replaced, never edited: the same one need not be read twice.
            stamp = self._cells.stamp(cell_id)
            for known in (self.whole.known, reading.known):
                if cell_id in known and known[cell_id][0] == stamp:
                    return known[cell_id][1]
            record = reading.decode(self._cells.read(cell_id), cell_id, planned)
        except FileNotFoundError:
            return None
        except StaleRecordError:
            self.older.add(cell_id)
            return None
        except (ValueError, OSError) as error:
            place = self._cells.place(cell_id)
            self.damaged[cell_id] = f"{place}: damaged and not used: {error}"
            return None
        reading.known[cell_id] = (stamp, record)
        return record

    def keep(self, ids: Iterable[str]) -> None:
        """Forget what was wrong with the records of all other cells: they are gone."""
        there = set(ids)
        self.damaged = {one: why for one, why in self.damaged.items() if one in there}
        self.older &= there

    def is_sound(self, cell_id: str, stamp: Stamp, data: bytes) -> bool:
        """Whether a record is sound in all its parts, of an older version or not."""
        for known in (self.whole.known, self.checked.known):
            if cell_id in known and known[cell_id][0] == stamp:
                return True
        try:
            record = self.checked.decode(data, cell_id, None)
        except StaleRecordError:
            return True
        except ValueError:
            return False
        self.checked.known[cell_id] = (stamp, record)
        return True

    def moved(self, cell_id: str, before: Stamp, now: Stamp) -> None:
        """Take note that a record has another stamp, and the very same bytes."""
        for reading in (self.whole, self.outlined, self.checked):
            if cell_id in reading.known and reading.known[cell_id][0] == before:
                reading.known[cell_id] = (now, reading.known[cell_id][1])
