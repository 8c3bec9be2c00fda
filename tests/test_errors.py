"""Errors: one family, and those about what the caller gave are `ValueError`, too."""

import pickle
from copy import copy

import pytest

from maxk_lab.errors import (
    LabError,
    MistakeError,
    Problem,
    RefusedError,
    SpecError,
    error_line,
    first_line,
    shortened,
    shown,
)
from maxk_lab.files import StorageError
from maxk_lab.tracking.wandb_tracker import TrackingError


@pytest.mark.parametrize("kind", [LabError, MistakeError, RefusedError, StorageError])
def test_a_mistake_of_the_caller_alone_is_a_value_error(kind):
    error = kind("two words")
    assert type(error) is (MistakeError if kind is LabError else kind)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args) == (type(error), ("two words",))
    assert isinstance(error, ValueError) == isinstance(error, MistakeError)
    assert issubclass(SpecError, MistakeError)


def test_a_value_or_an_error_that_cannot_be_printed_has_a_text():
    silent = type("SilentError", (Exception,), {"__str__": lambda self: 1 / 0})()
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == first_line(silent) == "no message"
    assert shown(10**5000) == "a whole number of very many digits"
    for bad in ("1 / 0", "int('x')"):
        odd = type("Odd", (), {"__repr__": eval(f"lambda self: {bad}")})()
        assert shown(odd) == "an object of Odd that cannot be shown"


@pytest.mark.parametrize(("length", "shorter"), [(20, 0), (21, 0), (37, 0), (38, 1)])
def test_a_shortened_text_is_shorter(length, shorter):
    assert (len(shortened("x" * length, 20)) < length) == shorter


def test_a_copy_of_an_error_has_its_message_and_its_parts():
    spec = SpecError([Problem("a.yaml", 1, number, "seeds", "bad") for number in range(21)])
    assert str(spec).endswith("\nand 1 more problem")
    for error in (spec, TrackingError("W&B failed", ["a", "b"])):
        for again in (pickle.loads(pickle.dumps(error)), copy(error)):
            assert (str(again), vars(again)) == (str(error), vars(error))


FRAMES = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g(x)\n     ^^^\n'
LINES = {
    f"{FRAMES}RuntimeError: CUDA error\nset this\nor that.\n": "RuntimeError: CUDA error",
    f"{FRAMES}KeyError: 1\n\nDuring …\n\n{FRAMES}TypeError: 2": "TypeError: 2",
    f"{FRAMES}ValueError: one\u2028line": "ValueError: one\u2028line",
    f"{FRAMES}maxk_lab.errors.MistakeError: reward raised": "reward raised",
    f"{FRAMES}maxk_lab.files.StorageError: a.pt cannot be written": "a.pt cannot be written",
    "  the metrics cannot be kept: full": "the metrics cannot be kept: full",
    FRAMES: "^^^",
    "": "no error text",
    None: "no error text",
}


def test_the_line_of_a_traceback_has_the_error():
    assert {traceback: error_line(traceback) for traceback in LINES} == LINES
