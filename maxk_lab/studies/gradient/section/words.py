"""The words of an answer: places, sizes, methods and numbers as a reader says them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from maxk_lab.report.document import compact
from maxk_lab.report.naming import short_names, spelled
from maxk_lab.statistics.errors import THESE
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.gradient.row.model import GradientKey, GradientRow, Why

_ENVIRONMENT = "environment.name"
# Why two baselines are not told apart.
WHY: dict[Why, str] = {
    "same": "the same on every instance",
    "both signs": "the paired interval of the means, corrected, holds both signs",
    "few instances": "too few instances carry the mean to speak of others",
    "median": "mean and median over instances do not agree",
    "one instance": "an instance of a kind that was not drawn could undo it",
    "unpaired": "one was enumerated and the other sampled, so that they make no pairs",
    "no interval": "their ratio has no interval",
}


def baseline(name: str) -> str:
    """The baseline as a list of a sentence calls it."""
    return "none (no baseline)" if name == "none" else name


def method(row: GradientRow, *, estimator: bool) -> str:
    """The baseline, with its estimator where that is not the same for all."""
    if not row.key.method.takes_baseline:
        return row.key.estimator
    if not estimator:
        return baseline(row.key.baseline)
    name = "no baseline" if row.key.baseline == "none" else row.key.baseline
    return f"{row.key.estimator} with {name}"


def joined(names: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def some(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return joined([*names[:most], f"{more} more"] if more > 0 else list(names))


def times(found: Interval) -> str:
    """`1.10 [1.08, 1.11] times`; with the instances where the interval speaks of these alone."""
    return f"{compact(found)} times{here(found)}"


def here(found: Interval) -> str:
    """The addition to an interval that speaks of the measured instances, for want of others."""
    return " (on these instances)" if found.known and found.question == THESE else ""


def bounded(found: Interval) -> bool:
    """Whether the interval of a ratio says anything: it has a lower end, or an upper one."""
    return found.known and (found.low > 0 or math.isfinite(found.high))


def stage(number: int) -> str:
    """`before training`, or `after 200 steps`."""
    return f"after {number} steps" if number else "before training"


def counted(count: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a varied value is a number, along which something can rise."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class Words:
    """How the rows of a chapter are told from each other: by what differs between them."""

    def __init__(self, rows: Iterable[GradientRow]) -> None:
        """Look at what differs between all `rows`."""
        keys = [row.key for row in rows]
        self.estimators = len({key.estimator for key in keys}) > 1
        # Of one that takes baselines, these tell the methods apart.
        choosing = {key.estimator for key in keys if key.method.takes_baseline}
        self.named = len(choosing) > 1
        self._stages = len({key.stage for key in keys}) > 1
        self._environments = len({key.environment for key in keys}) > 1
        # That the environment is another is told by its plain name.
        names = list(dict.fromkeys(name for key in keys for name, _ in key.setting))
        self._short = _short(names)
        self._values = {
            name: {spelled(dict(key.setting).get(name)) for key in keys} for name in names
        }

    def setting(self, key: GradientKey) -> str:
        """`arms = 8, checkpoint = pomo-100.pt`: what the sweep varies, of a file its own name."""
        return ", ".join(
            f"{self._short[name]} = {self._value(name, value)}"
            for name, value in key.setting
            if not (name == _ENVIRONMENT and self._environments)
        )

    def place(self, row: GradientRow) -> str:
        """`after 200 steps`: environment, stage and setting, where there are several; or empty."""
        return ", ".join(filter(None, (self.policy(row), self.setting(row.key))))

    def policy(self, row: GradientRow) -> str:
        """The environment and the stage, where there are several."""
        where = f"on {row.key.plain or row.key.environment}" if self._environments else ""
        return " ".join(filter(None, (where, stage(row.key.stage) if self._stages else "")))

    def point(self, row: GradientRow) -> str:
        """`at n = 16 and K = 4 after 200 steps`, with all else that tells it from others."""
        size = f"at n = {row.key.n} and K = {row.key.k}"
        setting = self.setting(row.key)
        return " ".join(filter(None, (size, setting and f"({setting})", self.policy(row))))

    def _value(self, name: str, value: Any) -> str:
        last = {text.rpartition("/")[2] for text in self._values[name]}
        told = spelled(value)
        return told.rpartition("/")[2] if len(last) == len(self._values[name]) else told


def _short(names: list[str]) -> dict[str, str]:
    """The last word of each key of the sweep file; of the environment's name what it names."""
    return short_names(names) | ({_ENVIRONMENT: "environment"} if _ENVIRONMENT in names else {})


def axes(rows: Iterable[GradientRow]) -> str:
    """The words for that in which these rows differ: `combinations of n and K`."""
    names = varied(rows)
    if names == ["stage"]:
        return "stages"
    if len(names) > 1:
        return f"combinations of {joined(names)}"
    return f"values of {names[0]}" if names else "cases"


def varied(rows: Iterable[GradientRow]) -> list[str]:
    """The names of what differs between these rows, but for the baseline."""
    keys = [row.key for row in rows]
    names = ["estimator"] if len({key.estimator for key in keys}) > 1 else []
    short = _short(list(dict.fromkeys(name for key in keys for name, _ in key.setting)))
    for full, name in short.items():
        if len({dict(key.setting).get(full) for key in keys}) > 1:
            names.append(name)
    names += ["n"] if len({key.n for key in keys}) > 1 else []
    names += ["K"] if len({key.k for key in keys}) > 1 else []
    names += ["stage"] if len({key.stage for key in keys}) > 1 else []
    return names
