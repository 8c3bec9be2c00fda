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
        return " or ".join([self._no_word, *self.words])

    @property
    def _no_word(self) -> str:
        return "number"

    def parse(self, value: Any) -> Any:
        if value in self.words:
            return value
        try:
            return self._parse_no_word(value)
        except LabError as error:
            if not self.words:
                raise
            also = f"; or one of {', '.join(self.words)}{did_you_mean(value, self.words)}"
            raise LabError(f"{error}{also}") from None

    def _parse_no_word(self, value: Any) -> Any:
        return finite(self.name, value)


@dataclass(frozen=True)
class Numbers(NumberOrWord):
    """Several finite numbers with blanks or commas between them, as a tuple; or one of `words`."""

    @property
    def _no_word(self) -> str:
        return "numbers"

    def _parse_no_word(self, value: Any) -> Any:
        written = value.replace(",", " ").split() if isinstance(value, str) else value
        if not isinstance(written, list | tuple) or not written:
            raise LabError(f"{self.name} must be numbers, got {value!r}")
        return tuple(finite(self.name, one) for one in written)
