"""The rows of one environment and n of a training study, and what is significant among them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from maxk_lab.report.naming import Setting
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.families import Comparison, Family
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.pairs import difference, difference_p_value, spoken
from maxk_lab.studies.training.row import TrainingKey, TrainingRow, place_setting, plain_place

# Values that differ by less, relative to their size, are the same but for rounding.
_SAME = 1e-9


def has_value(found: Interval | None) -> bool:
    """Whether there is a value, with or without an interval."""
    return found is not None and not math.isnan(found.value)


def shown_ks(rows: Sequence[TrainingRow]) -> list[int]:
    """The K of interest: 1, those that were trained for, and all samples of an evaluation."""
    wanted = {1, *(row.key.k for row in rows), *(len(row.curve) for row in rows)}
    return sorted(wanted & {k for row in rows for k in row.ks})


@dataclass(frozen=True)
class Tested:
    """The differences to the reference in all places of a study, tested together.

    `p_adjusted` has by row and K the p-value after Holm's correction; a difference is significant
    where it is below `alpha`.
    """

    p_adjusted: Mapping[tuple[TrainingKey, int], float]
    alpha: float

    @property
    def comparisons(self) -> int:
        """The number of differences that are corrected together."""
        return len(self.p_adjusted)

    def sign(self, row: TrainingRow, k: int) -> int:
        """1 for significantly better, -1 for significantly worse, 0 for neither."""
        if self.p_adjusted.get((row.key, k), 1.0) >= self.alpha:
            return 0
        return 1 if row.differences[k].value > 0 else -1

    def at(self, row: TrainingRow, sign: int) -> list[int]:
        """The K at which the difference is significant and of this sign."""
        return [k for key, k in self.p_adjusted if key == row.key and self.sign(row, k) == sign]


def tested(rows: Sequence[TrainingRow], alpha: float) -> Tested:
    """Test the differences of these rows, corrected together (Holm 1979).

    They are those of all environments of a study, at the K that it asks about: 1, those that it
    trains for, and all samples. An answer about all of these is then as sure as one of them, and
    the points between, which only draw a curve, take no power from it.
    """
    asked = set(shown_ks(rows))
    p_values = {
        (row.key, k): p_value
        for row in rows
        for k, p_value in row.p_values.items()
        if k in asked and not math.isnan(p_value)
    }
    family = Family("reference", len(p_values), alpha, "holm")
    adjusted = family.adjusted(p_values)
    return Tested({key: adjusted[key] for key in p_values}, alpha)


def beaten(rows: Sequence[TrainingRow], k: int, alpha: float, ks: int = 1) -> list[TrainingRow]:
    """The rows that some other is significantly better than at k; the best of all is none of them.

    For the truly best row to be beaten by chance, one of its R − 1 rivals must seem better than it
    is: so each comparison is one-sided at alpha / (R − 1), shared among as many `ks`, whatever row
    seems best (Gupta 1965, "On some multiple decision (selection and ranking) rules").
    """
    share = alpha / max(1, len(rows) - 1) / ks
    return [
        row
        for row in rows
        if any(_one_sided(other, row, k) < share for other in rows if other is not row)
    ]


def _one_sided(row: TrainingRow, other: TrainingRow, k: int) -> float:
    """The one-sided p-value of `row` being above `other`."""
    p_value = difference_p_value(row, other, k)
    if math.isnan(p_value):
        return 1.0
    mine, theirs = (each.curve[k - 1].value for each in (row, other))
    return p_value / 2 if mine > theirs else 1 - p_value / 2


@dataclass(frozen=True)
class Place:
    """The rows of one environment and n, which are compared with each other.

    `where` is its name in words; `tested` has what is significant in the whole study, of which this
    is one of so many `places`.
    """

    rows: tuple[TrainingRow, ...]
    where: str
    tested: Tested
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
        return tuple(row for row in found if has_value(row.final(top)))

    @cached_property
    def ks(self) -> list[int]:
        """The K of interest: 1, those trained for, and all samples."""
        return shown_ks(self.known)

    @property
    def top(self) -> int:
        """All samples of an evaluation: the largest K."""
        return self.ks[-1]

    @property
    def objective(self) -> str:
        """`Max`; `pass`, as the field says, where every reward is 0 or 1."""
        return "pass" if self.known and all(row.passes for row in self.known) else "Max"

    @cached_property
    def reference(self) -> TrainingRow | None:
        """The row that most rows are compared with; None where none is compared."""
        counts = Counter(row.compared_with for row in self.rows if row.compared_with)
        if not counts:
            return None
        return self.at(counts.most_common(1)[0][0])

    def at(self, path: str) -> TrainingRow:
        """The row of this path."""
        return next(row for row in self.rows if row.key.path == path)

    @cached_property
    def compared(self) -> tuple[TrainingRow, ...]:
        """The rows with a difference at the largest K."""
        return tuple(row for row in self.known if has_value(row.differences.get(self.top)))

    def best(self, k: int) -> list[TrainingRow]:
        """The row that is highest at k, and those that are as high to the last digit.

        The one that the others are compared with is the first of these.
        """
        known = [(row, end.value) for row in self.known if (end := row.final(k)) and has_value(end)]
        if not known:
            return []
        most = max(value for _, value in known)
        alike = [row for row, value in known if most - value <= _SAME * abs(most)]
        return sorted(alike, key=lambda row: row is not self.reference)

    def all_equal(self, k: int) -> bool:
        """Whether several methods have a value at k, all the same."""
        return len(self.best(k)) == len(self.known) > 1

    def may_be_best(self, k: int, lists: int = 1) -> list[TrainingRow]:
        """The rows that no row is significantly better than at k.

        All places of a study, and so many `lists` of each, share its level.
        """
        known = [row for row in self.known if has_value(row.final(k))]
        worse = beaten(known, k, self.tested.alpha / self.places, lists)
        return [row for row in known if row not in worse]

    def significant(self, sign: int, k: int) -> list[TrainingRow]:
        """The rows significantly better (1) or worse (-1) than their reference, best first."""
        found = [row for row in self.compared if self.tested.sign(row, k) == sign]
        return sorted(found, key=lambda row: -row.differences[k].value)

    def at_own_temperature(self, tested: Tested) -> Place:
        """The same place with every policy at its own best temperature, and its tests."""
        rows = tuple(row.tempered for row in self.rows if row.tempered is not None)
        return replace(self, rows=rows, tested=tested)


def places_of(rows: Sequence[TrainingRow], level: float) -> list[Place]:
    """The places of a study, by environment and n."""
    found = grouped(rows, lambda row: (*environment_of(row), row.key.n))
    together = tested(rows, 1 - level)
    several = len({n for *_, n in found}) > 1
    return [
        Place(
            tuple(members),
            plain_place(members[0].environment_words, setting) + (f", n = {n}" if several else ""),
            together,
            len(found),
        )
        for (_, setting, n), members in found.items()
    ]


def environment_of(row: TrainingRow) -> tuple[str, Setting]:
    """The environment of a row, with what is varied of it and of the policy."""
    return row.key.environment, place_setting(row.key.setting)


def comparisons(rows: Sequence[TrainingRow], level: float) -> Iterator[Comparison]:
    """The lines of `comparisons`: against the reference, and against the best of each place.

    Each at the K of interest, and of policies sampled as they were trained.
    """
    for place in places_of(rows, level):
        yield from _against_reference(place)
        yield from _against_best(place, level)


def _against_reference(place: Place) -> Iterator[Comparison]:
    for row in place.compared:
        for k in place.ks:
            sign, found = place.tested.sign(row, k), row.differences[k]
            verdict = {1: "better", -1: "worse"}.get(sign, "tied" if found.known else "open")
            yield Comparison(
                "reference",
                row.key.path,
                row.compared_with,
                f"max@{k}",
                found,
                verdict,
                p_adjusted=place.tested.p_adjusted.get((row.key, k), math.nan),
                reason=found.reason,
                comparisons=place.tested.comparisons,
                alpha=place.tested.alpha,
            )


def _against_best(place: Place, level: float) -> Iterator[Comparison]:
    for k in place.ks:
        best = place.best(k)
        if not best:
            continue
        first = best[0]
        tied = place.may_be_best(k, len(place.ks))
        for row in place.known:
            if row is first or not has_value(row.final(k)):
                continue
            found = difference(row, first, k, level)
            yield Comparison(
                "best",
                row.key.path,
                first.key.path,
                f"max@{k}",
                found,
                "worse" if row not in tied else "tied" if found.known else "open",
                reason=found.reason,
                comparisons=max(1, len(place.known) - 1) * len(place.ks) * place.places,
                alpha=place.tested.alpha,
            )
