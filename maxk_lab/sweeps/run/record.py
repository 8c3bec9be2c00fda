"""The record of a cell: what was measured, or why nothing could be, as a line and back.

What every record holds is checked here, for writer and reader; what its metrics hold, by its kind
of study.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maxk_lab.errors import LabError, shortened
from maxk_lab.fields import Recorded, Size
from maxk_lab.findings import findings
from maxk_lab.sweeps.plan.cells import Cell
from maxk_lab.sweeps.run.store import MOST_BYTES, Head, Status, body_of, line_of
from maxk_lab.sweeps.studies import STUDIES

# So many sentences, of so many letters each, say what is wrong with a record.
_SENTENCES, _LETTERS = 3, 160
Model = TypeVar("Model", bound=BaseModel)
_Text = Annotated[str, Field(pattern=r"\S")]


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
        _check_body(body, head.status)
        cell = _cell(body["cell"], head.id, planned)
        content = content_of(cell, body["metrics"])
        return cls(**body | {"cell": cell}, status=head.status, content=content)


def _cell(told: dict[str, Any], cell_id: str, planned: Cell | None) -> dict[str, Any]:
    """Return the cell of a record: as planned, for an earlier spec may have varied other things."""
    if told["id"] != cell_id:
        raise ValueError("it is not the record of this cell")
    if planned is not None:
        return planned.as_dict()
    _check_cell(told)
    return told


class _Part(BaseModel):
    """A part of which some keys are read; others may be there, too."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Identity(_Part):
    id: str
    identity_version: int


class _Environment(_Part):
    name: str


class _Cell(_Identity):
    """A cell of this version: what a kind of study is told besides its grid point differs."""

    study: str
    estimator: str
    baseline: str
    n: int
    k: int
    seed: int | None = None
    stage: int | None = None
    environment: _Environment | None = None
    policy: dict[str, Any] | None = None
    setting: dict[str, Any] = Field(default_factory=dict)


class _Git(_Part):
    commit: str | None = None
    dirty: bool = False


class _Provenance(_Part):
    git: _Git | None = None
    project: _Git | None = None
    versions: dict[str, str | None] = Field(default_factory=dict)


class _Timings(_Part):
    """Seconds; kinds of study may have more of their own."""

    __pydantic_extra__: dict[str, Size | list[Size]] = Field(init=False)

    seconds: Size = 0.0
    finished: Size = 0.0


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    cell: _Identity
    metrics: dict[str, Any] | None
    error: _Text | None
    provenance: _Provenance
    timings: _Timings


def _check_body(body: Mapping[str, Any], status: str) -> None:
    """Check what every record of this status holds. Raises `ValueError` that says what is wrong."""
    _validated(_Body, body)
    if (body["error"] is not None) != (status == "failed"):
        raise ValueError(f"status {status} does not go with its error")
    if (body["metrics"] is not None) != (status == "done"):
        raise ValueError(f"status {status} does not go with its metrics")


def _check_cell(cell: Mapping[str, Any]) -> None:
    """Check the cell of a record that no plan is there for."""
    _validated(_Cell, cell)


def content_of(cell: Mapping[str, Any], metrics: Mapping[str, Any] | None) -> Recorded | None:
    """Return what the kind of study reads in the metrics of a cell.

    None where there are no metrics, where the kind is not installed, and where it has no model of
    its records. Raises `ValueError` that says what cannot be the metrics of this cell.
    """
    model = None if metrics is None else _model(cell["study"])
    if model is None:
        return None
    content = _validated(model, metrics)
    try:
        content.check(cell)
    except (LookupError, TypeError):
        raise ValueError(f"its cell is not one of a {cell['study']} study") from None
    return content


def _model(study: str) -> type[Recorded] | None:
    try:
        kind = STUDIES.get(study)
    except LabError:
        return None
    try:
        found = getattr(kind.part("record"), "Metrics", None)
    except ModuleNotFoundError as error:
        if error.name != f"{kind.implementation}.record":
            raise
        return None
    return found if isinstance(found, type) and issubclass(found, Recorded) else None


def _validated(model: type[Model], content: Any) -> Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ValueError(_told(error, model)) from None


def _told(error: ValidationError, model: type[BaseModel]) -> str:
    try:
        found = [shortened(text, _LETTERS) for text in findings(error, model)]
    except ValueError:  # such as a number of more digits than Python spells
        return f"{error.error_count()} of its values cannot be there"
    more = [f"and {len(found) - _SENTENCES} more"] if len(found) > _SENTENCES else []
    return "; ".join([*found[:_SENTENCES], *more])
