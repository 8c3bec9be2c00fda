"""The door of the Python functions: their arguments, and what the system refuses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from maxk_lab.cli.console import refusal
from maxk_lab.errors import MistakeError, RefusedError, shown


def _are_texts(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(one, str) for one in value)


def _is_path(value: object) -> bool:
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    return isinstance(path, str) and "\0" not in path  # which no system takes


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_Kind = tuple[str, Callable[[object], bool]]
_PATH: _Kind = ("a path", _is_path)
_TEXT: _Kind = ("a text", lambda value: isinstance(value, str))
_CELLS: _Kind = ("a text such as 'k=8,baseline=centred'", _TEXT[1])
_SWITCH: _Kind = ("True or False", lambda value: isinstance(value, bool))
# What each argument must be, in the words of a message, and whether a value is that.
_KINDS: dict[str, _Kind] = {
    "spec": _PATH,
    "results": _PATH,
    "folder": _PATH,
    "run": ("the name of a run, a folder, a bundle or a handle", _is_path),
    "only": _CELLS,
    "where": _CELLS,
    "sort": ("the name of one column, as in '-variance'", _TEXT[1]),
    "columns": ("names of columns, as in ['n', 'variance']", _are_texts),
    "backend": _TEXT,
    "profile": _TEXT,
    "shift_seeds": ("a whole number", _is_whole),
    "jobs": (
        "a whole number of at least 1",
        lambda value: _is_whole(value) and value >= 1,  # type: ignore[operator]
    ),
    "retry_failed": _SWITCH,
    "force": _SWITCH,
    "reuse": _SWITCH,
    "progress": (
        "True, False or a function",
        lambda value: isinstance(value, bool) or callable(value),
    ),
    "overrides": (
        'as {"gradient.pool": 64} or ["gradient.pool=64"]',
        lambda value: isinstance(value, Mapping) or (not _TEXT[1](value) and _are_texts(value)),
    ),
}
_MAY_BE_NONE = {"run", "only", "where", "sort", "columns", "backend", "profile"}


def check(**arguments: object) -> None:
    """Raise `MistakeError` that names the first of the arguments that is not what it must be."""
    for name, value in arguments.items():
        words, holds = _KINDS[name]
        if not (value is None and name in _MAY_BE_NONE) and not holds(value):
            raise MistakeError(f"{name} must be {words}, got {shown(value)}")


@contextmanager
def refusals_told() -> Iterator[None]:
    """Turn what the system refuses into a `RefusedError`, in the words of the command line."""
    try:
        yield
    except OSError as error:
        refused = refusal(error)
        if refused is None:
            raise
        raise RefusedError(f"the system refuses it: {refused}") from error
