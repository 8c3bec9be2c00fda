"""Claims: the falsifiable statements of a sweep file, checked for sense before anything is measured."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from maxk_lab.errors import LabError
from maxk_lab.sweeps.fields import AtLeastOne, BaselineName, EstimatorName, Model, OneOrMore, WholeNumber

# Axes of the grid that a claim may speak of; seeds are pooled before any verdict.
TRAINING_AXES = ("estimator", "baseline", "n", "k")
AXES = (*TRAINING_AXES, "stage")
Metric = Literal["variance", "relative_variance", "snr", "squared_bias", "scale", "cosine"]
RatioMetric = Literal["variance", "relative_variance", "snr"]
Point = Mapping[str, Any]

_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def evaluate_value(value: float | str, n: int, k: int) -> float:
    """The number that a claim names: a number, or arithmetic (+ - * / and brackets) in n and k, as `1 - k/n`.

    Raises `LabError` for anything else, for a division by zero and for a result that is not finite.
    """
    try:
        tree = ast.parse(value.strip() if isinstance(value, str) else repr(float(value)), mode="eval")
        result = float(_evaluate(tree.body, {"n": n, "k": k}))
    except ZeroDivisionError:
        raise LabError(f"{value!r} divides by zero at n = {n}, k = {k}") from None
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        raise LabError(
            f"must be a number or arithmetic in n and k such as '1 - k/n', got {value!r}"
        ) from None
    if not math.isfinite(result):
        raise LabError(f"{value!r} is not finite at n = {n}, k = {k}")
    return result


def _evaluate(node: ast.AST, names: Mapping[str, int]) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.left, names), _evaluate(node.right, names))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.operand, names))
    raise ValueError("not arithmetic")


def _check_value(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"must be a number or arithmetic in n and k such as '1 - k/n', got {value!r}")
    try:
        evaluate_value(value, n=7919, k=7907)  # no n and k of a sweep, so only what never works fails here
    except LabError as error:
        raise ValueError(str(error)) from None
    return value


def _check_name(name: str) -> str:
    if not name.strip() or len(name.splitlines()) > 1:
        raise ValueError(f"must be one line of text, got {name!r}")
    return name


class Where(Model):
    """A region of the grid: each axis that is given equals the value, or one of the values, given for it."""

    estimator: OneOrMore[EstimatorName] | None = None
    baseline: OneOrMore[BaselineName] | None = None
    n: OneOrMore[AtLeastOne] | None = None
    k: OneOrMore[AtLeastOne] | None = None
    stage: OneOrMore[WholeNumber] | None = None

    def given(self) -> dict[str, tuple[Any, ...]]:
        """The axes that are given, with their values."""
        return {axis: values for axis in AXES if (values := getattr(self, axis)) is not None}

    def contains(self, point: Point) -> bool:
        """Whether a grid point (a mapping with every axis) lies in the region."""
        return all(point[axis] in values for axis, values in self.given().items())


class _Claim(Model):
    # The study whose rows the claim speaks of.
    study: ClassVar[Literal["gradient", "training"]] = "gradient"

    name: Annotated[str, AfterValidator(_check_name)]
    where: Where = Where()

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """The grid points, or pairs of them, that the claim speaks of."""
        return ((point,) for point in points if self.where.contains(point))


class UnbiasedClaim(_Claim):
    """No bias is seen, although a relative bias of `detectable` would have been."""

    kind: Literal["unbiased"]
    detectable: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class BiasedClaim(_Claim):
    """A bias is there: of the direction too, or (`scale`) of the length alone."""

    kind: Literal["biased"]
    bias: Literal["direction", "scale"]


class EqualsClaim(_Claim):
    """A measure equals a value within a tolerance."""

    kind: Literal["equals"]
    metric: Metric
    value: Annotated[float | str, BeforeValidator(_check_value)]
    tolerance: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _PairClaim(_Claim):
    """A measure at `of` compared with that at `over`, all other axes equal."""

    axes: ClassVar[tuple[str, ...]] = AXES

    of: Where
    over: Where

    @model_validator(mode="after")
    def _two_sides(self) -> Self:
        if not self.of.given() or set(self.of.given()) != set(self.over.given()):
            raise ValueError(
                "of and over must give the same axes, e.g. of: {baseline: subloo}, over: {baseline: none}"
            )
        if any(len(values) > 1 for values in self.over.given().values()):
            raise ValueError("over must give one value per axis")
        return self

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """Pairs (of, over) that differ only in the axes that `of` and `over` give."""
        swapped = self.over.given()
        shared = [axis for axis in self.axes if axis not in swapped]
        where = {axis: values for axis, values in self.where.given().items() if axis in shared}
        partners = {tuple(p[axis] for axis in shared): p for p in points if self.over.contains(p)}
        for point in points:
            if self.of.contains(point) and all(point[axis] in values for axis, values in where.items()):
                partner = partners.get(tuple(point[axis] for axis in shared))
                if partner is not None and partner is not point:
                    yield point, partner


def _one_bound(claim: RatioClaim | DifferenceClaim) -> None:
    if (claim.at_least is None) == (claim.at_most is None):
        raise ValueError("needs exactly one of at_least and at_most")


class RatioClaim(_PairClaim):
    """A measure at `of` is at least, or at most, so many times that at `over`, all other axes equal."""

    kind: Literal["ratio"]
    metric: RatioMetric
    at_least: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    at_most: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _bound(self) -> Self:
        _one_bound(self)
        return self


def _check_final(metric: str) -> str:
    if metric != "mean" and re.fullmatch(r"max@[1-9][0-9]{0,8}", metric) is None:
        raise ValueError(f"must be mean, or max@K such as max@8, got {metric!r}")
    return metric


class DifferenceClaim(_PairClaim):
    """The trained policy's Max@K (or mean reward) at `of` less that at `over` is at least, or at most, a number.

    Policies are compared in pairs: of the same seed, on the same held-out instances.
    """

    study: ClassVar[Literal["gradient", "training"]] = "training"
    axes: ClassVar[tuple[str, ...]] = TRAINING_AXES

    kind: Literal["difference"]
    metric: Annotated[str, AfterValidator(_check_final)]
    at_least: Annotated[float, Field(allow_inf_nan=False)] | None = None
    at_most: Annotated[float, Field(allow_inf_nan=False)] | None = None

    @property
    def at_k(self) -> int:
        """The K of the curve that the claim speaks of; the mean reward is its value at K = 1."""
        return 1 if self.metric == "mean" else int(self.metric.removeprefix("max@"))

    @model_validator(mode="after")
    def _bound(self) -> Self:
        _one_bound(self)
        if any(region.stage is not None for region in (self.of, self.over, self.where)):
            raise ValueError("a training study has no stage: give estimator, baseline, n or k")
        return self


Claim = Annotated[
    UnbiasedClaim | BiasedClaim | EqualsClaim | RatioClaim | DifferenceClaim, Field(discriminator="kind")
]
CLAIM_KINDS: dict[str, type[_Claim]] = {
    "unbiased": UnbiasedClaim,
    "biased": BiasedClaim,
    "equals": EqualsClaim,
    "ratio": RatioClaim,
    "difference": DifferenceClaim,
}
