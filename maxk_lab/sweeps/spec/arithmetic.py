"""The values of claims: numbers, or arithmetic in n, k and varied settings; no code is run."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from maxk_lab.errors import LONGEST, LabError, shown

_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    # Of floats: a tower of whole numbers would not end.
    ast.Pow: lambda base, exponent: float(base) ** float(exponent),
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def evaluate_value(
    value: float | str, n: int, k: int, setting: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()
) -> float:
    """Return the number that a claim names, itself or by arithmetic such as `1 - k/n`.

    Arithmetic is + - * / ** and brackets in n, k and varied settings that are numbers, which go by
    the last word of their key: `arms` for `environment.arms`. Raises `LabError` for anything else,
    for a division by zero and for a result that is not a finite real number.
    """
    varied = {key.rpartition(".")[2]: one for key, one in dict(setting).items()}
    numbers = {name: one for name, one in varied.items() if type(one) in (int, float)}
    names = {"n": n, "k": k} | numbers | {"n": n, "k": k}
    place = ", ".join(f"{name} = {number}" for name, number in names.items())
    try:
        result = _evaluate(_parse(value), names)
    except ZeroDivisionError:
        raise LabError(f"{shown(value)} divides by zero at {place}") from None
    except OverflowError:
        result = math.inf
    except (ValueError, RecursionError):
        raise LabError(_words(value, names)) from None
    if isinstance(result, complex):
        raise LabError(f"{shown(value)} is not a real number at {place}")
    if not math.isfinite(result):
        raise LabError(f"{shown(value)} is not finite at {place}")
    return float(result)


def check_arithmetic(value: Any) -> Any:
    """Return `value`. Raises `ValueError` where it is no number and no arithmetic in some names."""
    known = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, *_OPERATORS)
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError("no number and no text")
        for part in ast.walk(_parse(value)):
            if not isinstance(part, known) and not _is_number(part):
                raise ValueError("not arithmetic")
    except (ValueError, RecursionError):
        raise ValueError(_words(value, ())) from None
    return value


def _words(value: Any, names: Iterable[str]) -> str:
    varied = [name for name in names if name not in ("n", "k")]
    known = f"n, k, {', '.join(varied)}" if varied else "n and k"
    return f"must be a number or arithmetic in {known} such as '1 - k/n', got {shown(value)}"


def _parse(value: float | str) -> ast.AST:
    text = value.strip() if isinstance(value, str) else repr(float(value))
    if len(text) > LONGEST:
        raise ValueError("too long for arithmetic")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, MemoryError):
        raise ValueError("not arithmetic") from None


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _evaluate(node: ast.AST, names: Mapping[str, float]) -> Any:
    if isinstance(node, ast.Constant) and _is_number(node):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.left, names), _evaluate(node.right, names))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.operand, names))
    raise ValueError("not arithmetic")
