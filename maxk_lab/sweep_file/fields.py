"""Field types and blocks that the studies of a sweep file share: names, values, grid and study."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from maxk_lab.errors import shown
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.fields import GroupSize, Model, NotNegative, OneOrMore, WholeNumber, distinct


def check_text(text: str, pattern: str, message: str) -> str:
    """Return a text. Raises `ValueError` with the message unless the pattern matches all of it."""
    if re.fullmatch(pattern, text) is None:
        raise ValueError(f"{message}, got {shown(text)}")
    return text


def _check_scalar(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        got = "nothing" if value is None else shown(value)
        raise ValueError(f"must be a number, a text, true or false, got {got}")
    return value


EstimatorName = Annotated[str, AfterValidator(lambda name: choose_estimator(name).name)]
BaselineName = Annotated[str, AfterValidator(lambda name: choose_baseline(name).name)]
Distinct = Annotated[OneOrMore[WholeNumber], AfterValidator(distinct)]
Distances = Annotated[OneOrMore[NotNegative], AfterValidator(distinct)]
# A value of a parameter: true and false are not numbers.
Value = Annotated[
    bool | int | float | str, Field(union_mode="left_to_right"), BeforeValidator(_check_scalar)
]
DistinctAscending = Annotated[Distinct, AfterValidator(lambda values: tuple(sorted(values)))]


class Grid(Model):
    """The methods of a study; every combination is a point of the grid."""

    estimator: OneOrMore[EstimatorName]
    baseline: OneOrMore[BaselineName]
    n: OneOrMore[GroupSize]
    k: OneOrMore[GroupSize]


class AnyStudy(Model):
    """The block of a study; every kind adds its settings and `grid`, one or several entries."""

    def unit_settings(self) -> dict[str, Any]:
        """Return the settings of a unit: everything but the grid."""
        return self.model_dump(exclude={"grid"})

    def lacks(self, measure: str, points: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
        """Return why the study lacks a measure, at all or at one of these points, or None.

        `points` holds the grid points of a claim, or pairs or rows of them.
        """
        return None

    def advice(self) -> tuple[str, ...]:
        """Return sentences for `plan`: a design of the same cost with narrower intervals."""
        return ()

    def lacks_decoding(self, decoding: str) -> str | None:
        """Return why policies cannot be compared with this `decoding` of a claim, or None."""
        return None


def describe_point(point: Mapping[str, Any]) -> str:
    """Return a grid point as text, e.g. `estimator=maxk baseline=none n=8 k=1`."""
    return " ".join(f"{axis}={value}" for axis, value in point.items())
