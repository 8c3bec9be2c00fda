"""Claims: the falsifiable statements of a sweep file, and the grid points that they speak of."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from maxk_lab.errors import LONGEST, LabError, shown
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.fields import (
    AtLeastOne,
    Finite,
    Model,
    OneOrMore,
    Positive,
    WholeNumber,
    one_of,
    start_of,
    unknown_key,
)
from maxk_lab.removed import removed_row
from maxk_lab.statistics.measures import FIXED, MEASURES, NEW, Question, claimable
from maxk_lab.sweep_file.fields import AnyStudy, BaselineName, EstimatorName, Value, check_text
from maxk_lab.sweep_file.findings import Finding
from maxk_lab.sweep_file.studies import GRID_AXES, STUDIES

# The axes in claims; seeds are pooled before.
AXES = (*GRID_AXES, "stage")
Point = Mapping[str, Any]
# The required and the optional keys of each kind of claim.
KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unbiased": (("detectable",), ()),
    "biased": (("bias",), ()),
    "equals": (("metric", "value"), ("tolerance", "relative_tolerance")),
    "ratio": (("metric", "of", "over"), ("at_least", "at_most", "about")),
    "order": (("metric", "along"), ()),
    "difference": (("metric", "of", "over"), ("at_least", "at_most", "decoding")),
}
# Exactly one of these keys is required.
_EITHER = {
    "equals": ("tolerance", "relative_tolerance"),
    "ratio": ("at_least", "at_most"),
    "difference": ("at_least", "at_most"),
}
_FINAL = (
    "max@[1-9][0-9]{0,8}|[a-z_]+",
    "must be mean, max@K such as max@8, or the name of a way of decoding",
)
# Old words for `about`, which bundles contain.
_EARLIER = {"these instances": FIXED, "instances like these": NEW}


def settings_of(point: Point) -> dict[str, Any]:
    """Return the varied settings of a grid point: its `setting`, a mapping or pairs."""
    return dict(point.get("setting") or ())


def _spell_start(setting: dict[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(map(start_of, values)) if key == "start" else values
        for key, values in setting.items()
    }


class Where(Model):
    """A region of the grid: each axis has the value, or one of the values.

    `setting` has values of varied settings by key: `{environment.arms: [4, 8]}`.
    """

    estimator: OneOrMore[EstimatorName] | None = None
    baseline: OneOrMore[BaselineName] | None = None
    n: OneOrMore[AtLeastOne] | None = None
    k: OneOrMore[AtLeastOne] | None = None
    stage: OneOrMore[WholeNumber] | None = None
    setting: Annotated[dict[str, OneOrMore[Value]], AfterValidator(_spell_start)] | None = None

    def values(self) -> dict[str, tuple[Any, ...]]:
        """Return the values of each axis and setting of the region."""
        axes = {axis: values for axis in AXES if (values := getattr(self, axis)) is not None}
        return axes | (self.setting or {})

    def contains(self, point: Point) -> bool:
        """Return whether a grid point (a mapping with every axis) lies in the region."""
        return _contains(self.values(), point)


def _contains(region: Mapping[str, Sequence[Any]], point: Point) -> bool:
    axes = {**point, **settings_of(point)}
    return all(axis in axes and axes[axis] in values for axis, values in region.items())


class Claim(Model):
    """A statement about the rows of a study; the keys of each kind are in `KINDS`.

    unbiased    no bias is detected, and a relative bias of `detectable` would have been
    biased      a bias in direction, or in scale only
    equals      a measure is `value` within a tolerance, absolute or relative to `value`
    ratio       a measure at `of` over that at `over` is at least, or at most, a number
    order       a measure strictly increases along a list of regions
    difference  the final Max@K, mean or best reward in a way of decoding, of the policy of `of`
                minus that of `over`, paired by seed and instance; with the decoding `best` each
                policy has its best temperature, with `forced` forced starts

    All axes that a claim does not name are equal on both sides.
    """

    model_config = ConfigDict(validate_default=True)

    name: str
    kind: str = Field("", json_schema_extra={"enum": [*KINDS]})
    where: Where = Where()
    detectable: Positive | None = None
    bias: Literal["direction", "scale"] | None = None
    metric: str | None = None
    value: float | str | None = None
    tolerance: Positive | None = None
    relative_tolerance: Positive | None = None
    of: Where | None = None
    over: Where | None = None
    along: Annotated[tuple[Where, ...], Field(min_length=2, strict=False)] | None = None
    at_least: Finite | None = None
    at_most: Finite | None = None
    about: Question | None = None
    decoding: Literal["sampled", "best", "forced"] | None = None

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not name.strip() or name.splitlines() != [name]:
            raise ValueError(f"must be one line of text, got {shown(name)}")
        return name

    @field_validator("kind")
    @classmethod
    def _check_kind(cls, kind: str) -> str:
        if not kind:
            raise ValueError(f"is missing; one of {', '.join(KINDS)}")
        if kind not in KINDS:
            raise ValueError(one_of(kind, KINDS))
        return kind

    @field_validator(*{key for keys in KINDS.values() for key in sum(keys, ())}, mode="before")
    @classmethod
    def _check_key(cls, value: Any, info: ValidationInfo) -> Any:
        kind, key = info.data.get("kind"), str(info.field_name)
        if kind is None:
            return value
        needed, optional = KINDS[kind]
        if value is None and key in needed:
            raise PydanticCustomError("missing", "is missing")
        if value is not None and key not in (*needed, *optional):
            message = unknown_key(key, ["name", "kind", "where", *needed, *optional])
            raise PydanticCustomError("unexpected_key", "{message}", {"message": message})
        if key == "value" and value is not None:
            _parse(value)
        if key == "about" and isinstance(value, str):
            return _EARLIER.get(value, value)
        return "sampled" if (key, kind, value) == ("decoding", "difference", None) else value

    @field_validator("metric")
    @classmethod
    def _check_metric(cls, metric: str | None, info: ValidationInfo) -> str | None:
        kind = info.data.get("kind")
        if metric is None or kind is None:
            return metric
        if kind == "difference":
            return check_text(metric, *_FINAL)
        if metric not in (measures := claimable(kind)):
            raise ValueError(removed_row("measure", metric) or one_of(metric, measures))
        return metric

    @field_validator("at_least", "at_most")
    @classmethod
    def _check_bound(cls, bound: float | None, info: ValidationInfo) -> float | None:
        if bound is not None and info.data.get("kind") == "ratio" and bound <= 0:
            raise ValueError(f"must be greater than 0, got {bound:g}")
        return bound

    @field_validator("over")
    @classmethod
    def _check_sides(cls, over: Where | None, info: ValidationInfo) -> Where | None:
        of = info.data.get("of")
        if over is None or of is None:
            return over
        if not of.values() or not set(of.values()) <= set(over.values()):
            raise ValueError(
                "must give every axis that of gives, "
                "e.g. of: {baseline: subloo}, over: {baseline: none}"
            )
        if any(len(values) > 1 for values in over.values().values()):
            raise ValueError("must give one value per axis")
        return over

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        either = _EITHER.get(self.kind, ())
        if either and sum(getattr(self, key) is not None for key in either) != 1:
            raise ValueError(f"needs exactly one of {' and '.join(either)}")
        regions = [region.values() for region in self.along or ()]
        if regions and (not regions[0] or any({*each} != {*regions[0]} for each in regions)):
            raise ValueError(
                "the regions of along must give the same axes, "
                "e.g. [{baseline: subloo}, {baseline: none}]"
            )
        if any(len(values) > 1 for region in regions for values in region.values()):
            raise ValueError("the regions of along must give one value per axis")
        if self.decoder is not None and self.decoding != "sampled":
            raise ValueError(
                f"decoding: {self.decoding} is of mean and max@K only, got metric {self.decoder}"
            )
        if self.kind == "difference":
            named = [axis for _, region in self.regions() for axis in region.values()]
            for axis in named:
                if axis in AXES and axis not in self.axes:
                    listed = f"{', '.join(self.axes[:-1])} or {self.axes[-1]}"
                    raise ValueError(f"a {self.study} study has no {axis}: give {listed}")
        return self

    @property
    def study(self) -> str:
        """The kind of study of the claim: that of its measure or of its kind."""
        if self.measure in MEASURES:
            return MEASURES.get(self.measure).study
        return next(row.name for row in STUDIES if self.kind in row.claims)

    @property
    def measure(self) -> str:
        """The metric; "" for the kinds without one."""
        return self.metric or ""

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of that study's points; varied settings are additional axes."""
        return STUDIES.get(self.study).axes

    @property
    def final_k(self) -> int:
        """The K of the final curve; 1 for the mean reward and for a decoder."""
        return int(self.measure.partition("@")[2] or 1)

    @property
    def decoder(self) -> str | None:
        """The decoder of a difference, such as greedy; None for sampling."""
        sampled = self.measure == "mean" or self.measure.startswith("max@")
        return None if self.kind != "difference" or sampled else self.metric

    def slack(self, value: float) -> float:
        """Return the allowed distance of the measure from `value`, the claim's value at a point."""
        if self.tolerance is not None:
            return self.tolerance
        assert self.relative_tolerance is not None
        return self.relative_tolerance * abs(value)

    def regions(self) -> Iterator[tuple[tuple[int | str, ...], Where]]:
        """Yield every region of the claim with its location in it."""
        for key in ("where", "of", "over"):
            if (region := getattr(self, key)) is not None:
                yield (key,), region
        yield from ((("along", number), each) for number, each in enumerate(self.along or ()))

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """Yield the rows of points of the claim: single points, pairs, or an order.

        The points of a row are equal in all axes and settings that the claim does not compare.
        """
        if self.along:
            return _align(points, self.along, self.where, self.axes)
        if self.of is None or self.over is None:
            return ((point,) for point in points if self.where.contains(point))
        over = self.over
        if self.kind == "difference" and over.k is None:
            # If `over` has no K, it is compared with every K of `of`.
            ks = {choose_estimator(name).row.fixed_k for name in over.estimator or ()}
            if len(ks) == 1 and None not in ks:
                over = over.model_copy(update={"k": tuple(ks)})
        return _align(points, (self.of, over), self.where, self.axes)


def _align(
    points: Sequence[Point], regions: Sequence[Where], where: Where, axes: Sequence[str]
) -> Iterator[tuple[Point, ...]]:
    """Yield, for each point of the first region, a row with one point of each region.

    All regions but the first have one value for each of their axes. Rows with a missing point, or
    with a repeated point, are left out. `where` applies to the first region, in the axes that it
    does not name.
    """
    swapped = {axis for region in regions for axis in region.values()}
    settings = dict.fromkeys(key for point in points for key in settings_of(point))
    shared = [axis for axis in (*axes, *settings) if axis not in swapped]
    first = where.values() | regions[0].values()

    def place(point: Point) -> tuple[Any, ...]:
        everything = {**point, **settings_of(point)}
        return tuple(everything.get(axis) for axis in shared)

    partners = [
        {place(point): point for point in points if region.contains(point)}
        for region in regions[1:]
    ]
    for point in points:
        if not _contains(first, point):
            continue
        row = [point, *(side[place(point)] for side in partners if place(point) in side)]
        if len(row) == len(regions) and len({id(member) for member in row}) == len(row):
            yield tuple(row)


def check_claims(
    claims: Iterable[Claim],
    points: Mapping[str, Sequence[Point]],
    studies: Mapping[str, AnyStudy],
) -> Iterator[Finding]:
    """Yield claims with equal names, with unknown points, or with undefined values.

    `points` holds the points that each of `studies` measures, with their stage and setting.
    """
    names: set[str] = set()
    for number, claim in enumerate(claims):
        place = ("claims", number)
        if claim.name in names:
            yield Finding((*place, "name"), f"two claims are named {shown(claim.name)}")
        names.add(claim.name)
        if claim.study not in points:
            # The study follows from the kind of a claim, or else from its metric.
            key = "kind" if claim.kind in STUDIES.get(claim.study).claims else "metric"
            article = "an" if claim.study[0] in "aeiou" else "a"
            about = f"{getattr(claim, key)} speaks of {article} {claim.study} study"
            yield Finding((*place, key), f"{about}, and this sweep has none")
            continue
        problems = [*_unknown_settings(claim, points[claim.study])]
        problems = problems or [*_unmeasured(claim, points[claim.study], studies[claim.study])]
        yield from (each._replace(location=(*place, *each.location)) for each in problems)


def _unknown_settings(claim: Claim, points: Sequence[Point]) -> Iterator[Finding]:
    varied = dict.fromkeys(key for point in points for key in settings_of(point))
    for location, region in claim.regions():
        for key in region.setting or ():
            if key not in varied:
                nothing = f"unknown key {shown(key)}: the sweep varies nothing"
                message = unknown_key(key, varied) if varied else nothing
                yield Finding((*location, "setting", key), message, key=True)


def _unmeasured(claim: Claim, points: Sequence[Point], study: AnyStudy) -> Iterator[Finding]:
    """Yield why a claim matches no point, or needs a number that is not measured or undefined."""
    rows = list(claim.points(points))
    if not rows:
        key, what = "where", "no point of the grid that can run"
        if claim.along:
            key = "along"
            what = "no points of the grid that can run, one of each region, all else equal"
        elif claim.over is not None:
            key, what = "of", "no two points of the grid that can run"
        yield Finding((key,), f"matches {what}")
    if claim.metric is not None and (reason := study.lacks(claim.metric, rows)) is not None:
        yield Finding(("metric",), reason)
    if claim.decoding is not None and (reason := study.lacks_decoding(claim.decoding)) is not None:
        yield Finding(("decoding",), reason)
    try:
        for (point,) in rows if claim.value is not None else ():
            evaluate_value(claim.value, point["n"], point["k"], settings_of(point))
    except LabError as error:
        yield Finding(("value",), str(error))


def evaluate_value(
    value: float | str | None,
    n: int,
    k: int,
    setting: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
) -> float:
    """Return the number of a claim: a number, or arithmetic such as `1 - k/n`.

    Arithmetic is + - * / ** and brackets in n, k and varied settings that are numbers, by the last
    word of their key: `arms` for `environment.arms`. Raises `LabError` for anything else, for a
    division by zero and for a result that is not a finite real number.
    """
    varied = {key.rpartition(".")[2]: each for key, each in dict(setting).items()}
    numbers = {name: each for name, each in varied.items() if _is_number(each)}
    # As floats, because powers of whole numbers may never end.
    names = {name: float(each) for name, each in (numbers | {"n": n, "k": k}).items()}
    place = ", ".join(f"{name} = {names[name]:g}" for name in ("n", "k", *numbers))
    code = compile(ast.fix_missing_locations(_parse(value, names)), "a claim", "eval")
    try:
        result = eval(code, {"__builtins__": {}}, names)  # only arithmetic, ensured by _parse
    except ZeroDivisionError:
        raise LabError(f"{shown(value)} divides by zero at {place}") from None
    except OverflowError:
        result = math.inf
    if isinstance(result, complex):
        raise LabError(f"{shown(value)} is not a real number at {place}")
    if not math.isfinite(result):
        raise LabError(f"{shown(value)} is not finite at {place}")
    return float(result)


# The allowed nodes of arithmetic, besides numbers: no call, no attribute, no text.
_ALLOWED = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd),
)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _parse(value: Any, names: Collection[str] | None = None) -> ast.Expression:
    """Return a number or arithmetic text as a tree of floats; any name is allowed by default."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        text = repr(float(value)) if _is_number(value) else text
        tree = ast.parse(text if len(text) <= LONGEST else "", mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                if isinstance(node.value, bool):
                    raise ValueError("not a number")
                node.value = float(node.value)
            elif isinstance(node, ast.Name) and names is not None and node.id not in names:
                raise ValueError("unknown name")
            elif not isinstance(node, _ALLOWED):
                raise ValueError("not arithmetic")
        return tree
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        varied = [name for name in names or () if name not in ("n", "k")]
        listed = f"n, k, {', '.join(varied)}" if varied else "n and k"
        raise LabError(
            f"must be a number or arithmetic in {listed} such as '1 - k/n', got {shown(value)}"
        ) from None
