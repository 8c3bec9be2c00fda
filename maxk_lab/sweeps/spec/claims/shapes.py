"""Claims: the falsifiable statements of a sweep file, checked before anything is measured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from maxk_lab.errors import shown
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.fields import Model, Positive
from maxk_lab.statistics.measures import MEASURES, Question
from maxk_lab.sweeps.spec.claims.arithmetic import check_arithmetic
from maxk_lab.sweeps.spec.claims.regions import AXES, Point, Where, aligned
from maxk_lab.sweeps.spec.fields import EqualMeasure, GradientMeasure, OrderedMeasure
from maxk_lab.sweeps.studies import STUDIES


def _check_name(name: str) -> str:
    if not name.strip() or len(name.splitlines()) > 1:
        raise ValueError(f"must be one line of text, got {shown(name)}")
    return name


class _Claim(Model):
    name: Annotated[str, AfterValidator(_check_name)]
    where: Where = Where()

    if TYPE_CHECKING:  # each kind of claim declares its own, at its place among its keys
        kind: str

    @property
    def study(self) -> str:
        """The kind of study whose rows the claim speaks of: that of its measure, or of its kind."""
        metric: str = getattr(self, "metric", "")
        if metric in MEASURES:
            return MEASURES.get(metric).study
        return next(row.name for row in STUDIES if self.kind in row.claims)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of that study's points; what the sweep varies comes on top."""
        return STUDIES.get(self.study).axes

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """Yield the grid points, or pairs or rows of them, that the claim speaks of."""
        return ((point,) for point in points if self.where.contains(point))


class UnbiasedClaim(_Claim):
    """No bias is seen, although a relative bias of `detectable` would have been."""

    kind: Literal["unbiased"]
    detectable: Positive


class BiasedClaim(_Claim):
    """A bias is there: of the direction too, or (`scale`) of the length alone."""

    kind: Literal["biased"]
    bias: Literal["direction", "scale"]


class EqualsClaim(_Claim):
    """A measure equals a value within a tolerance, absolute or relative to the value."""

    kind: Literal["equals"]
    metric: EqualMeasure
    value: Annotated[float | str, BeforeValidator(check_arithmetic)]
    tolerance: Positive | None = None
    relative_tolerance: Positive | None = None

    def slack(self, value: float) -> float:
        """Return how far the measure may be from `value`, that of the claim at a point."""
        if self.tolerance is not None:
            return self.tolerance
        assert self.relative_tolerance is not None
        return self.relative_tolerance * abs(value)

    @model_validator(mode="after")
    def _tolerance(self) -> Self:
        if (self.tolerance is None) == (self.relative_tolerance is None):
            raise ValueError("needs exactly one of tolerance and relative_tolerance")
        return self


class OrderClaim(_Claim):
    """A measure strictly increases along a list of regions, all else equal."""

    kind: Literal["order"]
    metric: OrderedMeasure
    along: Annotated[tuple[Where, ...], Field(min_length=2, strict=False)]

    @model_validator(mode="after")
    def _same_axes(self) -> Self:
        given = [region.given() for region in self.along]
        if not given[0] or any(set(values) != set(given[0]) for values in given):
            raise ValueError(
                "the regions of along must give the same axes, "
                "e.g. [{baseline: subloo}, {baseline: none}]"
            )
        if any(len(values) > 1 for region in given for values in region.values()):
            raise ValueError("the regions of along must give one value per axis")
        return self

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """Yield rows of points, one of each region of `along`, that differ only in its axes."""
        return aligned(points, self.along, self.where, self.axes)


class _PairClaim(_Claim):
    """A measure at `of` compared with that at `over`, all axes equal that `over` does not give."""

    of: Where
    over: Where

    if TYPE_CHECKING:  # each kind of pair declares its own
        at_least: float | None
        at_most: float | None

    @model_validator(mode="after")
    def _two_sides(self) -> Self:
        if not self.of.given() or not set(self.of.given()) <= set(self.over.given()):
            raise ValueError(
                "over must give every axis that of gives, "
                "e.g. of: {baseline: subloo}, over: {baseline: none}"
            )
        if any(len(values) > 1 for values in self.over.given().values()):
            raise ValueError("over must give one value per axis")
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("needs exactly one of at_least and at_most")
        return self

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """Yield pairs (of, over) that differ only in the axes that `over` gives."""
        return aligned(points, (self.of, self.over), self.where, self.axes)


class RatioClaim(_PairClaim):
    """A measure at `of` is at least, or at most, so many times that at `over`, all else equal.

    `about` says of which instances; by default those that the interval of the measure is about.
    """

    kind: Literal["ratio"]
    metric: GradientMeasure
    about: Question | None = None
    at_least: Positive | None = None
    at_most: Positive | None = None


def _check_final(metric: str) -> str:
    if re.fullmatch(r"max@[1-9][0-9]{0,8}|[a-z_]+", metric) is None:
        raise ValueError(
            "must be mean, max@K such as max@8, or the name of a way of decoding, "
            f"got {shown(metric)}"
        )
    return metric


class DifferenceClaim(_PairClaim):
    """The Max@K (or mean) of the policy of `of` less that of `over` is at least, or most, a number.

    Or it is their best reward in one way of decoding, the same for both, or each in its `own_way`.
    Policies are compared in pairs: of the same seed, on the same held-out instances. With the
    decoding `best` each is sampled at its own best temperature, else at temperature 1. Where the
    estimator of `over` takes no K, the K of `of` may be any.
    """

    kind: Literal["difference"]
    metric: Annotated[str, AfterValidator(_check_final)]
    decoding: Literal["sampled", "best"] = "sampled"
    at_least: Annotated[float, Field(allow_inf_nan=False)] | None = None
    at_most: Annotated[float, Field(allow_inf_nan=False)] | None = None

    @property
    def at_k(self) -> int:
        """The K of the curve that the claim speaks of; 1 for the mean reward, and for a way."""
        return int(self.metric.removeprefix("max@")) if self.metric.startswith("max@") else 1

    @property
    def way(self) -> str | None:
        """The way of decoding that the claim speaks of, but for plain sampling."""
        return None if self.metric == "mean" or self.metric.startswith("max@") else self.metric

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """Yield pairs (of, over) that differ only in axes that `over` or its estimator gives."""
        fixed = {choose_estimator(name).row.fixed_k for name in self.over.estimator or ()}
        over = self.over
        if over.k is None and len(fixed) == 1 and None not in fixed:
            over = over.model_copy(update={"k": tuple(fixed)})
        return aligned(points, (self.of, over), self.where, self.axes)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.way is not None and self.decoding == "best":
            raise ValueError(f"decoding: best is of mean and max@K only, got metric {self.way}")
        return self

    @model_validator(mode="after")
    def _known_axes(self) -> Self:
        for region in (self.of, self.over, self.where):
            for axis in AXES:
                if axis not in self.axes and getattr(region, axis) is not None:
                    known = f"{', '.join(self.axes[:-1])} or {self.axes[-1]}"
                    raise ValueError(f"a {self.study} study has no {axis}: give {known}")
        return self


Claim = Annotated[
    UnbiasedClaim | BiasedClaim | EqualsClaim | RatioClaim | OrderClaim | DifferenceClaim,
    Field(discriminator="kind"),
]
CLAIM_KINDS: dict[str, type[_Claim]] = {
    get_args(shape.model_fields["kind"].annotation)[0]: shape
    for shape in get_args(get_args(Claim)[0])
}
