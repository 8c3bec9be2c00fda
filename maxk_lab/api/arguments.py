"""The door of the Python functions: their arguments, and what the system refuses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from maxk_lab.errors import MistakeError, RefusedError, shown


@dataclass(frozen=True)
class Kind:
    """A kind of argument: how a message says it, and whether a value is one."""

    words: str
    holds: Callable[[object], bool]


def check(kind: Kind, *, or_none: bool = False, **arguments: object) -> None:
    """Raise `LabError` that names the first of the arguments that is not of this kind."""
    for name, value in arguments.items():
        if not (or_none and value is None) and not kind.holds(value):
            raise MistakeError(f"{name} must be {kind.words}, got {shown(value)}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, Sequence) and all(map(_is_text, value))


def _is_path(value: object) -> bool:
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    return isinstance(path, str) and "\0" not in path  # which no system takes


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


PATH = Kind("a path", _is_path)
RUN = Kind("the name of a run, a folder, a bundle or a handle", _is_path)
TEXT = Kind("a text", _is_text)
CELLS = Kind("a text such as 'k=8,baseline=centred'", _is_text)
COLUMN = Kind("the name of one column, as in '-variance'", _is_text)
COLUMNS = Kind("names of columns, as in ['n', 'variance']", _are_texts)
WHOLE = Kind("a whole number", _is_whole)
COUNT = Kind("a whole number of at least 1", lambda value: _is_whole(value) and value >= 1)  # type: ignore[operator]
SWITCH = Kind("True or False", lambda value: isinstance(value, bool))
LISTENER = Kind(
    "True, False or a function", lambda value: isinstance(value, bool) or callable(value)
)
OVERRIDES = Kind(
    'as {"gradient.pool": 64} or ["gradient.pool=64"]',
    lambda value: isinstance(value, Mapping) or (not _is_text(value) and _are_texts(value)),
)


@contextmanager
def refusals_told() -> Iterator[None]:
    """Turn what the system refuses into a `RefusedError`, in the words of the command line."""
    from maxk_lab.cli.console import refusal

    try:
        yield
    except OSError as error:
        refused = refusal(error)
        if refused is None:
            raise
        raise RefusedError(f"the system refuses it: {refused}") from error
