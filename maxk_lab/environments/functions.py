"""User functions and catalogue functions that a sweep names, and the rewards that they return.

Only the measuring process imports a user's function. Before that, only the existence of its module
is checked. This module does not import torch.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from maxk_lab.catalogue import Catalogue, Row, load
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.installed import (
    PLACES,
    NoModuleError,
    is_function_path,
    open_project_folders,
    place_of,
)
from maxk_lab.ranges import ANYWHERE, SHARES, Range

Function = TypeVar("Function", bound=Callable[..., Any])
RowType = TypeVar("RowType", bound=Row)


@dataclass(frozen=True, kw_only=True)
class FunctionRow(Row):
    """A reward function, with values `within` a range, or only 0 and 1."""

    binary: bool = False
    within: Range = ANYWHERE

    @property
    def range(self) -> Range:
        """The range of its values."""
        return SHARES if self.binary else self.within


def listed(
    rows: list[RowType], kind: type[RowType], **common: Any
) -> Callable[..., Callable[[Function], Function]]:
    """Return a decorator that adds a row for a function, with the function's name."""

    def decorator(meaning: str, **facts: Any) -> Callable[[Function], Function]:
        def add(function: Function) -> Function:
            name = function.__name__
            path = f"{function.__module__}:{name}"
            rows.append(kind(name=name, meaning=meaning, implementation=path, **common | facts))
            return function

        return add

    return decorator


def check_function(
    name: str, catalogue: Catalogue[Any] | None, what: str = "reward function"
) -> None:
    """Raise `LabError` for an unknown name that is no path `package.module:name`.

    For a path, only the existence of the module is checked: its content is known after an import.
    """
    if ":" not in name and catalogue is not None:
        _implementation(name, catalogue)
        return
    module, reason = name.partition(":")[0], ""
    if not is_function_path(name):
        reason = "it is no path of the form package.module:name"
    elif module == "__main__":
        reason = (
            "the processes that measure know nothing of the script or the notebook that runs "
            "them: put the function into a module, a file of its own"
        )
    elif module not in sys.modules:
        try:
            place_of(module)
        except NoModuleError as error:
            reason = f"{error}{PLACES}"
    if reason:
        raise LabError(f"cannot load the {what} {shown(name)}: {reason}")


def call_problems(names: Sequence[str], arguments: Sequence[str]) -> Iterator[str]:
    """Yield why user functions cannot be called by name with these arguments.

    The source is read, not run. Imports, and decorators that keep the signature, are followed.
    """
    called_with = f"it is called by name, with {', '.join(arguments)}"
    for name in names:
        signature = _signature(name)
        if signature is None:
            continue
        takes = [each.arg for each in (*signature.args, *signature.kwonlyargs)]
        required = takes[: len(signature.args) - len(signature.defaults)]
        defaults = zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
        required += [each.arg for each, default in defaults if default is None]
        if signature.posonlyargs:
            yield f"{name!r} takes {signature.posonlyargs[0].arg} by its position: {called_with}"
        if missing := [each for each in required if each not in arguments]:
            yield f"{name!r} needs {', '.join(missing)}: {called_with}"
        surplus = [each for each in arguments if each not in takes]
        if surplus and signature.kwarg is None:
            yield f"{name!r} does not take {', '.join(surplus)}: add **kwargs; {called_with}"


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Decorators of the standard library and of torch that keep the arguments.
_TRANSPARENT = {"cache", "lru_cache", "no_grad", "inference_mode"}
# The most imports from module to module that are followed.
_STEPS = 8


def _signature(path: str, steps: int = _STEPS) -> ast.arguments | None:
    """Return the arguments of the function at `module:name`, from the source of its module.

    None if the source does not determine them.
    """
    module, _, name = path.partition(":")
    if not name or not steps:
        return None
    try:
        spec = place_of(module)
        tree = ast.parse(Path(spec.origin or "").read_bytes())
    except (NoModuleError, OSError, SyntaxError, ValueError):
        return None
    functions = {node.name: node for node in tree.body if isinstance(node, _FUNCTIONS)}
    for node in reversed(tree.body):
        if isinstance(node, _FUNCTIONS) and node.name == name:
            passed = (_passes_all(decorator, functions) for decorator in node.decorator_list)
            return node.args if all(passed) else None
        if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
            alias = node.value.id if isinstance(node.value, ast.Name) else ""
            return _signature(f"{module}:{alias}", steps - 1) if alias else None
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                if (each.asname or each.name) == name:
                    package = module if spec.submodule_search_locations else _parent(module)
                    for _ in range(node.level - 1):
                        package = _parent(package)
                    origin = ".".join(filter(None, [package * bool(node.level), node.module]))
                    return _signature(f"{origin}:{each.name}", steps - 1)
    return None


def _parent(module: str) -> str:
    return module.rpartition(".")[0]


def _word(node: ast.AST) -> str:
    """Return the last name of `a`, `a.b` or `a.b(...)`; "" for other nodes."""
    node = node.func if isinstance(node, ast.Call) else node
    return getattr(node, "attr", getattr(node, "id", ""))


def _passes_all(decorator: ast.expr, functions: Mapping[str, Any]) -> bool:
    """Return whether a decorator keeps the signature: it is known, or passes all arguments.

    A decorator of the module passes all arguments if its inner function takes `*a, **k` and only
    calls with `*a, **k`.
    """
    if _word(decorator) in _TRANSPARENT:
        return True
    if not isinstance(decorator, ast.Name) or decorator.id not in functions:
        return False
    inner = [node for node in functions[decorator.id].body if isinstance(node, _FUNCTIONS)]
    if len(inner) != 1:
        return False
    takes, nodes = inner[0].args, [*ast.walk(ast.Module(inner[0].body, []))]
    if takes.args or takes.kwonlyargs or not (takes.vararg and takes.kwarg):
        return False
    names = {takes.vararg.arg, takes.kwarg.arg}
    uses = sum(isinstance(node, ast.Name) and node.id in names for node in nodes)
    calls = [
        [ast.unparse(each) for each in (*node.args, *node.keywords)]
        for node in nodes
        if isinstance(node, ast.Call)
    ]
    passed = calls.count([f"*{takes.vararg.arg}", f"**{takes.kwarg.arg}"])
    return passed > 0 and uses == 2 * passed


def load_function(
    name: str,
    catalogue: Catalogue[Any] | None,
    takes: str,
    what: str = "reward function",
    *,
    classes: bool = False,
) -> Any:
    """Return the function, or class, with a name or path; project folders become importable.

    `takes` describes the function's arguments. Raises `LabError` if it is missing, and for any
    exception of its module at import.
    """
    if ":" not in name and catalogue is not None:
        return load(_implementation(name, catalogue))
    open_project_folders()
    kind, what = what, f"{what} {shown(name)}"
    try:
        function = load(name, f"the {kind} ")
    except KeyboardInterrupt as error:  # Ctrl-C, or raised by the module: it ends the import
        raise LabError(f"cannot load the {what}: {first_line(error)}") from error
    except LabError as error:
        places = PLACES if isinstance(error.__cause__, ModuleNotFoundError) else ""
        raise LabError(f"{error}{places}") from error
    is_class = isinstance(function, type)
    if is_class != classes or not callable(function):
        got = f"the class {function.__name__}" if is_class else shown(function)
        kind = "class" if classes else "function"
        raise LabError(f"the {what} must be a {kind} {takes}, got {got}")
    return function


def _implementation(name: str, catalogue: Catalogue[Any]) -> str:
    try:
        return str(catalogue.get(name).implementation)
    except LabError as error:
        raise LabError(f"{error}; or a dotted path package.module:name") from None


@dataclass(frozen=True, kw_only=True)
class ScoredRow(EnvironmentRow):
    """An environment whose rewards are a weighted sum of functions that its parameters name."""

    functions: Catalogue[Any]

    def reward_names(self, parameters: Mapping[str, Any]) -> list[str]:
        """Return the functions that score its trajectories: catalogue names, or dotted paths."""
        return [parameters["reward"]]

    def reward_weights(self, parameters: Mapping[str, Any]) -> list[float]:
        """Return one weight per function, all 1 by default."""
        names = self.reward_names(parameters)
        return list(parameters.get("reward_weights", ())) or [1.0] * len(names)

    def other_rewards(self, parameters: Mapping[str, Any]) -> str | None:
        names, weights = self.reward_names(parameters), self.reward_weights(parameters)
        if len(names) > 1:
            return f"{' and '.join(names)} are added up"
        if weights != [1.0]:
            return f"{names[0]} has the weight {weights[0]:g}"
        if names[0] in self.functions and not self.functions.get(names[0]).binary:
            return f"{names[0]} gives others"
        return None

    def reward_range(self, parameters: Mapping[str, Any]) -> Range:
        names, weights = self.reward_names(parameters), self.reward_weights(parameters)
        ranges = [
            self.functions.get(name).range if name in self.functions else ANYWHERE for name in names
        ]
        if weights == [1.0]:
            return ranges[0]
        if not all(each.bounded for each in ranges):
            return ANYWHERE
        ends = [
            sorted((weight * each.low, weight * each.high))
            for weight, each in zip(weights, ranges, strict=True)
        ]
        return Range(sum(low for low, _ in ends), sum(high for _, high in ends))

    def named(self, parameters: Mapping[str, Any]) -> Sequence[tuple[Catalogue[Any], str]]:
        names = self.reward_names(parameters)
        return [(self.functions, name) for name in names if name in self.functions]

    def problems(self, parameters: Mapping[str, Any]) -> Iterator[str]:
        names, weights = self.reward_names(parameters), parameters.get("reward_weights", ())
        for name in names:
            try:
                check_function(name, self.functions)
            except LabError as error:
                yield str(error)
        if names and weights and len(weights) != len(names):
            yield (
                f"reward_weights must hold one weight for each of the {len(names)} reward "
                f"functions ({', '.join(names)}), got {len(weights)}"
            )
