"""The user's mistakes: one clear line each without traceback; other errors keep theirs."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Self

# The most characters of a quoted value.
LONGEST = 120
# The most problems of a sweep file in one message.
MOST_PROBLEMS = 20


def shown(value: object) -> str:
    """Return a value as a message quotes it: short, and on one line."""
    try:
        return shortened(repr(value), LONGEST)
    except Exception:  # from a user's class
        if isinstance(value, int):  # Python refuses to print thousands of digits
            return "a whole number of very many digits"
        return f"an object of {type(value).__name__} that cannot be shown"


def shortened(text: str, most: int) -> str:
    """Return a text without its middle if it has many more than `most` characters."""
    cut = f"{text[: most * 2 // 3]} … {text[len(text) - most // 4 :]} ({len(text):,} characters)"
    return cut if max(len(cut), most) < len(text) else text


class LabError(Exception):
    """A mistake the user can mend; the command line prints the message and exits with 2.

    Every deliberate error of the package is a `LabError`. A bare `LabError(...)` is a
    `MistakeError`, like `OSError(...)` of Python becomes the class of its number; a subclass
    chooses for itself.
    """

    def __new__(cls, *args: object) -> Self:
        """Return the error; a bare `LabError` becomes a `MistakeError`."""
        error = super().__new__(MistakeError if cls is LabError else cls, *args)
        assert isinstance(error, cls)
        return error


class MistakeError(LabError, ValueError):
    """A `LabError` about an argument of the caller, therefore also a `ValueError`."""


class RefusedError(LabError):
    """The system refuses an operation; the same command continues after the cause is mended.

    In `maxk-lab run` the exit code is 1.
    """


class LabWarning(UserWarning):
    """A mistake that stops nothing; the command line prints its message in a line."""


@dataclass(frozen=True)
class Problem:
    """One problem of a sweep file: its place and its message.

    The line is 0 without a file.
    """

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{where}: {self.path}: {self.message}"


class SpecError(MistakeError):
    """Every problem of a sweep file, one per line; a long list is cut."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        lines = [str(problem) for problem in problems[:MOST_PROBLEMS]]
        more = len(problems) - len(lines)
        tail = [f"and {count(more, 'more problem')}"] if more else []
        super().__init__("\n".join([*lines, *tail]))

    def __reduce__(self) -> tuple[type[Self], tuple[list[Problem]]]:
        """Return the parts of a copy: the problems, not their text."""
        return type(self), (self.problems,)


def warn(text: str) -> None:
    """Warn about a mistake that stops nothing."""
    warnings.warn(text, LabWarning, stacklevel=3)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; `no message` if it is empty."""
    try:
        return (str(error).strip() or "no message").splitlines()[0]
    except Exception:  # an error of another package may fail to print
        return "no message"


# A frame in a traceback: the place of the file.
_FRAME = re.compile(r'^ +File ".*", line \d+')
# A user error in a traceback, whose message suffices.
_OURS = re.compile(r"^maxk_lab\.[\w.]+: ")


def count(number: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def error_line(traceback: str | None) -> str:
    """Return the line of a traceback with the error's name and message.

    It is the first line below the last frame; further lines may be advice. Without a frame it is
    the first line. For a `LabError` it is the message alone.
    """
    lines = (traceback or "").strip().split("\n")
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    below = lines[frames[-1] + 1 :] if frames else lines
    words = (line for line in below if line.strip() and not line.startswith((" ", "Traceback")))
    return _OURS.sub("", next(words, "").strip()) or lines[-1].strip() or "no error text"
