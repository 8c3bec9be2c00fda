"""What the sweep file's models share: strict numbers, catalogue names, one or several values, a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator

Item = TypeVar("Item")


def as_tuple(value: Any) -> Any:
    """A scalar stands for a list of one; models hold tuples, which are frozen."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return (value,)


def _canonical(choose: Callable[[str], Any]) -> Callable[[str], str]:
    def canonical(spelling: str) -> str:
        try:
            return str(choose(spelling).name)
        except LabError as error:
            raise ValueError(str(error)) from None

    return canonical


def distinct(values: tuple[Item, ...]) -> tuple[Item, ...]:
    """`values`, none of which may be there twice."""
    repeated = sorted({value for value in values if values.count(value) > 1})  # type: ignore[type-var]
    if repeated:
        raise ValueError(f"must be distinct, got {', '.join(map(str, repeated))} more than once")
    return values


def _ascending(values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(values))


def _single(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise ValueError(
            f"must be a number, a text, true or false, got {'nothing' if value is None else repr(value)}"
        )
    return value


WholeNumber = Annotated[int, Field(ge=0, lt=2**63)]
AtLeastOne = Annotated[int, Field(ge=1, lt=2**63)]
AtLeastTwo = Annotated[int, Field(ge=2, lt=2**63)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
EstimatorName = Annotated[str, AfterValidator(_canonical(choose_estimator))]
BaselineName = Annotated[str, AfterValidator(_canonical(choose_baseline))]
OneOrMore = Annotated[tuple[Item, ...], BeforeValidator(as_tuple), Field(min_length=1)]
Distinct = Annotated[
    tuple[WholeNumber, ...],
    BeforeValidator(as_tuple),
    Field(min_length=1),
    AfterValidator(distinct),
]
Distances = Annotated[
    tuple[NotNegative, ...],
    BeforeValidator(as_tuple),
    Field(min_length=1),
    AfterValidator(distinct),
]
# What a YAML file can give a parameter: true and false are no numbers.
Value = Annotated[
    bool | int | float | str, Field(union_mode="left_to_right"), BeforeValidator(_single)
]
DistinctAscending = Annotated[Distinct, AfterValidator(_ascending)]


class Model(BaseModel):
    """A part of a sweep file: frozen, every key known, every number strict."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Grid(Model):
    """What is compared; every combination is a point of the grid."""

    estimator: OneOrMore[EstimatorName]
    baseline: OneOrMore[BaselineName]
    n: OneOrMore[AtLeastOne]
    k: OneOrMore[AtLeastOne]
