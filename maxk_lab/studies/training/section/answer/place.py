"""One environment and n of a training study: its rows, what is told of them, and their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from maxk_lab.report.naming import Setting
from maxk_lab.report.tables import grouped
from maxk_lab.studies.training.columns import at, heading, shown_ks
from maxk_lab.studies.training.row.model import TrainingKey, TrainingRow
from maxk_lab.studies.training.row.names import spoken
from maxk_lab.studies.training.row.settings import place_setting, plain_place
from maxk_lab.studies.training.section.corrected import Told, beside, told_apart
from maxk_lab.studies.training.told import has_value, text

# Values that differ by less, relative to their size, are the same but for rounding.
_SAME = 1e-9


@dataclass(frozen=True)
class Place:
    """The rows of one environment and n, which are compared with each other.

    `where` is its name in words, and `told` has what is told apart in the whole study, of which
    this is one of so many `places`.
    """

    rows: tuple[TrainingRow, ...]
    where: str
    told: Told
    places: int = 1

    @cached_property
    def names(self) -> Mapping[TrainingKey, str]:
        """The names of its rows in sentences."""
        return spoken(self.rows)

    @cached_property
    def known(self) -> tuple[TrainingRow, ...]:
        """The rows with a value at the largest K; no K without any row of them has one."""
        found = [row for row in self.rows if row.curve]
        top = max((len(row.curve) for row in found), default=0)
        return tuple(row for row in found if (end := row.final(top)) and has_value(end))

    @cached_property
    def ks(self) -> list[int]:
        """The K that sentences speak of: 1, those trained for, and all samples."""
        return shown_ks(self.known)

    @property
    def top(self) -> int:
        """All samples of an evaluation: the largest K."""
        return self.ks[-1]

    @cached_property
    def reference(self) -> TrainingRow | None:
        """The row that most rows are compared with; None where none is compared."""
        counts = Counter(row.compared_with for row in self.rows if row.compared_with)
        if not counts:
            return None
        path = counts.most_common(1)[0][0]
        return next(row for row in self.rows if row.key.path == path)

    @cached_property
    def compared(self) -> tuple[TrainingRow, ...]:
        """The rows with a difference at the largest K."""
        differences = ((row, row.differences.get(self.top)) for row in self.known)
        return tuple(row for row, found in differences if found is not None and has_value(found))

    def at(self, k: int | str) -> str:
        """`Max@8`, or `pass@8`."""
        return at(k, self.known)

    def heading(self, k: int) -> str:
        """`Max@8`, and `mean (Max@1)`."""
        return heading(k, self.known)

    def best(self, k: int) -> list[TrainingRow]:
        """The row that is highest at k, and those that are as high to the last digit.

        The one that the others are compared with is the first of these.
        """
        known = [(row, found.value) for row in self.known if (found := row.final(k))]
        known = [(row, value) for row, value in known if value == value]
        if not known:
            return []
        most = max(value for _, value in known)
        alike = [row for row, value in known if most - value <= _SAME * abs(most)]
        return sorted(alike, key=lambda row: row is not self.reference)

    def may_be_best(self, k: int) -> list[TrainingRow]:
        """The other rows that no row is told to be better than at k.

        An answer has one such list for each of its places, at one K, and these share its level.
        """
        best = self.best(k)[0]
        known = [row for row in self.known if (end := row.final(k)) and has_value(end)]
        return beside(best, known, k, self.told.alpha / self.places)

    def told_to_be(self, sign: int, k: int) -> list[TrainingRow]:
        """The rows told to be better (1) or worse (-1) than their reference, best first."""
        found = [row for row in self.compared if self.told.sign(row, k) == sign]
        return sorted(found, key=lambda row: -row.differences[k].value)

    def gain(self, row: TrainingRow, k: int) -> str:
        """The difference at k with its interval, and the other row where it is not the usual."""
        reference = self.reference
        own = reference is not None and row.compared_with != reference.key.path
        other = next((each for each in self.rows if each.key.path == row.compared_with), None)
        said = f", over {self.names[other.key]}" if own and other is not None else ""
        return text(row.differences[k]) + said

    def at_own_temperature(self, told: Told) -> Place:
        """The same place with every policy at its own best temperature, and what is told there."""
        rows = tuple(row.tempered for row in self.rows if row.tempered is not None)
        return replace(self, rows=rows, told=told)


def environment_of(row: TrainingRow) -> tuple[str, Setting]:
    """The environment of a row, with what is varied of it and of the policy."""
    return row.key.environment, place_setting(row.key.setting)


def places_of(rows: Sequence[TrainingRow], level: float) -> list[Place]:
    """The places of a study, by environment and n."""
    found = grouped(rows, lambda row: (*environment_of(row), row.key.n))
    told = told_apart(rows, 1 - level)
    several = len({n for *_, n in found}) > 1
    return [
        Place(
            tuple(members),
            plain_place(members[0].environment_words, setting) + (f", n = {n}" if several else ""),
            told,
            len(found),
        )
        for (_, setting, n), members in found.items()
    ]
