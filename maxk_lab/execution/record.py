"""The record of a cell, its metrics or its error, as a line of a segment and back.

The kind of study validates the metrics, on writing and on reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic import ValidationError

from maxk_lab.errors import shortened
from maxk_lab.execution.store import Status, body_of, head_of, line_of
from maxk_lab.fields import Recorded, findings
from maxk_lab.sweep_file.studies import STUDIES

# The sentences of a message about invalid metrics, and the characters of each.
_SENTENCES, _CHARACTERS = 3, 160
_BODY = ("cell", "metrics", "error", "provenance", "timings")


@dataclass(frozen=True)
class Record:
    """The outcome of a cell: its metrics if done, the traceback if failed, and its provenance.

    `content` holds the metrics as their kind of study reads them; None before they are read.
    """

    cell: dict[str, Any]
    status: Status
    metrics: dict[str, Any] | None = None
    error: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    content: Recorded | None = field(default=None, repr=False, compare=False)

    def to_line(self, attempt: int = 1) -> bytes:
        """Return the record as a line of a segment.

        Raises `ValueError` or `TypeError` if the line could not be read again.
        """
        body = {name: getattr(self, name) for name in _BODY}
        # No file can hold a lone surrogate.
        body["error"] = self.error and self.error.encode(errors="backslashreplace").decode()
        head = {
            "id": self.cell["id"],
            "attempt": attempt,
            "status": self.status,
            "seconds": self.timings.get("seconds", 0.0),
        }
        line = line_of(head, body)
        Record.from_line(line)
        return line

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Return the record in a line. Raises `ValueError` if it is unreadable."""
        head, body = head_of(line), body_of(line)
        if not isinstance(body, dict) or body.keys() != {*_BODY}:
            raise ValueError("it is not a record of this version of maxk-lab")
        for name, status in (("error", "failed"), ("metrics", "done")):
            if (body[name] is not None) != (head.status == status):
                raise ValueError(f"status {head.status} does not go with its {name}")
        if not isinstance(body["cell"], dict) or body["cell"].get("id") != head.id:
            raise ValueError("it is not the record of this cell")
        content = content_of(body["cell"], body["metrics"])
        return cls(**body, status=head.status, content=content)


def content_of(cell: Mapping[str, Any], metrics: Mapping[str, Any] | None) -> Recorded | None:
    """Return the metrics of a cell as its kind of study reads them; None without metrics.

    Raises `ValueError` for metrics that this cell cannot have.
    """
    if metrics is None:
        return None
    kind = STUDIES.get(cell["study"])
    model: type[Recorded] = kind.model(kind.record)
    try:
        content = model.model_validate(metrics)
    except ValidationError as error:
        problems = [shortened(text, _CHARACTERS) for text in findings(error, model)]
        more = [f"and {len(problems) - _SENTENCES} more"] if len(problems) > _SENTENCES else []
        raise ValueError("; ".join(problems[:_SENTENCES] + more)) from None
    content.check(cell)
    return content
