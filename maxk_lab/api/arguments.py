"""The door of the Python functions: their arguments, and what the system refuses them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from maxk_lab.cli.console import refusal
from maxk_lab.errors import MistakeError, RefusedError, shown

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_EXACTLY = ConfigDict(strict=True, arbitrary_types_allowed=True)


def checked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Check the arguments of a function against its annotations, and translate refusals.

    Raises `MistakeError` that names the first argument that is not what it must be.
    """

    parameters = inspect.signature(function)

    @cache
    def kinds() -> dict[str, TypeAdapter[Any]]:
        hints = get_type_hints(function, include_extras=True)
        return {
            name: TypeAdapter(hint, config=_EXACTLY)
            for name, hint in hints.items()
            if name in parameters.parameters
        }

    @wraps(function)
    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        for name, value in parameters.bind(*arguments, **options).arguments.items():
            try:
                if name in kinds():
                    kinds()[name].validate_python(value)
            except ValidationError:
                kind = function.__annotations__[name]
                raise MistakeError(f"{name} must be {kind}, got {shown(value)}") from None
        with translate_refusals():
            return function(*arguments, **options)

    return call


@contextmanager
def translate_refusals() -> Iterator[None]:
    """Raise a `RefusedError` where the system refuses something, as the command line says it."""
    try:
        yield
    except OSError as error:
        refused = refusal(error)
        if refused is None:
            raise
        raise RefusedError(f"the system refuses it: {refused}") from error
