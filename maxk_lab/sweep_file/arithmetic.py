"""The values of claims: numbers, or arithmetic in n, k and varied settings; no code is run."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeGuard

from maxk_lab.errors import LONGEST, LabError, shown

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
# All that arithmetic is made of, besides numbers: no call, no attribute, no text.
_PARTS = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, *_OPERATORS)


def evaluate_value(
    value: float | str, n: int, k: int, setting: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()
) -> float:
    """Return the number that a claim names, itself or by arithmetic such as `1 - k/n`.

    Arithmetic is + - * / ** and brackets in n, k and varied settings that are numbers, which go by
    the last word of their key: `arms` for `environment.arms`. Raises `LabError` for anything else,
    for a division by zero and for a result that is not a finite real number.
    """
    varied = {key.rpartition(".")[2]: one for key, one in dict(setting).items()}
    numbers = {name: one for name, one in varied.items() if _is_number(one)}
    names = {"n": n, "k": k} | numbers | {"n": n, "k": k}
    place = ", ".join(f"{name} = {number}" for name, number in names.items())
    tree = _parsed(value, names)
    try:
        result = _evaluated(tree, names)
    except ZeroDivisionError:
        raise LabError(f"{shown(value)} divides by zero at {place}") from None
    except OverflowError:
        result = math.inf
    if isinstance(result, complex):
        raise LabError(f"{shown(value)} is not a real number at {place}")
    if not math.isfinite(result):
        raise LabError(f"{shown(value)} is not finite at {place}")
    return float(result)


def check_arithmetic(value: Any) -> Any:
    """Return `value`. Raises `LabError` where it is no number and no arithmetic in some names."""
    _parsed(value)
    return value


def _is_number(value: Any) -> TypeGuard[int | float]:
    return type(value) in (int, float)


def _parsed(value: Any, names: Collection[str] | None = None) -> ast.expr:
    """Return the arithmetic that a text is, and a number as such; any names are known by default.

    Raises `LabError`.
    """
    text = value.strip() if isinstance(value, str) else ""
    try:
        text = repr(float(value)) if _is_number(value) else text
        tree = ast.parse(text if len(text) <= LONGEST else "", mode="eval").body
        for part in ast.walk(tree):
            number = isinstance(part, ast.Constant) and _is_number(part.value)
            strange = isinstance(part, ast.Name) and names is not None and part.id not in names
            if strange or not (number or isinstance(part, _PARTS)):
                raise ValueError("not arithmetic")
        return tree
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        varied = [name for name in names or () if name not in ("n", "k")]
        known = f"n, k, {', '.join(varied)}" if varied else "n and k"
        words = f"must be a number or arithmetic in {known} such as '1 - k/n', got {shown(value)}"
        raise LabError(words) from None


def _evaluated(node: ast.AST, names: Mapping[str, float]) -> Any:
    """Return what parsed arithmetic comes to, of floats: a tower of whole numbers would not end."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluated(left, names), _evaluated(right, names))
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_evaluated(operand, names))
        case ast.Name(id=name):
            return float(names[name])
        case ast.Constant(value=int() | float() as number):
            return float(number)
    raise AssertionError(f"{node} is no arithmetic")
