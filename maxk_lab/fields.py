"""Fields of pydantic models: strict numbers, one value or several; models of settings and records.

Imports no torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from maxk_lab.catalogue import MOST
from maxk_lab.errors import LONGEST, LabError, shortened
from maxk_lab.findings import findings

Item = TypeVar("Item")
# The largest group of samples that share their weights.
MOST_SAMPLES = 2**16


def as_tuple(value: Any) -> Any:
    """Turn a list into a tuple, which is frozen, and a scalar into a tuple of one."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return (value,)


def distinct(values: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return `values`. Raises `ValueError` where one of them is there twice."""
    repeated = [value for value, count in Counter(values).items() if count > 1]
    if repeated:
        listed = ", ".join(map(str, sorted(repeated)))  # type: ignore[type-var]
        raise ValueError(f"must be distinct, got {shortened(listed, LONGEST)} more than once")
    return values


Seed = Annotated[int, Field(ge=0, lt=2**63)]
WholeNumber = Annotated[int, Field(ge=0, le=MOST)]
AtLeastOne = Annotated[int, Field(ge=1, le=MOST)]
AtLeastTwo = Annotated[int, Field(ge=2, le=MOST)]
# An n or a K: estimators work with as many numbers as there are samples in a group.
GroupSize = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]
Finite = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)]
# What was measured, whose fourth powers a report adds up: those of more are no numbers any more.
_MOST_MEASURED = 1e75
Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[float, Field(ge=-_MOST_MEASURED, le=_MOST_MEASURED, allow_inf_nan=False)]
Size = Annotated[float, Field(ge=0, le=_MOST_MEASURED, allow_inf_nan=False)]
# Undefined is None in JSON.
Numbers = list[Number | None]
Sizes = list[Size | None]
OneOrMore = Annotated[tuple[Item, ...], BeforeValidator(as_tuple), Field(min_length=1)]
Different = Annotated[tuple[Item, ...], BeforeValidator(as_tuple), AfterValidator(distinct)]


def check_lengths(length: int, parts: Mapping[str, Sequence[Any]]) -> None:
    """Raise `ValueError` for the first of the parts of a record that is not of this length."""
    for name, part in parts.items():
        if len(part) != length:
            raise ValueError(f"{name} has {len(part)} entries where there must be {length}")


class Model(BaseModel):
    """A block of settings: frozen, every key known, every number strict."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Return the block that `mapping` describes, defaults filled in.

        Raises one `LabError` with everything that is wrong.
        """
        try:
            return cls.model_validate(dict(mapping))
        except ValidationError as error:
            raise LabError("; ".join(findings(error, cls))) from None


class Recorded(BaseModel):
    """A part of a finished record, for reading: keys that nothing reads are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)
    # The formulas of its numbers, for a reader of one cell: each with its function and its source.
    formulas: ClassVar[Mapping[str, Mapping[str, str]]] = {}

    @property
    def shown(self) -> Mapping[str, Any]:
        """The numbers among its lists that a reader of one cell sees, by the key of the list."""
        return {}

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` where this cannot have been measured of the cell."""

    @classmethod
    def of(cls, record: Any) -> Self:
        """Return the content of a finished record. Raises `LabError` that says what is missing."""
        known = getattr(record, "content", None)
        if isinstance(known, cls):
            return known
        try:
            return cls.model_validate(record.metrics)
        except ValidationError as error:
            found = list(findings(error, cls))
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            raise LabError(
                f"the record of cell {record.cell['id']} "
                f"does not hold what a {record.cell['study']} "
                f"study measures: {'; '.join(found[:3])}{more}; run it again with --force"
            ) from None
