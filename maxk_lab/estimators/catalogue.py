"""The catalogue of estimators and baselines: formula, objective, bias, limits and source of each.

A user's own function, named `module:function`, is also a row. Its decorator is read from the
source; the module is imported only when weights are computed. This module does not import torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from maxk_lab.catalogue import Catalogue, load
from maxk_lab.errors import LabError, shown
from maxk_lab.estimators import baselines, policy_gradients
from maxk_lab.estimators.rows import (
    NOT_DERIVED,
    WHERE,
    BaselineRow,
    EstimatorRow,
    MethodRow,
    below_n,
    rows_of,
    spell,
)
from maxk_lab.installed import NoModuleError, is_function_path, open_project_folders, place_of
from maxk_lab.removed import removed_row

if TYPE_CHECKING:
    from torch import Tensor

# Names of baselines in PKPO, in trainers of language models, and in American English.
_ALIASES = {
    "sloo": "pkpo_sloo",
    "sloo_minus_one": "subloo",
    "loo": "rloo",
    "leave_one_out": "rloo",
    "centered": "centred",
}
ESTIMATORS: Catalogue[EstimatorRow] = Catalogue(
    "estimator",
    rows_of(EstimatorRow, policy_gradients),
    "maxk_lab.estimators",
    {"pass@k": "maxk", "max@k": "maxk"},
)
BASELINES: Catalogue[BaselineRow] = Catalogue(
    "baseline", rows_of(BaselineRow, baselines), "maxk_lab.baselines", _ALIASES
)

MethodType = TypeVar("MethodType", bound=MethodRow)
_SPELLING = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<value>.*)\])?")
# The keywords of a user's decorator that must be literals.
_FACTS = ("formula", "constraint", "biased", "condition")


@dataclass(frozen=True)
class Choice(Generic[MethodType]):
    """A row with its parameter bound; `name` is the canonical spelling, such as `affine[0.5]`."""

    row: MethodType
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


def choose_baseline(spelling: str | Callable[..., Any]) -> Choice[BaselineRow]:
    """Return the baseline for `name`, `name[value]`, `module:name` or a function.

    Raises `LabError` with the allowed names; the message says so if the name is an estimator.
    """
    if callable(spelling):
        function, name = spelling, getattr(spelling, "__name__", "function")
        return Choice(_row_of(BaselineRow, name, lambda: function, biased="not known"), name)
    try:
        return _choose(BASELINES, spelling)
    except LabError as error:
        name = ESTIMATORS.resolved(str(spelling).partition("[")[0].strip().lower())
        if name not in ESTIMATORS:
            raise error from None
        raise LabError(f"unknown baseline {shown(spelling)}: {name} is an estimator") from None


def choose_estimator(spelling: str) -> Choice[EstimatorRow]:
    """Return the estimator for `name` or `name[value]`.

    Raises `LabError` with the allowed names; the message suggests a pair if the name is a baseline.
    """
    try:
        return _choose(ESTIMATORS, spelling)
    except LabError as error:
        name = BASELINES.resolved(str(spelling).strip())
        try:
            row = choose_baseline(name).row
        except LabError:
            raise error from None
        estimator = "reinforce" if row.objective == "J_1" else "maxk"
        raise LabError(
            f"unknown estimator {shown(spelling)}: {name} is a baseline; take estimator "
            f"{estimator} with baseline {name}"
        ) from None


def _choose(catalogue: Catalogue[MethodType], spelling: str) -> Choice[MethodType]:
    if not isinstance(spelling, str):
        raise LabError(f"{catalogue.kind} must be a name or name[value], got {shown(spelling)}")
    return cast("Choice[MethodType]", _chosen(catalogue, spelling))


# Cached, because a plan parses the same few names for every grid point.
@lru_cache(maxsize=512)
def _chosen(catalogue: Catalogue[Any], spelling: str) -> Choice[Any]:
    match = _SPELLING.fullmatch(spelling.strip())
    if match is None:
        raise LabError(f"{catalogue.kind} must be a name or name[value], got {shown(spelling)}")
    name = match["name"].strip()
    kind: Any = EstimatorRow if catalogue is ESTIMATORS else BaselineRow
    row = _row_in_place(kind, name) if is_function_path(name) else catalogue.get(name)
    if row.parameter is None:
        if match["value"] is not None:
            raise LabError(f"{catalogue.kind} {row.name} takes no parameter, got {shown(spelling)}")
        return Choice(row, row.name)
    written = row.parameter.default if match["value"] is None else match["value"].strip()
    if (advice := removed_row(catalogue.kind, f"{name}[{written}]")) is not None:
        raise LabError(advice)
    value = row.parameter.parse(written)
    if value == 0 and isinstance(value, float):
        value = 0.0  # avoids -0.0, a second spelling
    return Choice(row, f"{row.name}[{spell(value)}]", {row.parameter.name: value})


def _row_in_place(kind: type[MethodType], path: str) -> MethodType:
    """Return the row of the function at `module:name` of (rewards, k) with weights [..., n].

    The function may have the decorator `baseline` or `estimator` with literal arguments; `where`
    says for which n and K it runs, by default any K < n. The row does not claim to be unbiased:
    `maxk-lab check` tests unbiasedness.
    """
    facts = {"where": below_n, "biased": f"{NOT_DERIVED}: see maxk-lab check {path}"}
    facts |= _declared(path)
    return _row_of(kind, path, lambda: _loaded(path), meaning=f"{path}, of your own", **facts)


def _row_of(
    kind: type[MethodType], name: str, get: Callable[[], Any], *, meaning: str = "", **facts: Any
) -> MethodType:
    """Return a row for a user's function; `get` imports the function when weights are computed."""

    def weights(rewards: Tensor, k: int) -> Tensor:
        import torch

        function = get()
        if isinstance(function, MethodRow):
            if (reason := function.refusal(rewards.shape[-1], k)) is not None:
                raise LabError(reason)
            function = function.weights if isinstance(function, BaselineRow) else function.function
        values = torch.as_tensor(function(rewards, k), device=rewards.device)
        if values.shape != rewards.shape:
            shapes = f"{list(values.shape)} for rewards of shape {list(rewards.shape)}"
            raise LabError(f"{name} gives shape {shapes}")
        return values

    facts |= {"meaning": meaning or name, "implementation": name, "function": weights}
    return kind(name=name, **facts)


@cache
def _loaded(path: str) -> Any:
    open_project_folders()
    return load(path, "the function ")


def _declared(path: str) -> dict[str, Any]:
    """Return the arguments of the function's decorator, read from the source without an import."""
    module, _, name = path.partition(":")
    written: dict[str, ast.expr] = {}
    with suppress(NoModuleError, OSError, SyntaxError, ValueError):
        source = Path(place_of(module).origin or "")
        written = {
            str(keyword.arg): keyword.value
            for node in ast.parse(source.read_bytes()).body
            if isinstance(node, ast.FunctionDef) and node.name == name
            for call in node.decorator_list
            for keyword in (call.keywords if isinstance(call, ast.Call) else ())
        }
    limits = _declared_limits(path, written["where"]) if "where" in written else {}
    return limits | {
        fact: node.value
        for fact, node in written.items()
        if fact in _FACTS and isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _declared_limits(path: str, where: ast.expr) -> dict[str, Any]:
    """Return `where` as a function; its text is kept if it is a lambda of n and K alone.

    Raises `LabError` unless it is a function.
    """
    if isinstance(where, ast.Constant):
        raise LabError(f"{path}: where must be {WHERE}, got {shown(where.value)}")
    names = {node.id for node in ast.walk(where) if isinstance(node, ast.Name)}
    if not isinstance(where, ast.Lambda) or names - {argument.arg for argument in where.args.args}:
        return {"where": lambda n, k: _loaded(path).where(n, k)}  # `where` uses names of the module
    code = compile(ast.Expression(where), f"<where {path} runs>", "eval")
    words = re.sub(r"\bk\b", "K", ast.unparse(where.body))
    return {"where": eval(code, {"__builtins__": {}}), "constraint": words}
