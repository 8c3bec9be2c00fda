"""Comparisons of trained rows, places, and verdicts on claims.

Two families of comparisons have lines in `comparisons`. `reference` has the differences of all rows
of a study to their references (Holm). `best` has the best of each place against its rivals
(Bonferroni). A place has the rows of one environment and policy; its rows differ in estimator,
baseline, K, n and the settings of the training.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from maxk_lab.reports.claims import ClaimVerdict, combined, shown, side
from maxk_lab.reports.naming import setting_words
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.statistics.families import Comparison
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.differences import (
    Lines,
    caveat,
    difference,
    difference_p_value,
    has_value,
    paired_by,
    place_of,
    reference_lines,
    reference_of,
    same_method,
    shown_ks,
    sign,
    with_differences_to,
)
from maxk_lab.studies.training.pool import estimates as estimates
from maxk_lab.studies.training.pool import key as key
from maxk_lab.studies.training.pool import pool as pool
from maxk_lab.studies.training.row import FORCED, OWN_TEMPERATURE, SAMPLED, Decoding, TrainingRow
from maxk_lab.sweep_file.claims import Claim

# Values that differ by less than this share are equal up to rounding.
_EQUAL = 1e-9
# The name of the family of comparisons with the best of a place.
BEST = "best"


def judged(pooled: Pooled[TrainingRow], *, level: float, alpha: float) -> Pooled[TrainingRow]:
    """Return the rows with the differences to their references, each interval at `level`."""
    rows = []
    for row in pooled.rows:
        reference = reference_of(row, pooled.rows)
        rows.append(row if reference is row else with_differences_to(row, reference, level))
    return replace(pooled, rows=tuple(rows))


def judge(
    claim: Claim, matching: Sequence[tuple[TrainingRow, TrainingRow]], alpha: float
) -> ClaimVerdict:
    """Judge each paired difference by its interval over seeds, which must exclude the bound.

    Both policies have the decoding of the claim. Several differences share the level (Bonferroni).
    With one seed the claim is undecided: the interval is over instances and not about other runs.
    """
    level = 1 - alpha / len(matching)
    decoding = {"best": OWN_TEMPERATURE, "forced": FORCED}.get(
        claim.decoding or "", claim.decoder
    ) or SAMPLED
    verdicts = [_verdict(claim, *pair, decoding, level, len(matching)) for pair in matching]
    return combined(verdicts, "differences", alpha)


def _verdict(
    claim: Claim, row: TrainingRow, rival: TrainingRow, decoding: str, level: float, pairs: int
) -> ClaimVerdict:
    names = f"{row.key.path} minus {rival.key.path}"
    ends = [each.decoded.get(decoding, Decoding()) for each in (row, rival)]
    if decoding != SAMPLED and not all(end.ks for end in ends):
        old = " (records from before that have no curve: --force)" if decoding == FORCED else ""
        undefined = [end.curve[0].reason for end in ends if end.curve and not end.ks]
        reasons = filter(None, (row.reason, rival.reason, *undefined))
        why = next(reasons, f"not every policy was decoded so{old}")
        return ClaimVerdict("undecided", f"{names}: {why}")
    interval = difference(row, rival, claim.final_k, level, decoding)
    text = f"{names}: {shown(interval)}"
    if row.one_seed:
        text += ", of one seed: another seed may end differently"
        return ClaimVerdict("undecided", text, interval)
    stated = f", at {100 * level:.4g} %" if pairs == 1 else ""
    words = f"{text} over {len(row.cells)} seeds{stated}"
    if apart := sorted({seed for end in ends for seed in end.apart}):
        words += f"; seed {', '.join(map(str, apart))} ended apart from the others"
    verdict = side(interval, claim.at_least, claim.at_most, strict=True)
    return ClaimVerdict(verdict, words, interval)


def beaten(rows: Sequence[TrainingRow], k: int, alpha: float, ks: int = 1) -> list[TrainingRow]:
    """Return the rows with a significantly better rival at k; the best row has no such rival.

    The truly best row is beaten by chance if one of its R − 1 rivals seems better. So each
    comparison is one-sided at alpha / (R − 1), shared among the `ks`, for any row that seems best
    (Gupta 1965, "On some multiple decision (selection and ranking) rules").
    """
    share = alpha / max(1, len(rows) - 1) / ks
    return [
        row
        for row in rows
        if any(_one_sided(rival, row, k) < share for rival in rows if rival is not row)
    ]


def _one_sided(row: TrainingRow, rival: TrainingRow, k: int) -> float:
    """Return the one-sided p-value of `row` being above `rival`."""
    two_sided = difference_p_value(row, rival, k)
    if math.isnan(two_sided):
        return 1.0
    above = row.curve[k - 1].value > rival.curve[k - 1].value
    return two_sided / 2 if above else 1 - two_sided / 2


@dataclass(frozen=True)
class Place:
    """The rows of one environment and policy, which are compared with each other.

    `where` is its name in words. `lines` are the comparisons with references in the whole study.
    The study has this number of `places`, each tested at `alpha`.
    """

    rows: tuple[TrainingRow, ...]
    where: str
    lines: Lines
    alpha: float
    places: int = 1

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The names of its rows in sentences, by their paths."""
        return {row.key.path: self.name(row) for row in self.rows}

    def name(self, row: TrainingRow, without: Collection[str] = ()) -> str:
        """Return the name of a row; `without` has settings that are columns of its table, or n."""
        for_k = len({row.key.k for row in self.rows}) > 1 and not row.is_pomo
        several = len({row.key.n for row in self.rows}) > 1 and "n" not in without
        size = f" at n = {row.key.n}" if several else ""
        return row.words(without) + (f" for K = {row.key.k}" if for_k else "") + size

    def named(self, rows: Iterable[TrainingRow]) -> list[str]:
        """Return the names of these rows in sentences."""
        return [self.names[row.key.path] for row in rows]

    @cached_property
    def measured(self) -> tuple[TrainingRow, ...]:
        """The rows with a value at all samples, the largest K of any row."""
        top = max((len(row.curve) for row in self.rows), default=0)
        return tuple(row for row in self.rows if has_value(row.final(top)))

    @cached_property
    def ks(self) -> list[int]:
        """The K of interest: 1, the K that rows train for, and all samples."""
        return shown_ks(self.measured)

    @property
    def top(self) -> int:
        """All samples of an evaluation: the largest K."""
        return self.ks[-1]

    @property
    def objective(self) -> str:
        """`Max`; `pass` if every reward is 0 or 1."""
        return "pass" if self.measured and all(row.passes for row in self.measured) else "Max"

    @cached_property
    def reference(self) -> TrainingRow | None:
        """The row that most rows are compared with; None without comparisons."""
        counts = Counter(row.compared_with for row in self.rows if row.compared_with)
        return self.at(counts.most_common(1)[0][0]) if counts else None

    def at(self, path: str) -> TrainingRow:
        """Return the row with this path."""
        return next(row for row in self.rows if row.key.path == path)

    @cached_property
    def references(self) -> tuple[TrainingRow, ...]:
        """The references of rows, and the same methods at other settings and n."""
        usual, paths = self.reference, {row.compared_with for row in self.rows}
        return tuple(
            row
            for row in self.measured
            if row.key.path in paths or (usual is not None and same_method(row, usual))
        )

    @cached_property
    def compared(self) -> tuple[TrainingRow, ...]:
        """The rows with a difference at the largest K."""
        return tuple(row for row in self.measured if has_value(row.differences.get(self.top)))

    def best(self, k: int) -> list[TrainingRow]:
        """Return the row that is highest at k, and equal rows, the reference first."""
        values = [
            (row, end.value) for row in self.measured if (end := row.final(k)) and has_value(end)
        ]
        most = max((value for _, value in values), default=0.0)
        alike = [row for row, value in values if most - value <= _EQUAL * abs(most)]
        return sorted(alike, key=lambda row: row is not self.reference)

    def may_be_best(self, k: int, lists: int = 1) -> list[TrainingRow]:
        """Return the rows that no row is significantly better than at k.

        All places of a study, and this number of `lists` of each place, share the level.
        """
        rows = [row for row in self.measured if has_value(row.final(k))]
        worse = beaten(rows, k, self.alpha / self.places, lists)
        return [row for row in rows if row not in worse]

    def sign(self, row: TrainingRow, k: int) -> int:
        """Return 1 for significantly better than the reference, -1 for worse, 0 for neither."""
        return sign(self.lines.get((row.key, k)))

    def significant(self, side: int, k: int) -> list[TrainingRow]:
        """The rows significantly better (1) or worse (-1) than their reference, best first."""
        rows = [row for row in self.compared if self.sign(row, k) == side]
        return sorted(rows, key=lambda row: -row.curve[k - 1].value)


def places_of(rows: Sequence[TrainingRow], alpha: float) -> list[Place]:
    """Return the places of a study, by environment and policy, with comparisons at `alpha`."""
    groups, lines = grouped(rows, place_of), reference_lines(rows, alpha)
    places = []
    for (_, setting), members in groups.items():
        policies = tuple((key, value) for key, value in setting if key.startswith("policy."))
        words = members[0].environment_words, setting_words(policies)
        name = ", ".join(filter(None, words))
        places.append(Place(tuple(members), name, lines, alpha, len(groups)))
    return places


def compare(pooled: Pooled[TrainingRow], *, level: float, alpha: float) -> Iterator[Comparison]:
    """Yield the lines of `comparisons`: against the reference, and against the best of each place.

    Lines are at the K of interest, for policies sampled at the temperature of training.
    """
    for place in places_of(pooled.rows, alpha):
        for row in place.compared:
            lines = (place.lines.get((row.key, k)) for k in place.ks)
            yield from filter(None, lines)
        for k in place.ks if place.measured else ():
            yield from _against_best(place, k, level)


def _against_best(place: Place, k: int, level: float) -> Iterator[Comparison]:
    """Yield the rows of a place against the highest at k; none if no row has a value."""
    tied = place.may_be_best(k, len(place.ks))
    count = max(1, len(place.measured) - 1) * len(place.ks) * place.places
    for first in place.best(k)[:1]:
        for row in place.measured:
            if row is first or not has_value(row.final(k)):
                continue
            interval = difference(row, first, k, level)
            yield Comparison(
                BEST,
                row.key.path,
                first.key.path,
                f"max@{k}",
                interval,
                "worse" if row not in tied else "tied" if interval.defined else "open",
                paired=paired_by(row),
                reason=caveat(interval, row, first),
                comparisons=count,
                alpha=place.alpha,
            )
        if len(place.measured) > 1:
            yield Comparison(
                BEST,
                first.key.path,
                "",
                f"max@{k}",
                Interval(0.0, 0.0, 0.0, level),
                "highest" if tied == [first] else "tied",
                comparisons=count,
                alpha=place.alpha,
            )
