"""The record of a cell: what was measured, or why nothing could be, as a line and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from maxk_lab.fields import Recorded
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.run.record_schema import check_cell, check_envelope, content_of
from maxk_lab.sweeps.run.store import MOST_BYTES, Head, Status, body_of, line_of


@dataclass(frozen=True)
class Record:
    """The outcome of a cell: its metrics if done, the traceback if failed, and its provenance.

    `content` are the metrics as their kind of study reads them, once they were read.
    """

    cell: dict[str, Any]
    status: Status
    metrics: dict[str, Any] | None = None
    error: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    content: Recorded | None = field(default=None, repr=False, compare=False)

    def to_line(self, attempt: int = 1) -> bytes:
        """Return the record as a line of a segment, sound when it is read.

        Raises `ValueError` or `TypeError` for what no record can hold.
        """
        body = {
            "cell": self.cell,
            "metrics": self.metrics,
            # Half of a letter is spelled `\ud800`: no terminal and no file could hold it.
            "error": self.error and self.error.encode(errors="backslashreplace").decode(),
            "provenance": self.provenance,
            "timings": self.timings,
        }
        head = {
            "id": self.cell["id"],
            "attempt": attempt,
            "status": self.status,
            "seconds": self.timings.get("seconds", 0.0),
        }
        line = line_of(head, body)
        if len(line) > MOST_BYTES:
            raise ValueError(f"the record has {len(line):,} bytes, at most {MOST_BYTES:,} are kept")
        Record.from_line(line)
        return line

    @classmethod
    def from_line(cls, line: bytes, planned: Cell | None = None) -> Self:
        """Return the record in a line, of a cell that may be `planned`.

        Raises `ValueError` that says what is damaged.
        """
        head, body = Head.of_line(line), body_of(line)
        check_envelope(body, head.status)
        cell = _cell(body["cell"], head.id, planned)
        content = content_of(cell, body["metrics"])
        return cls(**body | {"cell": cell}, status=head.status, content=content)


def _cell(told: dict[str, Any], cell_id: str, planned: Cell | None) -> dict[str, Any]:
    """Return the cell of a record: as planned, for an earlier spec may have varied other things."""
    if told["id"] != cell_id:
        raise ValueError("it is not the record of this cell")
    if planned is not None:
        return planned.as_dict()
    check_cell(told)
    return told
