"""The payload of a kind of study: the estimates of a report on the records of one W&B run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxk_lab.report.tables import PooledRow, axes, numbers, pooled_of
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.sweeps.studies import STUDIES
from maxk_lab.tracking.table import Metrics, PayloadTable, told

if TYPE_CHECKING:
    from maxk_lab.report.parts import PoolPart
    from maxk_lab.sweeps.run.records import Record


@dataclass(frozen=True)
class Estimates:
    """The numbers of a `study` as a report has them, cell by cell."""

    study: str

    def summary(self, records: Sequence[Record]) -> Metrics:
        """`weights/maxk/centred/n16/k8/zero_share` and the like; a failed cell has its status."""
        rows = self._rows(records)
        part = self._part()
        found: Metrics = {}
        for record in records:
            values = self._values(rows.get(record.cell["id"]))
            found |= told(part.key(record.cell).path, record, values)
        return found

    def tables(self, records: Sequence[Record]) -> dict[str, PayloadTable]:
        """A line for each cell, and those of the details of its row."""
        import pandas as pd

        rows, part = self._rows(records), self._part()
        lines: dict[str, list[dict[str, Any]]] = {"cells": []}
        for record in records:
            row = rows.get(record.cell["id"])
            place = axes(self.study, part.key(record.cell))
            del place["study"]
            place |= {"cell": record.cell["id"], "seed": record.cell["seed"]}
            own = {} if row is None else dict(row.attributes)
            lines["cells"].append(place | {"status": record.status} | own | self._values(row))
            for name, several in ({} if row is None else row.details).items():
                lines.setdefault(name, []).extend(place | dict(one) for one in several)
        found = {}
        for name, several in lines.items():
            frame = pd.DataFrame(several, dtype=object)
            lists = [key for key in several[0] if isinstance(several[0][key], list | tuple)]
            frame = frame.explode(lists) if lists else frame
            frame = frame.where(frame.notna(), None)
            found[name] = PayloadTable(list(frame.columns), frame.values.tolist())
        return found

    def _part(self) -> PoolPart:
        part: PoolPart = STUDIES.get(self.study).part("pool")
        return part

    def _rows(self, records: Sequence[Record]) -> dict[str, PooledRow]:
        """The row of each finished cell, of its seed alone."""
        found: dict[str, PooledRow] = {}
        for seed in dict.fromkeys(record.cell["seed"] for record in records):
            done = {
                record.cell["id"]: record
                for record in records
                if record.status == "done" and record.cell["seed"] == seed
            }
            cells = [record.cell for record in done.values()]
            pooled = pooled_of(self.study, cells, done, level=0.95, alpha=0.05)
            found |= {one: row for row in pooled.rows for one in row.cells.values()}
        return found

    def _values(self, row: PooledRow | None) -> dict[str, float]:
        found = {} if row is None else numbers(self.study, row)
        return {
            name: one.interval.value
            for name, one in found.items()
            if one.interval.known and (name not in MEASURES.names() or MEASURES.get(name).tracked)
        }
