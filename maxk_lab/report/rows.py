"""The part that the rows of every kind of study share: their cells and their seeds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import Better

# Sums of the same numbers in another order, as on another processor, differ by less than this share
# of their largest terms.
ROUNDING = 1e-12

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class PooledRow:
    """One row of a report. Its `key` has a `path`, the name of the row.

    `cells` maps each planned seed to its cell id, `finished` lists the seeds that have a result.
    """

    key: Any
    cells: Mapping[int, str]
    finished: tuple[int, ...]

    @property
    def all_finished(self) -> bool:
        """Every planned seed has a result."""
        return len(self.finished) == len(self.cells)

    @property
    def unfinished(self) -> str:
        """The words for how many of the seeds finished; empty where all did."""
        if self.all_finished:
            return ""
        return f"incomplete: {len(self.finished)} of {len(self.cells)} seeds finished"


@dataclass(frozen=True)
class Measured:
    """A number of a row: its interval, its unit, and the side on which it is better.

    `of_pair` says that it compares the row with another of its run already, `as_ratio` that two of
    them are compared by their ratio rather than by their difference. Numbers that differ by up to
    `rounding` may be the same but for rounding, which matters where they are next to 0.
    """

    interval: Interval
    unit: str = ""
    better: Better = ""
    of_pair: bool = False
    as_ratio: bool = False
    rounding: float = 0.0


@dataclass(frozen=True)
class Effect:
    """How far a number of one run is from that of another: their difference, or their `ratio`.

    `paired` names the values that were compared one by one, such as "seed and instance"; empty
    where both intervals were set against each other.
    """

    interval: Interval
    ratio: bool = False
    paired: str = ""


RowType = TypeVar("RowType", bound=PooledRow, covariant=True)


@dataclass(frozen=True)
class Rows(Generic[RowType]):
    """The rows of one kind of study in the order of the report; a kind may add what else it has."""

    rows: tuple[RowType, ...] = ()


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items with the same key together, in the order in which the keys come first."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
