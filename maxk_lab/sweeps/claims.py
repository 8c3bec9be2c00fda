"""Claims: the falsifiable statements of a sweep file, checked for sense before anything is measured."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from maxk_lab.errors import LabError
from maxk_lab.sweeps.fields import AtLeastOne, BaselineName, EstimatorName, OneOrMore, WholeNumber

# Axes of the grid that a claim may speak of; seeds are pooled before any verdict.
AXES = ("estimator", "baseline", "n", "k", "stage")
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


class Where(BaseModel):
    """A region of the grid: each axis that is given equals the value, or one of the values, given for it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

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


class _Claim(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, AfterValidator(_check_name)]
    where: Where = Where()

    def points(self, points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """The grid points, or pairs of them, that the claim speaks of."""
        return ((point,) for point in points if self.where.contains(point))


class UnbiasedClaim(_Claim):
    """No bias is seen, although a relative bias of `detectable` would have been."""

    kind: Literal["unbiased"]
    detectable: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class EqualsClaim(_Claim):
    """A measure equals a value within a tolerance."""

    kind: Literal["equals"]
    metric: Metric
    value: Annotated[float | str, BeforeValidator(_check_value)]
    tolerance: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class RatioClaim(_Claim):
    """A measure at `of` is at least, or at most, so many times that at `over`, all other axes equal."""

    kind: Literal["ratio"]
    metric: RatioMetric
    of: Where
    over: Where
    at_least: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    at_most: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _sides(self) -> RatioClaim:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("needs exactly one of at_least and at_most")
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
        shared = [axis for axis in AXES if axis not in swapped]
        where = {axis: values for axis, values in self.where.given().items() if axis in shared}
        partners = {tuple(p[axis] for axis in shared): p for p in points if self.over.contains(p)}
        for point in points:
            if self.of.contains(point) and all(point[axis] in values for axis, values in where.items()):
                partner = partners.get(tuple(point[axis] for axis in shared))
                if partner is not None and partner is not point:
                    yield point, partner


Claim = Annotated[UnbiasedClaim | EqualsClaim | RatioClaim, Field(discriminator="kind")]
CLAIM_KINDS: dict[str, type[_Claim]] = {"unbiased": UnbiasedClaim, "equals": EqualsClaim, "ratio": RatioClaim}
