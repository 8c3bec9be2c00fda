"""Fields that the models of a sweep file share: names of the catalogue, seeds, values, a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.fields import AtLeastOne, Model, NotNegative, OneOrMore, WholeNumber, distinct


def _canonical(choose: Callable[[str], Any]) -> Callable[[str], str]:
    def canonical(spelling: str) -> str:
        try:
            return str(choose(spelling).name)
        except LabError as error:
            raise ValueError(str(error)) from None

    return canonical


def _ascending(values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(values))


def _single(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        given = "nothing" if value is None else repr(value)
        raise ValueError(f"must be a number, a text, true or false, got {given}")
    return value


EstimatorName = Annotated[str, AfterValidator(_canonical(choose_estimator))]
BaselineName = Annotated[str, AfterValidator(_canonical(choose_baseline))]
Distinct = Annotated[OneOrMore[WholeNumber], AfterValidator(distinct)]
Distances = Annotated[OneOrMore[NotNegative], AfterValidator(distinct)]
# What a YAML file can give a parameter: true and false are no numbers.
Value = Annotated[
    bool | int | float | str, Field(union_mode="left_to_right"), BeforeValidator(_single)
]
DistinctAscending = Annotated[Distinct, AfterValidator(_ascending)]


class Grid(Model):
    """What is compared; every combination is a point of the grid."""

    estimator: OneOrMore[EstimatorName]
    baseline: OneOrMore[BaselineName]
    n: OneOrMore[AtLeastOne]
    k: OneOrMore[AtLeastOne]
