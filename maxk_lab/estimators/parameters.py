"""Parameters of this room's rows beyond one number or one word.

They have open bounds, take a number or a word, or several numbers.

Imports no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Parameter, did_you_mean
from maxk_lab.errors import LabError


def spell(value: Any) -> str:
    """The one spelling of a parsed value: `0.5`, `cross_fit`, or `0.25 0.75` for several."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def finite(name: str, written: Any) -> float:
    """`written` as a finite number. Raises `LabError`.

    -0 becomes 0, or it would have a second spelling.
    """
    value = Parameter(name, float, 0.0).parse(written)
    return 0.0 if value == 0 else float(value)


@dataclass(frozen=True)
class Between(Parameter):
    """A number between `above` and `below`, neither reached, beside the bounds that may be."""

    above: float = -math.inf
    below: float = math.inf

    def parse(self, value: Any) -> Any:
        parsed = super().parse(value)
        if not parsed > self.above:
            raise LabError(f"{self.name} must be greater than {self.above}, got {value!r}")
        if not parsed < self.below:
            raise LabError(f"{self.name} must be less than {self.below}, got {value!r}")
        return parsed


@dataclass(frozen=True)
class NumberOrWord(Parameter):
    """A finite number, or one of `words`."""

    words: tuple[str, ...] = ()

    @property
    def type_name(self) -> str:
        """The type as a sweep's writer knows it."""
        return f"number or {' or '.join(self.words)}"

    def parse(self, value: Any) -> Any:
        if value in self.words:
            return value
        try:
            return finite(self.name, value)
        except LabError as error:
            raise LabError(f"{error}{_or_words(value, self.words)}") from None


@dataclass(frozen=True)
class Numbers(Parameter):
    """Several finite numbers with blanks or commas between them, as a tuple; or one of `words`."""

    words: tuple[str, ...] = ()

    @property
    def type_name(self) -> str:
        """The type as a sweep's writer knows it."""
        return " or ".join(["numbers", *self.words])

    def parse(self, value: Any) -> Any:
        if value in self.words:
            return value
        written = value.replace(",", " ").split() if isinstance(value, str) else value
        if not isinstance(written, list | tuple) or not written:
            raise LabError(
                f"{self.name} must be numbers, got {value!r}{_or_words(value, self.words)}"
            )
        try:
            return tuple(finite(self.name, one) for one in written)
        except LabError as error:
            raise LabError(f"{error}{_or_words(value, self.words)}") from None


def _or_words(value: Any, words: tuple[str, ...]) -> str:
    """The rest of a message: what else is allowed, and the word that is meant.

    Empty without words.
    """
    if not words:
        return ""
    also = did_you_mean(value, words)
    return f"; or one of {', '.join(words)}{also}"
