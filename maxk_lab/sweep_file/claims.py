"""Claims: the falsifiable statements of a sweep file, checked before anything is measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from maxk_lab.errors import shown
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.fields import (
    AtLeastOne,
    Model,
    OneOrMore,
    Positive,
    WholeNumber,
    start_of,
    unknown_key,
)
from maxk_lab.statistics.measures import FIXED, MEASURES, NEW, Question
from maxk_lab.sweep_file.arithmetic import check_arithmetic, evaluate_value
from maxk_lab.sweep_file.fields import (
    AnyStudy,
    BaselineName,
    EqualMeasure,
    EstimatorName,
    GradientMeasure,
    OrderedMeasure,
    Value,
    matching,
)
from maxk_lab.sweep_file.source import Source, TreePath
from maxk_lab.sweep_file.studies import GRID_AXES, STUDIES

# Axes that a claim may speak of, of those that a kind of study has; seeds are pooled before.
AXES = (*GRID_AXES, "stage")
Point = Mapping[str, Any]


def settings_of(point: Point) -> dict[str, Any]:
    """Return the varied settings of a grid point, under its key `setting`, a mapping or pairs."""
    return dict(point.get("setting") or ())


def _with_start(setting: dict[str, Any]) -> dict[str, Any]:
    """Return the setting with the one spelling of its start."""
    return {
        key: tuple(map(start_of, values)) if key == "start" else values
        for key, values in setting.items()
    }


class Where(Model):
    """A region of the grid: each axis that is given has the value, or one of the values, given.

    `setting` gives values of what the sweep varies, by its key: `{environment.arms: [4, 8]}`.
    """

    estimator: OneOrMore[EstimatorName] | None = None
    baseline: OneOrMore[BaselineName] | None = None
    n: OneOrMore[AtLeastOne] | None = None
    k: OneOrMore[AtLeastOne] | None = None
    stage: OneOrMore[WholeNumber] | None = None
    setting: Annotated[dict[str, OneOrMore[Value]], AfterValidator(_with_start)] | None = None

    def given(self) -> dict[str, tuple[Any, ...]]:
        """Return the axes and the settings that are given, with their values."""
        axes = {axis: values for axis in AXES if (values := getattr(self, axis)) is not None}
        return axes | (self.setting or {})

    def contains(self, point: Point) -> bool:
        """Return whether a grid point (a mapping with every axis) lies in the region."""
        return _within(self.given(), point)


def _within(given: Mapping[str, Sequence[Any]], point: Point) -> bool:
    known = {**point, **settings_of(point)}
    return all(axis in known and known[axis] in values for axis, values in given.items())


def aligned(
    points: Sequence[Point], regions: Sequence[Where], where: Where, axes: Sequence[str]
) -> Iterator[tuple[Point, ...]]:
    """Yield, for each point of the first region, a row of points with one of each region.

    They are equal in the axes and settings that no region gives. All but the first region give one
    value of each of their axes, and each gives all that the first does. Rows that would lack a
    point, or have one twice, are left out; `where` holds for the first, in the axes that it does
    not give.
    """
    swapped = {axis for region in regions for axis in region.given()}
    settings = dict.fromkeys(key for point in points for key in settings_of(point))
    shared = [axis for axis in (*axes, *settings) if axis not in swapped]
    first = where.given() | regions[0].given()

    def place(point: Point) -> tuple[Any, ...]:
        known = {**point, **settings_of(point)}
        return tuple(known.get(axis) for axis in shared)

    others = [
        {place(point): point for point in points if region.contains(point)}
        for region in regions[1:]
    ]
    for point in points:
        if not _within(first, point):
            continue
        row = [point, *(side[place(point)] for side in others if place(point) in side)]
        if len(row) == len(regions) and len({id(member) for member in row}) == len(row):
            yield tuple(row)


def _of_one_line(name: str) -> str:
    if not name.strip() or name.splitlines() != [name]:
        raise ValueError(f"must be one line of text, got {shown(name)}")
    return name


class _Claim(Model):
    # Of these keys exactly one is given.
    either: ClassVar[tuple[str, ...]] = ()
    name: Annotated[str, AfterValidator(_of_one_line)]
    where: Where = Where()

    if TYPE_CHECKING:  # each kind of claim declares its own, at its place among its keys
        kind: str

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if self.either and sum(getattr(self, key) is not None for key in self.either) != 1:
            raise ValueError(f"needs exactly one of {' and '.join(self.either)}")
        return self

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

    either: ClassVar[tuple[str, ...]] = ("tolerance", "relative_tolerance")
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


class OrderClaim(_Claim):
    """A measure strictly increases along a list of regions, all else equal."""

    kind: Literal["order"]
    metric: OrderedMeasure
    along: Annotated[tuple[Where, ...], Field(min_length=2, strict=False)]

    @model_validator(mode="after")
    def _same_axes(self) -> Self:
        regions = [region.given() for region in self.along]
        if not regions[0] or any(set(values) != set(regions[0]) for values in regions):
            raise ValueError(
                "the regions of along must give the same axes, "
                "e.g. [{baseline: subloo}, {baseline: none}]"
            )
        if any(len(values) > 1 for region in regions for values in region.values()):
            raise ValueError("the regions of along must give one value per axis")
        return self

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """Yield rows of points, one of each region of `along`, that differ only in its axes."""
        return aligned(points, self.along, self.where, self.axes)


class _PairClaim(_Claim):
    """A measure at `of` compared with that at `over`, all axes equal that `over` does not give."""

    either: ClassVar[tuple[str, ...]] = ("at_least", "at_most")
    of: Where
    over: Where

    @field_validator("over")
    @classmethod
    def _two_sides(cls, over: Where, info: ValidationInfo) -> Where:
        of = info.data.get("of")
        if of is not None and (not of.given() or not set(of.given()) <= set(over.given())):
            raise ValueError(
                "must give every axis that of gives, "
                "e.g. of: {baseline: subloo}, over: {baseline: none}"
            )
        if any(len(values) > 1 for values in over.given().values()):
            raise ValueError("must give one value per axis")
        return over

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """Yield pairs (of, over) that differ only in the axes that `over` gives."""
        return aligned(points, (self.of, self.over), self.where, self.axes)


# Earlier words for `about`, which bundles contain.
_EARLIER = {"these instances": FIXED, "instances like these": NEW}


def _present_words(about: Any) -> Any:
    return _EARLIER.get(about, about) if isinstance(about, str) else about


class RatioClaim(_PairClaim):
    """A measure at `of` is at least, or at most, so many times that at `over`, all else equal.

    `about` says of which instances; by default those that the interval of the measure is about.
    """

    kind: Literal["ratio"]
    metric: GradientMeasure
    about: Annotated[Question | None, BeforeValidator(_present_words)] = None
    at_least: Positive | None = None
    at_most: Positive | None = None


_FINAL = matching(
    "max@[1-9][0-9]{0,8}|[a-z_]+",
    "must be mean, max@K such as max@8, or the name of a way of decoding",
)


class DifferenceClaim(_PairClaim):
    """The Max@K (or mean) of the policy of `of` less that of `over` is at least, or most, a number.

    Or it is their best reward in one way of decoding, the same for both.
    Policies are compared in pairs: of the same seed, on the same held-out instances. With the
    decoding `best` each is sampled at its own best temperature, with `forced` from forced starts at
    temperature 1, else at temperature 1. Where the
    estimator of `over` takes no K, the K of `of` may be any.
    """

    kind: Literal["difference"]
    metric: Annotated[str, _FINAL]
    decoding: Literal["sampled", "best", "forced"] = "sampled"
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
    def _sensible(self) -> Self:
        if self.way is not None and self.decoding != "sampled":
            words = f"decoding: {self.decoding} is of mean and max@K only, got metric {self.way}"
            raise ValueError(words)
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


def check_claims(
    claims: Iterable[Any],
    points: Mapping[str, Sequence[Point]],
    studies: Mapping[str, AnyStudy],
    source: Source,
) -> None:
    """Note claims of equal names, of points that are not there, and of undefined values.

    `points` holds the points that each of `studies` measures, with their stage and setting.
    """
    names: set[str] = set()
    for number, claim in enumerate(claims):
        path = ("claims", str(number))
        if claim.name in names:
            source.add((*path, "name"), f"two claims are named {shown(claim.name)}")
        names.add(claim.name)
        if claim.study not in points:
            # The kind of a claim tells of which study it speaks, or else its metric does.
            part = "kind" if claim.kind in STUDIES.get(claim.study).claims else "metric"
            article = "an" if claim.study[0] in "aeiou" else "a"
            speaks = f"{getattr(claim, part)} speaks of {article} {claim.study} study"
            source.add((*path, part), f"{speaks}, and this sweep has none")
        elif not _note_unknown_settings(claim, points[claim.study], path, source):
            _check_met(claim, points[claim.study], studies[claim.study], path, source)


def _note_unknown_settings(
    claim: Any, points: Sequence[Point], path: TreePath, source: Source
) -> bool:
    """Note settings that the sweep does not vary; return whether there were any."""
    varied = dict.fromkeys(key for point in points for key in settings_of(point))
    regions = {(side,): getattr(claim, side, None) for side in ("where", "of", "over")}
    along = enumerate(getattr(claim, "along", ()))
    before = len(source.problems)
    for part, region in (regions | {("along", str(at)): one for at, one in along}).items():
        for key in (region and region.setting) or ():
            if key not in varied:
                nothing = f"unknown key {shown(key)}: the sweep varies nothing"
                words = unknown_key(key, varied) if varied else nothing
                source.add((*path, *part, "setting", key), words, key=True)
    return len(source.problems) > before


def _check_met(
    claim: Any, points: Sequence[Point], study: AnyStudy, path: TreePath, source: Source
) -> None:
    """Note a claim that speaks of no point, or of what is not measured or undefined there."""
    met = list(claim.points(points))
    if not met:
        side, what = "where", "no point of the grid that can run"
        if hasattr(claim, "over"):
            side, what = "of", "no two points of the grid that can run"
        elif hasattr(claim, "along"):
            side = "along"
            what = "no points of the grid that can run, one of each region, all else equal"
        written = side in source.tree["claims"][int(path[1])]
        source.add((*path, side) if written else path, f"matches {what}")
    lacking = {
        "metric": study.lacks(claim.metric, met) if hasattr(claim, "metric") else None,
        "decoding": study.lacks_decoding(claim.decoding) if hasattr(claim, "decoding") else None,
    }
    for key, reason in lacking.items():
        if reason is not None:
            source.add((*path, key), reason)
    if isinstance(claim, EqualsClaim):
        with source.noting((*path, "value")):
            for (point,) in met:
                evaluate_value(claim.value, point["n"], point["k"], settings_of(point))
