"""The baselines of one estimator at one size against each other: who is least, who may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from maxk_lab.report.tables import grouped
from maxk_lab.studies.gradient.row.best import candidates, least_of, tied
from maxk_lab.studies.gradient.row.model import GradientRow, Rival
from maxk_lab.studies.gradient.row.order import is_oracle


@dataclass(frozen=True)
class Contest:
    """The unbiased baselines of one estimator at one size, setting and stage; oracles have none."""

    rows: tuple[GradientRow, ...]

    @cached_property
    def least(self) -> GradientRow | None:
        """The row of least variance; None where a row is missing or nothing is to be compared."""
        found = least_of(self.rows)
        return None if found is None else found[0]

    @property
    def first(self) -> GradientRow:
        """Any row: all have the same point."""
        return self.rows[0]

    @property
    def competing(self) -> list[str]:
        """The baselines that were not found biased."""
        return [row.key.baseline for row in candidates(self.rows)]

    @property
    def unfinished(self) -> bool:
        """A row that could be the least lacks results."""
        return not all(row.all_finished for row in candidates(self.rows))

    @property
    def against(self) -> list[Rival]:
        """The rivals of the least, but for those that are the same as it on every instance."""
        assert self.least is not None
        return [rival for rival in self.least.rivals if rival.why != "same"]

    @property
    def top(self) -> tuple[str, ...]:
        """The least, and those that are the same as it on every instance, in their usual order."""
        assert self.least is not None
        same = {rival.baseline for rival in self.least.rivals if rival.why == "same"}
        return tuple(name for name in self.competing if name in {self.least.key.baseline, *same})

    @property
    def one(self) -> bool:
        """All are the same on every instance, so that there is nothing to choose."""
        return len(self.top) == len(self.competing)

    @property
    def tied(self) -> list[GradientRow]:
        """The least, and the rows that tie with it, by any number of tests."""
        return tied(self.rows)

    @property
    def clear(self) -> bool:
        """The `top` is told apart from all others."""
        return not self.against and not self.one

    @property
    def here(self) -> bool:
        """It is so on the instances that were measured, and nothing can be said of others."""
        return bool(self.against) and all(rival.here for rival in self.against)

    @property
    def possible(self) -> set[str]:
        """The baselines of which one has the least, as surely as all comparisons hold.

        Those that are told apart on the measured instances alone are not among them.
        """
        return {*self.top, *(rival.baseline for rival in self.against if not rival.here)}

    def of(self, baseline: str) -> GradientRow | None:
        """The row of a baseline that competes."""
        return next((row for row in candidates(self.rows) if row.key.baseline == baseline), None)


def contests(rows: Sequence[GradientRow]) -> list[Contest]:
    """The contests of two baselines and more, in the order of the rows."""
    fair = [row for row in rows if row.catalogued_unbiased and not is_oracle(row)]
    groups = grouped(fair, lambda row: row.key.group)
    return [Contest(tuple(group)) for group in groups.values() if len(group) > 1]
