"""The user's mistakes: one clear line each, no traceback; everything else keeps its traceback."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Self

# The letters of a value that a message quotes.
LONGEST = 120
# The most problems of a sweep file in one message.
MOST_PROBLEMS = 20


def shown(value: object) -> str:
    """Return how a message quotes a value that was given: on one line, and never a long one."""
    try:
        return shortened(repr(value), LONGEST)
    except ValueError:  # Python writes no whole number of some thousand digits
        return "a whole number of very many digits"
    except Exception:  # of a class of the user's own
        return f"an object of {type(value).__name__} that cannot be shown"


def shortened(text: str, most: int) -> str:
    """Return a text without the middle of it where it has more than `most` letters."""
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} … {text[len(text) - most // 4 :]} ({len(text):,} letters)"


class LabError(Exception):
    """A mistake the user can mend; the command line prints the message and exits with 2.

    All that the package raises on purpose is one. A bare `LabError(...)` is a `MistakeError`, as a
    bare `OSError(...)` of Python becomes that of its number; a subclass says for itself whether it
    is one.
    """

    def __new__(cls, *args: object) -> Self:
        """Return the error, of the class that tells whose mistake it is."""
        error = super().__new__(MistakeError if cls is LabError else cls, *args)
        assert isinstance(error, cls)
        return error


class MistakeError(LabError, ValueError):
    """A `LabError` about what the caller has given, and so a `ValueError`, too."""


class RefusedError(LabError):
    """The system refuses what a run needs; the same command goes on once that is mended."""


class LabWarning(UserWarning):
    """A mistake that nothing stops for; the command line prints its message in a line."""


@dataclass(frozen=True)
class Problem:
    """One problem of a sweep file: where it stands and what is wrong with it.

    The line is 0 where there is no file.
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
    """Every problem of a sweep file at once, one line per problem; of very many the first."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        lines = [str(problem) for problem in problems[:MOST_PROBLEMS]]
        more = len(problems) - len(lines)
        super().__init__("\n".join([*lines, *([f"and {more} more problems"] if more else [])]))


def warn(text: str) -> None:
    """Warn of a mistake that nothing stops for."""
    warnings.warn(text, LabWarning, stacklevel=3)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; `no message` where there is none."""
    try:
        return (str(error).strip() or "no message").splitlines()[0]
    except Exception:  # an error of another package may fail to say what it is
        return "no message"


# Where a traceback says in which file it is.
_FRAME = re.compile(r'^ +File ".*", line \d+')
# The kind of an error that is for the user, whose text says all.
_OURS = re.compile(r"^maxk_lab\.errors\.\w+: ")


def count(number: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def error_line(traceback: str | None) -> str:
    """Return the line of a traceback that names the error and says what is wrong.

    It is the first line below the last frame: a message may go on with lines of advice. Without a
    frame it is the first line. Of a `LabError` it is the message alone.
    """
    lines = (traceback or "").strip().split("\n")
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    below = lines[frames[-1] + 1 :] if frames else lines
    words = (line for line in below if line.strip() and not line.startswith((" ", "Traceback")))
    return _OURS.sub("", next(words, "").strip()) or lines[-1].strip() or "no error text"
