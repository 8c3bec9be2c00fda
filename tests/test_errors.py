"""Errors: one family, and those about what the caller gave are `ValueError`, too."""

from __future__ import annotations

import pickle

import pytest

from maxk_lab.errors import (
    LabError,
    MistakeError,
    RefusedError,
    SpecError,
    error_line,
    shown,
)
from maxk_lab.files import StorageError


@pytest.mark.parametrize("kind", [LabError, MistakeError, RefusedError, StorageError])
def test_a_mistake_of_the_caller_alone_is_a_value_error(kind: type[LabError]) -> None:
    error = kind("two words")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args) == (type(error), error.args) == (type(error), ("two words",))
    assert type(error) is (MistakeError if kind is LabError else kind)
    assert isinstance(error, ValueError) == isinstance(error, MistakeError)
    assert issubclass(SpecError, MistakeError)


def test_what_python_cannot_write_is_still_shown() -> None:
    assert shown(10**5000) == "a whole number of very many digits"
    odd = type("Odd", (), {"__repr__": lambda self: 1 / 0})()
    assert shown(odd) == "an object of Odd that cannot be shown"
    assert shown("a\nb") == "'a\\nb'"


FRAMES = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g(x)\n     ^^^\n'


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (f"{FRAMES}ValueError: it is wrong", "ValueError: it is wrong"),
        (f"{FRAMES}RuntimeError: CUDA error\nset this\nor that.\n", "RuntimeError: CUDA error"),
        (f"{FRAMES}KeyError: 1\n\nDuring …\n\n{FRAMES}TypeError: 2", "TypeError: 2"),
        (f"{FRAMES}ValueError: one\u2028line", "ValueError: one\u2028line"),
        (f"{FRAMES}maxk_lab.errors.MistakeError: reward raised", "reward raised"),
        ("the metrics cannot be kept: full", "the metrics cannot be kept: full"),
        ("  only this", "only this"),
        (FRAMES, "^^^"),
        ("", "no error text"),
        (None, "no error text"),
    ],
)
def test_the_line_of_a_traceback_says_what_is_wrong(told: str | None, line: str) -> None:
    assert error_line(told) == line
