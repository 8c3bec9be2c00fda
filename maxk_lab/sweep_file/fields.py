"""Fields and blocks that the models of a sweep file share: names, seeds, values, grid and study."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from maxk_lab.errors import shown
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.fields import GroupSize, Model, NotNegative, OneOrMore, WholeNumber, distinct, one_of
from maxk_lab.removed import removed_row
from maxk_lab.statistics.measures import claimable


def matching(pattern: str, words: str) -> AfterValidator:
    """Return the check of a text that is to match a whole pattern, which `words` say."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"{words}, got {shown(text)}")
        return text

    return AfterValidator(check)


def _claimable_by(kind: str) -> AfterValidator:
    def check(measure: str) -> str:
        if measure not in (known := claimable(kind)):
            if (advice := removed_row("measure", measure)) is not None:
                raise ValueError(advice)
            raise ValueError(one_of(measure, known))
        return measure

    return AfterValidator(check)


def _single(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        given = "nothing" if value is None else shown(value)
        raise ValueError(f"must be a number, a text, true or false, got {given}")
    return value


# Measures that claims may speak of, by kind of claim.
GradientMeasure = Annotated[str, _claimable_by("ratio")]
EqualMeasure = Annotated[str, _claimable_by("equals")]
OrderedMeasure = Annotated[str, _claimable_by("order")]
EstimatorName = Annotated[str, AfterValidator(lambda spelt: choose_estimator(spelt).name)]
BaselineName = Annotated[str, AfterValidator(lambda spelt: choose_baseline(spelt).name)]
Distinct = Annotated[OneOrMore[WholeNumber], AfterValidator(distinct)]
Distances = Annotated[OneOrMore[NotNegative], AfterValidator(distinct)]
# A value that a YAML file can give a parameter: true and false are no numbers.
Value = Annotated[
    bool | int | float | str, Field(union_mode="left_to_right"), BeforeValidator(_single)
]
DistinctAscending = Annotated[Distinct, AfterValidator(lambda values: tuple(sorted(values)))]


class Grid(Model):
    """The methods that are compared; every combination is a point of the grid."""

    estimator: OneOrMore[EstimatorName]
    baseline: OneOrMore[BaselineName]
    n: OneOrMore[GroupSize]
    k: OneOrMore[GroupSize]


class AnyStudy(Model):
    """The block of a study; every kind adds its settings and `grid`, its entries one or several.

    `misplaced` has what to say of keys that belong to another kind.
    """

    misplaced: ClassVar[Mapping[str, str]] = {}

    def unit_settings(self) -> dict[str, Any]:
        """Return the settings that a unit holds: everything but the grid."""
        return self.model_dump(exclude={"grid"})

    def lacks(self, measure: str, points: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
        """Return why the study has no such measure, or not at one of these points, or None.

        `points` holds the grid points, or pairs or rows of them, that a claim compares.
        """
        return None

    def advice(self) -> tuple[str, ...]:
        """Return sentences for `plan`: a design of the same cost that tells more."""
        return ()

    def lacks_decoding(self, decoding: str) -> str | None:
        """Return why policies cannot be compared with this `decoding` of a claim, or None."""
        return None


def describe_point(point: Mapping[str, Any]) -> str:
    """Return a grid point as text, e.g. `estimator=maxk baseline=none n=8 k=1`."""
    return " ".join(f"{axis}={value}" for axis, value in point.items())
