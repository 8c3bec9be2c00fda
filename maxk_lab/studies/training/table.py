"""Trained rows against each other: paired differences, what is significant among them, claims.

Two families are corrected together: the differences to the reference of each row, in all places of
a study (Holm), and the best of each place against its rivals (Gupta). A place has the rows of one
environment and n.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from maxk_lab.estimators.method import Method
from maxk_lab.reports.claims import ClaimVerdict, combined, shown, side
from maxk_lab.reports.naming import Setting, setting_words
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.statistics.families import Comparison, Family
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.seeds import (
    instance_mean,
    instance_p_value,
    p_value,
    pooled_mean,
    seed_mean,
)
from maxk_lab.studies.training.pool import estimates as estimates
from maxk_lab.studies.training.pool import gap, gap_range
from maxk_lab.studies.training.pool import key as key
from maxk_lab.studies.training.pool import pool as pool
from maxk_lab.studies.training.pool import rounding as rounding
from maxk_lab.studies.training.row import (
    FORCED,
    OWN_TEMPERATURE,
    SAMPLED,
    Decoding,
    TrainingKey,
    TrainingRow,
    place_setting,
    unusual,
)
from maxk_lab.sweep_file.claims import Claim

# The names of the plain leave-one-out baseline that the others are compared with, at K = 1.
_PLAIN = ("rloo", "centred")
# Values that differ by less, relative to their size, are the same but for rounding.
_SAME = 1e-9


def judged(pooled: Pooled[TrainingRow], *, level: float, alpha: float) -> Pooled[TrainingRow]:
    """The rows with their differences, and the K at which they are better, worse or maybe the best.

    The level of these families is that of the intervals, whatever `alpha` is for claims.
    """
    rows = []
    for row in pooled.rows:
        other = compared_with(row, pooled.rows)
        rows.append(row if other is row else with_differences_to(row, other, level))
    verdicts = {}
    for place in places_of(rows, level):
        best = {k: place.may_be_best(k, len(place.ks)) for k in place.ks} if place.finished else {}
        for row in place.rows:
            verdicts[row.key] = {
                "better_at": tuple(place.tested.at(row, 1)),
                "worse_at": tuple(place.tested.at(row, -1)),
                "best_at": tuple(k for k, several in best.items() if row in several),
            }
    return replace(pooled, rows=tuple(replace(row, verdicts=verdicts[row.key]) for row in rows))


def compared_with(row: TrainingRow, rows: Sequence[TrainingRow]) -> TrainingRow:
    """The row of the same environment and n that `row` is compared with.

    POMO's loss with the same start is what a study of it must beat. Where it was not trained, plain
    RLOO is, then either with another start, or else the first row. Of several, that which shares
    most settings with `row`. One of these two itself, with settings that are not the default, is
    compared with that of its kind which has the fewest of them, of several with the most alike.
    """
    same = [other for other in rows if _place(other) == _place(row)]

    def unlike(other: TrainingRow) -> int:
        mine, theirs = dict(row.key.setting), dict(other.key.setting)
        return sum(mine.get(name) != theirs.get(name) for name in {*mine, *theirs})

    def rank(other: TrainingRow) -> tuple[int, int]:
        started = other.settings.start == row.settings.start
        return _kind(other) + (0 if started and _kind(other) < _OTHER else _OTHER), unlike(other)

    first = min(same, key=rank)
    if first is not row:
        return first
    alike = [other for other in same if _kind(other) == _kind(row) < _OTHER]
    return min([row, *alike], key=lambda other: (len(unusual(other.key.setting)), unlike(other)))


# Rows are POMO's loss (0), plain RLOO (1), or another.
_OTHER = 2


def _kind(row: TrainingRow) -> int:
    unbiased = row.key.baseline in _PLAIN and row.catalogued_unbiased
    plain = unbiased and Method.parse(row.key.estimator, k=row.key.k).k == 1
    return 0 if row.is_pomo else 1 if plain else _OTHER


def _place(row: TrainingRow) -> tuple[str, Setting, int]:
    return row.key.environment, place_setting(row.key.setting), row.key.n


def with_differences_to(row: TrainingRow, other: TrainingRow, level: float) -> TrainingRow:
    """The row with its differences to this other, in every decoding that both have."""
    decoded = dict(row.decoded)
    for name, mine in row.decoded.items():
        if name == SAMPLED or (name in other.decoded and other.decoded[name].ks):
            decoded[name] = _compared(row, other, mine, name, level)
    return replace(row, compared_with=other.key.path, decoded=decoded)


def _compared(
    row: TrainingRow, other: TrainingRow, mine: Decoding, decoding: str, level: float
) -> Decoding:
    """One decoding of the row with its differences, at every K that is kept."""
    won = {}
    for k in mine.ks:
        apart = np.empty(0)
        if not why_not_paired(row, other, k, decoding):
            apart = mine.means[:, k - 1] - other.decoded[decoding].means[:, k - 1]
        won[k] = int((apart > 0).sum()), int((apart < 0).sum())
    return replace(
        mine,
        differences={k: difference(row, other, k, level, decoding) for k in mine.ks},
        p_values={k: difference_p_value(row, other, k, decoding) for k in mine.ks},
        won=won,
    )


def difference(
    row: TrainingRow, other: TrainingRow, k: int, level: float, decoding: str = SAMPLED
) -> Interval:
    """Final Max@k of `row` minus that of `other` in the same decoding, paired by seed.

    With one seed it is paired by instance, and says nothing of other training runs.
    """
    values, reason = _pairs(row, other, k, decoding)
    if reason:
        return undefined(level, reason)
    over = instance_mean if row.one_seed else seed_mean
    return over(values, level, row.within.of_differences)


def difference_p_value(
    row: TrainingRow, other: TrainingRow, k: int, decoding: str = SAMPLED
) -> float:
    """The two-sided p-value of no difference at k; NaN where there is no interval."""
    values, reason = _pairs(row, other, k, decoding)
    if reason:
        return math.nan
    one = row.one_seed
    return instance_p_value(values) if one else p_value(values, row.within.of_differences)


def _pairs(row: TrainingRow, other: TrainingRow, k: int, decoding: str) -> tuple[list[float], str]:
    """The differences by seed, of one seed by its instances; or why there are none."""
    if reason := why_not_paired(row, other, k, decoding):
        return [], reason
    mine, theirs = row.decoded[decoding], other.decoded[decoding]
    if not row.one_seed:
        return (mine.means[:, k - 1] - theirs.means[:, k - 1]).tolist(), ""
    if k not in mine.values or k not in theirs.values:
        return [], f"no values per instance at K = {k}"
    return (mine.values[k][0] - theirs.values[k][0]).tolist(), ""


def why_not_paired(row: TrainingRow, other: TrainingRow, k: int, decoding: str = SAMPLED) -> str:
    """Why the two have no pairs of values at K = k; empty where they have."""
    for each in (row, other):
        if each.reason:
            return f"{each.key.path}: {each.reason}"
        if not 1 <= k <= each.decoded[decoding].means.shape[1]:
            return f"{each.key.path}: fewer than {k} samples per evaluation"
    if row.finished != other.finished:
        return f"{row.key.path} and {other.key.path} have different seeds"
    if row.instances != other.instances:
        return f"{row.key.path} and {other.key.path} were evaluated on different instances"
    return ""


def gap_difference(row: TrainingRow, other: TrainingRow, k: int, level: float) -> Interval:
    """The gap of `row` at K = k minus that of `other`, which has the same seeds and instances."""
    both = (row, other)
    if not all(k in one.sampled.values and all(one.optima) for one in both):
        return undefined(level, f"no optima, or no values per instance, at K = {k}")
    mine, theirs = (gap(one.sampled.values[k], one.optima) for one in both)
    optimum = min(row.optimum, other.optimum, key=lambda one: one.exact)
    # Of rewards whose range is known it is on the same scale as their difference: of rewards of 0
    # or 1 the two are one quantity.
    within = gap_range(optimum, row.within).of_differences
    return pooled_mean((mine - theirs).tolist(), level, within)


def effect(row: TrainingRow, other: TrainingRow, name: str, level: float) -> Comparison | None:
    """The difference of Max@K, or of its gap, paired by seed; with one seed by instance."""
    kind, _, at = name.partition("@")
    if kind not in ("max", "gap") or not at.isdigit() or why_not_paired(row, other, int(at)):
        return None
    differ = difference if kind == "max" else gap_difference
    paired, paths = _paired_by(row), (row.key.path, other.key.path)
    return Comparison("run", *paths, name, differ(row, other, int(at), level), paired=paired)


def _paired_by(row: TrainingRow) -> str:
    return "instance" if row.one_seed else "seed"


def judge(
    claim: Claim, met: Sequence[tuple[TrainingRow, TrainingRow]], alpha: float
) -> ClaimVerdict:
    """Judge each paired difference by its interval over seeds, which must exclude the bound.

    It is that of both policies as they are decoded for the claim. Several are each judged at a
    level that makes up for their number (Bonferroni). One seed leaves it undecided: its
    interval is over instances and knows nothing of other runs.
    """
    level = 1 - alpha / len(met)
    decoding = {"best": OWN_TEMPERATURE, "forced": FORCED}.get(
        claim.decoding or "", claim.decoder
    ) or SAMPLED
    verdicts: list[ClaimVerdict] = []
    for row, partner in met:
        pair = f"{row.key.path} minus {partner.key.path}"
        ends = [one.decoded.get(decoding, Decoding()) for one in (row, partner)]
        if decoding != SAMPLED and not all(end.ks for end in ends):
            old = " (records from before that have no curve: --force)" if decoding == FORCED else ""
            verdicts.append(
                ClaimVerdict("undecided", f"{pair}: not every policy was decoded so{old}")
            )
            continue
        found = difference(row, partner, claim.final_k, level, decoding)
        text = f"{pair}: {shown(found)}"
        if row.one_seed:
            text += ", of one seed: another may end differently"
            verdicts.append(ClaimVerdict("undecided", text, found))
            continue
        at = f", at {100 * level:.4g} %" if len(met) == 1 else ""
        words = f"{text} over {len(row.cells)} seeds{at}"
        if apart := sorted({seed for end in ends for seed in end.apart}):
            words += f"; seed {', '.join(map(str, apart))} ended apart from the others"
        verdict = side(found, claim.at_least, claim.at_most, strict=True)
        verdicts.append(ClaimVerdict(verdict, words, found))
    return combined(verdicts, "differences", alpha)


def has_value(found: Interval | None) -> bool:
    """Whether there is a value, with or without an interval."""
    return found is not None and not math.isnan(found.value)


def shown_ks(rows: Sequence[TrainingRow], decoding: str = SAMPLED) -> list[int]:
    """The K of interest: 1, those that were trained for, and all samples of an evaluation."""
    ends = [row.decoded.get(decoding, Decoding()) for row in rows]
    wanted = {1, *(row.key.k for row in rows), *(len(end.curve) for end in ends)}
    return sorted(wanted & {k for end in ends for k in end.ks})


@dataclass(frozen=True)
class Tested:
    """The differences to the reference in all places of a study, tested together.

    `p_adjusted` has by row and K the p-value after Holm's correction; a difference is significant
    where it is below `alpha`.
    """

    p_adjusted: Mapping[tuple[TrainingKey, int], float]
    alpha: float
    decoding: str = SAMPLED

    @property
    def comparisons(self) -> int:
        """The number of differences that are corrected together."""
        return len(self.p_adjusted)

    def sign(self, row: TrainingRow, k: int) -> int:
        """1 for significantly better, -1 for significantly worse, 0 for neither."""
        if self.p_adjusted.get((row.key, k), 1.0) >= self.alpha:
            return 0
        return 1 if row.decoded[self.decoding].differences[k].value > 0 else -1

    def at(self, row: TrainingRow, sign: int) -> list[int]:
        """The K at which the difference is significant and of this sign."""
        return [k for key, k in self.p_adjusted if key == row.key and self.sign(row, k) == sign]


def corrected(rows: Sequence[TrainingRow], alpha: float, decoding: str = SAMPLED) -> Tested:
    """Test the differences of these rows in a decoding, corrected together (Holm 1979).

    They are those of all environments of a study, at the K that it asks about: 1, those that it
    trains for, and all samples. An answer about all of these is then as sure as one of them, and
    the points between, which only draw a curve, take no power from it.
    """
    asked = set(shown_ks(rows, decoding))
    p_values = {
        (row.key, k): p_value
        for row in rows
        for k, p_value in row.decoded.get(decoding, Decoding()).p_values.items()
        if k in asked and not math.isnan(p_value)
    }
    adjusted = Family("reference", len(p_values), alpha, "holm").adjusted(p_values)
    return Tested({key: adjusted[key] for key in p_values}, alpha, decoding)


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
    both = difference_p_value(row, other, k)
    if math.isnan(both):
        return 1.0
    return both / 2 if row.curve[k - 1].value > other.curve[k - 1].value else 1 - both / 2


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
    def names(self) -> Mapping[str, str]:
        """The names of its rows in sentences, by their paths."""
        several = len({row.key.k for row in self.rows}) > 1
        return {row.key.path: row.method_for_k if several else row.method for row in self.rows}

    def named(self, rows: Iterable[TrainingRow]) -> list[str]:
        """The names of these rows in sentences."""
        return [self.names[row.key.path] for row in rows]

    @cached_property
    def finished(self) -> tuple[TrainingRow, ...]:
        """The rows with a value at the largest K; no K without any row of them has one."""
        top = max((len(row.curve) for row in self.rows), default=0)
        return tuple(row for row in self.rows if has_value(row.final(top)))

    @cached_property
    def ks(self) -> list[int]:
        """The K of interest: 1, those trained for, and all samples."""
        return shown_ks(self.finished)

    @property
    def top(self) -> int:
        """All samples of an evaluation: the largest K."""
        return self.ks[-1]

    @property
    def objective(self) -> str:
        """`Max`; `pass`, as the field says, where every reward is 0 or 1."""
        return "pass" if self.finished and all(row.passes for row in self.finished) else "Max"

    @cached_property
    def reference(self) -> TrainingRow | None:
        """The row that most rows are compared with; None where none is compared."""
        counts = Counter(row.compared_with for row in self.rows if row.compared_with)
        return self.at(counts.most_common(1)[0][0]) if counts else None

    def at(self, path: str) -> TrainingRow:
        """The row of this path."""
        return next(row for row in self.rows if row.key.path == path)

    @cached_property
    def compared(self) -> tuple[TrainingRow, ...]:
        """The rows with a difference at the largest K."""
        return tuple(row for row in self.finished if has_value(row.differences.get(self.top)))

    def best(self, k: int) -> list[TrainingRow]:
        """The row that is highest at k, and those that are as high to the last digit.

        The one that the others are compared with is the first of these.
        """
        values = [
            (row, end.value) for row in self.finished if (end := row.final(k)) and has_value(end)
        ]
        most = max((value for _, value in values), default=0.0)
        alike = [row for row, value in values if most - value <= _SAME * abs(most)]
        return sorted(alike, key=lambda row: row is not self.reference)

    def may_be_best(self, k: int, lists: int = 1) -> list[TrainingRow]:
        """The rows that no row is significantly better than at k.

        All places of a study, and so many `lists` of each, share its level.
        """
        rows = [row for row in self.finished if has_value(row.final(k))]
        worse = beaten(rows, k, self.tested.alpha / self.places, lists)
        return [row for row in rows if row not in worse]

    def significant(self, sign: int, k: int) -> list[TrainingRow]:
        """The rows significantly better (1) or worse (-1) than their reference, best first."""
        found = [row for row in self.compared if self.tested.sign(row, k) == sign]
        return sorted(found, key=lambda row: -row.differences[k].value)


def places_of(rows: Sequence[TrainingRow], level: float) -> list[Place]:
    """The places of a study, by environment and n."""
    groups, together = grouped(rows, _place), corrected(rows, 1 - level)
    several = len({n for *_, n in groups}) > 1
    found = []
    for (_, setting, n), members in groups.items():
        policies = tuple((key, value) for key, value in setting if key.startswith("policy."))
        words = members[0].environment_words, setting_words(policies), f"n = {n}" * several
        found.append(Place(tuple(members), ", ".join(filter(None, words)), together, len(groups)))
    return found


def compare(pooled: Pooled[TrainingRow], *, level: float, alpha: float) -> Iterator[Comparison]:
    """The lines of `comparisons`: against the reference, and against the best of each place.

    Each at the K of interest, and of policies sampled as they were trained.
    """
    for place in places_of(pooled.rows, level):
        for row in place.compared:
            for k in place.ks:
                sign, found = place.tested.sign(row, k), row.differences[k]
                yield Comparison(
                    "reference",
                    row.key.path,
                    row.compared_with,
                    f"max@{k}",
                    found,
                    {1: "better", -1: "worse"}.get(sign, "tied" if found.defined else "open"),
                    paired=_paired_by(row),
                    p_adjusted=place.tested.p_adjusted.get((row.key, k), math.nan),
                    reason=found.reason,
                    comparisons=place.tested.comparisons,
                    alpha=place.tested.alpha,
                )
        for k in place.ks if place.finished else ():
            yield from _against_best(place, k, level)


def _against_best(place: Place, k: int, level: float) -> Iterator[Comparison]:
    """The rows of a place against the highest at k; none where no row has a value there."""
    tied = place.may_be_best(k, len(place.ks))
    for first in place.best(k)[:1]:
        for row in place.finished:
            if row is first or not has_value(row.final(k)):
                continue
            found = difference(row, first, k, level)
            yield Comparison(
                "best",
                row.key.path,
                first.key.path,
                f"max@{k}",
                found,
                "worse" if row not in tied else "tied" if found.defined else "open",
                paired=_paired_by(row),
                reason=found.reason,
                comparisons=max(1, len(place.finished) - 1) * len(place.ks) * place.places,
                alpha=place.tested.alpha,
            )
        if len(place.finished) > 1:
            yield Comparison(
                "best",
                first.key.path,
                "",
                f"max@{k}",
                Interval(0.0, 0.0, 0.0, level),
                "highest" if tied == [first] else "tied",
                comparisons=max(1, len(place.finished) - 1) * len(place.ks) * place.places,
                alpha=place.tested.alpha,
            )
