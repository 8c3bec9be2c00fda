"""The record of a cell: what was measured, or why nothing could be, as bytes and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from maxk_lab.fields import Recorded
from maxk_lab.sweeps.plan.cells import OUTSIDE_MEANING, Cell
from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION, content_hash
from maxk_lab.sweeps.run.record_bytes import MEASURED_OF, decoded, encoded, outlined
from maxk_lab.sweeps.run.record_schema import (
    check_cell,
    check_envelope,
    check_metrics_there,
    check_outline,
    content_of,
)

Status = Literal["done", "failed"]
_OF_ANOTHER = "its metrics are those of another cell"


class StaleRecordError(Exception):
    """A sound record of an older version of maxk-lab, which is not used."""


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

    def to_bytes(self) -> bytes:
        """Return the record as JSON with its checksum, its metrics with the id of their cell.

        Raises `ValueError` or `TypeError` for what JSON cannot hold.
        """
        metrics = self.metrics
        if metrics is not None:
            if MEASURED_OF in metrics:
                raise ValueError(f"metrics may not have a key {MEASURED_OF!r}: it names their cell")
            metrics = {MEASURED_OF: self.cell["id"], **metrics}
        return encoded(
            {
                "cell": self.cell,
                "status": self.status,
                "metrics": metrics,
                # Half of a letter is spelled `\ud800`: no terminal and no file could hold it.
                "error": self.error and self.error.encode(errors="backslashreplace").decode(),
                "provenance": self.provenance,
                "timings": self.timings,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, cell_id: str, planned: Cell | None = None) -> Self:
        """Return the record of the cell with this id, which may be `planned`.

        Raises `ValueError` that says what is damaged, and `StaleRecordError` for a sound one of an
        older version.
        """
        content = decoded(data)
        check_envelope(content)
        cell = _checked_cell(content["cell"], cell_id, planned)
        metrics = content["metrics"]
        if metrics is not None:
            named = metrics.pop(MEASURED_OF, None)
            if named is None:
                raise StaleRecordError
            if named != cell_id:
                raise ValueError(_OF_ANOTHER)
        return cls(**content | {"cell": cell}, content=content_of(cell, metrics))

    @classmethod
    def outline(cls, data: bytes, cell_id: str, planned: Cell | None = None) -> Self:
        """Return the same without metrics and provenance, in half of the time. Raises alike.

        Of the metrics only the checksum is looked at, and whose they are.
        """
        content, metrics = outlined(data)
        check_outline(content)
        check_metrics_there(content["status"], there=metrics != b"null")
        cell = _checked_cell(content["cell"], cell_id, planned)
        if metrics != b"null" and f'"{MEASURED_OF}":"{cell_id}"'.encode() not in metrics:
            if f'"{MEASURED_OF}":"'.encode() in metrics:
                raise ValueError(_OF_ANOTHER)
            raise StaleRecordError
        return cls(**content | {"cell": cell})

    @classmethod
    def checked_outline(cls, data: bytes, cell_id: str, planned: Cell | None = None) -> Self:
        """Return the same, once all of the record was looked at. Raises alike."""
        record = cls.from_bytes(data, cell_id, planned)
        return replace(record, metrics=None, provenance={}, content=None)


def _checked_cell(told: dict[str, Any], cell_id: str, planned: Cell | None) -> dict[str, Any]:
    """Return the cell of a record, as planned where it is. Raises as `Record.from_bytes`."""
    as_planned = None if planned is None else planned.as_dict()
    if told != as_planned:
        meaning = {key: value for key, value in told.items() if key not in OUTSIDE_MEANING}
        if not told["id"] == cell_id == _hash(meaning):
            raise ValueError("it is not the record of this cell")
    if told["identity_version"] != IDENTITY_VERSION:
        raise StaleRecordError
    # An earlier spec may have varied something else: the setting is that of the plan.
    if as_planned is not None:
        return as_planned
    check_cell(told)
    return told


def _hash(meaning: Mapping[str, Any]) -> str:
    try:
        return content_hash(meaning)
    except RecursionError:
        raise ValueError("its cell is nested too deeply") from None
