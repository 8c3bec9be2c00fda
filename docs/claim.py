"""What a report says of a claim: its verdict, and the numbers that its detail shows first."""

from __future__ import annotations

import re
from typing import Any

from words import WrongReferenceError, number

# Of the first number with an interval that a verdict shows.
MEASURED = re.compile(r": (-?[0-9.e+-]+ \[[^\]]+\])")
COUNTED = re.compile(r"(\d+ of \d+ [\w ]+)(?=, e\.g\.)")
LEVEL = re.compile(r"\(([0-9.]+ %) intervals")


class Claim:
    """The verdict on a claim, and the first number that it shows."""

    def __init__(self, run: str, verdict: Any) -> None:
        self.verdict: str = verdict.verdict
        self.detail: str = verdict.detail
        self._named = f"{run}, claim {verdict.name}"

    @property
    def measured(self) -> str:
        """The first number with its interval, as `12.3 [11.0, 13.9]`."""
        shown = self._found(MEASURED, "no interval")
        return re.sub(r"-?[0-9][0-9.e+-]*", lambda one: number(float(one[0])), shown)

    @property
    def counted(self) -> str:
        """How many of how many bear the verdict out, as `40 of 40 ratios`."""
        return self._found(COUNTED, "nothing is counted")

    @property
    def level(self) -> str:
        """The level of its intervals, as `97.5 %`."""
        return self._found(LEVEL, "no level")

    def _found(self, what: re.Pattern[str], lack: str) -> str:
        found = what.search(self.detail)
        if found is None:
            raise WrongReferenceError(f"{self._named}: {lack} in {self.detail!r}")
        return found[1]
