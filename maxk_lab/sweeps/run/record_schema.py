"""The schema of records, for writer and reader: what every record holds, and what its kind does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maxk_lab.errors import LabError, shortened
from maxk_lab.fields import Recorded, Size
from maxk_lab.findings import findings
from maxk_lab.sweeps.studies import STUDIES

# So many sentences, of so many letters each, say what is wrong with a record.
_SENTENCES, _LETTERS = 3, 160
Model = TypeVar("Model", bound=BaseModel)
_Text = Annotated[str, Field(pattern=r"\S")]


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


def check_envelope(body: Mapping[str, Any], status: str) -> None:
    """Check what every record of this status holds. Raises `ValueError` that says what is wrong."""
    _validated(_Body, body)
    if (body["error"] is not None) != (status == "failed"):
        raise ValueError(f"status {status} does not go with its error")
    if (body["metrics"] is not None) != (status == "done"):
        raise ValueError(f"status {status} does not go with its metrics")


def check_cell(cell: Mapping[str, Any]) -> None:
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
