"""Numbers and words as the filled-in pages tell them, and what a page may not rest on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

_TO_SIX = ("no", "one", "two", "three", "four", "five", "six")
WORDS = (*_TO_SIX, "seven", "eight", "nine", "ten", "eleven", "twelve")


class WrongReferenceError(Exception):
    """A template asks for what the records do not have, or says what they no longer show."""


def given(holds: Any, sentence: str) -> None:
    """Raise where what a sentence of a page rests on no longer holds."""
    if not holds:
        raise WrongReferenceError(f"the records no longer show that {sentence}")


def number(value: float) -> str:
    """Return a number to three significant digits, with commas and a true minus sign."""
    given(not math.isnan(value), "a number is known")
    size = abs(value)
    if size == 0 or math.isinf(size):
        text = "∞" if size else "0"
    elif size >= 999.5:
        text = f"{float(f'{size:.3g}'):,.0f}"
    else:
        text = f"{size:#.3g}" if size >= 1e-3 else f"{size:.2g}"
    return f"−{text}" if value < 0 else text.rstrip(".")


def word(count: int) -> str:
    """Return a whole number as a word, up to twelve."""
    return WORDS[count] if 0 <= count < len(WORDS) else str(count)


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it, as `5 minutes`."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.0f} seconds"


def span(values: Iterable[float], digits: str = "") -> str:
    """Return the least and the greatest of some numbers, as `0.70 to 0.89`."""
    found = sorted(values)
    told = list(dict.fromkeys(format(x, digits) if digits else number(x) for x in found))
    return told[0] if len(told) == 1 else f"{told[0]} to {told[-1]}"


def between(text: str, first: str, last: str) -> list[str]:
    """Return the lines of a text from the one that begins so up to the next that begins so.

    Without that one, and without blank lines at the end.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    starts = [at for at, line in enumerate(lines) if line.startswith(first)]
    given(len(starts) == 1, f"one line begins with {first!r} ({len(starts)} do)")
    ends = [at for at, line in enumerate(lines) if at > starts[0] and line.startswith(last)]
    given(ends, f"a line after it begins with {last!r}")
    return "\n".join(lines[starts[0] : ends[0]]).rstrip().splitlines()
