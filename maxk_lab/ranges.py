"""The range of values, which no interval of their mean leaves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """Values from `low` to `high`, inclusive; an unknown end is infinite."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def bounded(self) -> bool:
        """Whether both ends are known."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def holds(self, values: Iterable[float]) -> bool:
        """Return whether all values are in the range."""
        return all(self.low <= value <= self.high for value in values)

    @property
    def differences(self) -> Range:
        """The range of the difference of two values."""
        return Range(self.low - self.high, self.high - self.low) if self.bounded else ANYWHERE

    def share(self, value: float) -> float:
        """Return the position of a value between the ends, in [0, 1]."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def clamped(self, value: float) -> float:
        """Return the nearest value in the range; NaN stays."""
        return value if math.isnan(value) else min(self.high, max(self.low, value))


ANYWHERE = Range()
NOT_NEGATIVE = Range(low=0.0)
NOT_POSITIVE = Range(high=0.0)
SHARES = Range(0.0, 1.0)
