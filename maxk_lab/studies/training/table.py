"""Trained rows against each other: paired differences, comparisons, and verdicts on claims.

Two families of comparisons have one line each in `comparisons`. `reference` has the differences of
all rows of a study to their references (Holm). `best` has the best of each place against its rivals
(Bonferroni). A place has the rows of one environment and policy; estimator, baseline, K, n and the
settings of the training differ in it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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
    seed_mean,
)
from maxk_lab.studies.training.pool import estimates as estimates
from maxk_lab.studies.training.pool import key as key
from maxk_lab.studies.training.pool import pool as pool
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

# The names of the leave-one-out baseline that other baselines are compared with, at K = 1.
_LEAVE_ONE_OUT = ("rloo", "centred")
# Values that differ by less than this share are equal up to rounding.
_EQUAL = 1e-9
# The names of the families of comparisons.
REFERENCE, BEST = "reference", "best"
_SIGNS = {"better": 1, "worse": -1}
# The comparisons with a reference by the key of the row and K.
Lines = Mapping[tuple[TrainingKey, int], Comparison]


def judged(pooled: Pooled[TrainingRow], *, level: float, alpha: float) -> Pooled[TrainingRow]:
    """The rows with the differences to their references, each interval at `level`."""
    rows = []
    for row in pooled.rows:
        reference = reference_of(row, pooled.rows)
        rows.append(row if reference is row else with_differences_to(row, reference, level))
    return replace(pooled, rows=tuple(rows))


def reference_of(row: TrainingRow, rows: Sequence[TrainingRow]) -> TrainingRow:
    """The row of the same environment and policy that `row` is compared with.

    POMO's loss with the same start is what a study of it must beat. Without it, the order is plain
    RLOO, both with another start, the first row. Among several the row that shares most settings
    and n with `row`. POMO's loss or plain RLOO with settings that are not the default is compared
    with the row of its kind with the fewest such settings. A row that would be compared with
    itself is compared with the same method at the smallest n.
    """
    rivals = [rival for rival in rows if _place(rival) == _place(row)]

    def unlike(rival: TrainingRow) -> int:
        mine, theirs = (dict(each.key.setting) | {"n": each.key.n} for each in (row, rival))
        return sum(mine.get(name) != theirs.get(name) for name in {*mine, *theirs})

    def rank(rival: TrainingRow) -> tuple[int, int]:
        kind = _kind(rival)
        started = rival.settings.start == row.settings.start
        return kind + (0 if started and kind < _OTHER else _OTHER), unlike(rival)

    first = min(rivals, key=rank)
    if first is not row:
        return first
    alike = [rival for rival in rivals if _kind(rival) == _kind(row) < _OTHER]
    usual = min([row, *alike], key=lambda rival: (len(unusual(rival.key.setting)), unlike(rival)))
    if usual is not row:
        return usual
    sizes = [rival for rival in rivals if replace(rival.key, n=row.key.n) == row.key]
    return min(sizes, key=lambda rival: rival.key.n)


# Rows are POMO's loss (0), plain RLOO (1), or another method.
_OTHER = 2


def _kind(row: TrainingRow) -> int:
    unbiased = row.key.baseline in _LEAVE_ONE_OUT and row.catalogued_unbiased
    mean = unbiased and Method.parse(row.key.estimator, k=row.key.k).k == 1
    return 0 if row.is_pomo else 1 if mean else _OTHER


def same_method(row: TrainingRow, rival: TrainingRow) -> bool:
    """Whether two rows have the same estimator, baseline, K and start."""
    keys = [(r.key.estimator, r.key.baseline, r.key.k, r.settings.start) for r in (row, rival)]
    return keys[0] == keys[1]


def _place(row: TrainingRow) -> tuple[str, Setting]:
    return row.key.environment, place_setting(row.key.setting)


def with_differences_to(row: TrainingRow, reference: TrainingRow, level: float) -> TrainingRow:
    """The row with its differences to a reference, in every decoding that both have."""
    decoded = dict(row.decoded)
    for name, decoding in row.decoded.items():
        if name == SAMPLED or (name in reference.decoded and reference.decoded[name].ks):
            decoded[name] = replace(
                decoding,
                differences={k: difference(row, reference, k, level, name) for k in decoding.ks},
                p_values={k: difference_p_value(row, reference, k, name) for k in decoding.ks},
            )
    return replace(row, compared_with=reference.key.path, decoded=decoded)


def difference(
    row: TrainingRow, rival: TrainingRow, k: int, level: float, decoding: str = SAMPLED
) -> Interval:
    """Final Max@k of `row` minus Max@k of `rival` in the same decoding, paired by seed.

    With one seed it is paired by instance, and does not cover other training runs.
    """
    values, reason = _pairs(row, rival, k, decoding)
    if reason:
        return undefined(level, reason)
    over = instance_mean if row.one_seed else seed_mean
    return over(values, level, row.within.differences)


def difference_p_value(
    row: TrainingRow, rival: TrainingRow, k: int, decoding: str = SAMPLED
) -> float:
    """The two-sided p-value of no difference at k; NaN without an interval."""
    values, reason = _pairs(row, rival, k, decoding)
    if reason:
        return math.nan
    single = row.one_seed
    return instance_p_value(values) if single else p_value(values, row.within.differences)


def _pairs(row: TrainingRow, rival: TrainingRow, k: int, decoding: str) -> tuple[list[float], str]:
    """The differences by seed, of one seed by its instances; or why there are none."""
    if reason := why_not_paired(row, rival, k, decoding):
        return [], reason
    mine, theirs = row.decoded[decoding], rival.decoded[decoding]
    if not row.one_seed:
        return (mine.means[:, k - 1] - theirs.means[:, k - 1]).tolist(), ""
    if k not in mine.values or k not in theirs.values:
        return [], f"no values per instance at K = {k}"
    return (mine.values[k][0] - theirs.values[k][0]).tolist(), ""


def why_not_paired(row: TrainingRow, rival: TrainingRow, k: int, decoding: str = SAMPLED) -> str:
    """Why two rows have no pairs of values at K = k; empty if they have."""
    for each in (row, rival):
        if each.reason:
            return f"{each.key.path}: {each.reason}"
        if not 1 <= k <= each.decoded[decoding].means.shape[1]:
            return f"{each.key.path}: fewer than {k} samples per evaluation"
    paths = f"{row.key.path} and {rival.key.path}"
    if row.finished != rival.finished:
        return f"{paths} have different seeds"
    if row.instances != rival.instances:
        return f"{paths} were evaluated on different instances"
    if row.key.n != rival.key.n and row.rollouts != rival.rollouts:
        return f"{paths} have different n and different rollouts"
    return ""


def _paired_by(row: TrainingRow) -> str:
    return "instance" if row.one_seed else "seed"


def judge(
    claim: Claim, matching: Sequence[tuple[TrainingRow, TrainingRow]], alpha: float
) -> ClaimVerdict:
    """Judge each paired difference by its interval over seeds, which must exclude the bound.

    Both policies are decoded as the claim says. Several differences are each judged at a level that
    makes up for their number (Bonferroni). One seed leaves the claim undecided: its interval is
    over instances and does not cover other runs.
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
        return ClaimVerdict("undecided", f"{names}: not every policy was decoded so{old}")
    interval = difference(row, rival, claim.final_k, level, decoding)
    text = f"{names}: {shown(interval)}"
    if row.one_seed:
        text += ", of one seed: another may end differently"
        return ClaimVerdict("undecided", text, interval)
    stated = f", at {100 * level:.4g} %" if pairs == 1 else ""
    words = f"{text} over {len(row.cells)} seeds{stated}"
    if apart := sorted({seed for end in ends for seed in end.apart}):
        words += f"; seed {', '.join(map(str, apart))} ended apart from the others"
    verdict = side(interval, claim.at_least, claim.at_most, strict=True)
    return ClaimVerdict(verdict, words, interval)


def has_value(interval: Interval | None) -> bool:
    """Whether there is a value, with or without an interval."""
    return interval is not None and not math.isnan(interval.value)


def shown_ks(rows: Sequence[TrainingRow], decoding: str = SAMPLED) -> list[int]:
    """The K of interest: 1, the K that rows train for, and all samples of an evaluation."""
    ends = [row.decoded.get(decoding, Decoding()) for row in rows]
    candidates = {1, *(row.key.k for row in rows), *(len(end.curve) for end in ends)}
    return sorted(candidates & {k for end in ends for k in end.ks})


def reference_lines(
    rows: Sequence[TrainingRow], alpha: float, decoding: str = SAMPLED
) -> dict[tuple[TrainingKey, int], Comparison]:
    """The comparisons with references in a decoding, corrected together (Holm 1979).

    They are those of all environments of a study, at the K of interest. Points of a curve between
    these K take no power from them. A difference is significant if its adjusted p-value is below
    `alpha`.
    """
    ks = shown_ks(rows, decoding)
    differences = {
        (row.key, k): (row, row.decoded[decoding])
        for row in rows
        for k in ks
        if row.compared_with and k in row.decoded.get(decoding, Decoding()).differences
    }
    p_values = {
        (row_key, k): end.p_values[k]
        for (row_key, k), (_, end) in differences.items()
        if not math.isnan(end.p_values[k])
    }
    adjusted = Family(REFERENCE, len(p_values), alpha, "holm").adjusted(p_values)
    by_name = {(_place(row), row.key.path): row for row in rows}
    lines = {}
    for (row_key, k), (row, end) in differences.items():
        interval, adjusted_p = end.differences[k], adjusted.get((row_key, k), math.nan)
        verdict = "tied" if interval.defined else "open"
        if adjusted_p < alpha:
            verdict = "better" if interval.value > 0 else "worse"
        pair = [row, *filter(None, [by_name.get((_place(row), row.compared_with))])]
        lines[row_key, k] = Comparison(
            REFERENCE,
            row_key.path,
            row.compared_with,
            f"max@{k}" if decoding == SAMPLED else f"{decoding}_max@{k}",
            interval,
            verdict,
            paired=_paired_by(row),
            p_adjusted=adjusted_p,
            reason=_caveat(interval, *pair),
            comparisons=len(p_values),
            alpha=alpha,
        )
    return lines


def _caveat(interval: Interval, *pair: TrainingRow) -> str:
    """Why a difference has no interval, else the seeds that ended far from the others."""
    apart = [f"seed {end.apart[0]} of {row.key.path}" for row in pair if (end := row.sampled).apart]
    return interval.reason or (f"{' and '.join(apart)} ended apart" if apart else "")


def sign(line: Comparison | None) -> int:
    """1 for significantly better, -1 for significantly worse, 0 for neither or no comparison."""
    return 0 if line is None else _SIGNS.get(line.verdict, 0)


def beaten(rows: Sequence[TrainingRow], k: int, alpha: float, ks: int = 1) -> list[TrainingRow]:
    """The rows that some rival is significantly better than at k; the best row has no such rival.

    For the truly best row to be beaten by chance, one of its R − 1 rivals must seem better: so each
    comparison is one-sided at alpha / (R − 1), shared among as many `ks`, whatever row seems best
    (Gupta 1965, "On some multiple decision (selection and ranking) rules").
    """
    share = alpha / max(1, len(rows) - 1) / ks
    return [
        row
        for row in rows
        if any(_one_sided(rival, row, k) < share for rival in rows if rival is not row)
    ]


def _one_sided(row: TrainingRow, rival: TrainingRow, k: int) -> float:
    """The one-sided p-value of `row` being above `rival`."""
    two_sided = difference_p_value(row, rival, k)
    if math.isnan(two_sided):
        return 1.0
    above = row.curve[k - 1].value > rival.curve[k - 1].value
    return two_sided / 2 if above else 1 - two_sided / 2


@dataclass(frozen=True)
class Place:
    """The rows of one environment and policy, which are compared with each other.

    `where` is its name in words; `lines` are the comparisons with references in the whole study,
    which has this number of `places`, each at `alpha`.
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
        """The name of a row, without the settings or the n that a table has in columns."""
        for_k = len({row.key.k for row in self.rows}) > 1 and not row.is_pomo
        several = len({row.key.n for row in self.rows}) > 1 and "n" not in without
        size = f" at n = {row.key.n}" if several else ""
        return row.words(without) + (f" for K = {row.key.k}" if for_k else "") + size

    def named(self, rows: Iterable[TrainingRow]) -> list[str]:
        """The names of these rows in sentences."""
        return [self.names[row.key.path] for row in rows]

    @cached_property
    def measured(self) -> tuple[TrainingRow, ...]:
        """The rows with a value at the largest K."""
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
        """The row of this path."""
        return next(row for row in self.rows if row.key.path == path)

    @cached_property
    def references(self) -> tuple[TrainingRow, ...]:
        """The rows that rows are compared with, and the same method at other settings and n."""
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
        """The row that is highest at k, and rows that are equally high, the reference first."""
        values = [
            (row, end.value) for row in self.measured if (end := row.final(k)) and has_value(end)
        ]
        most = max((value for _, value in values), default=0.0)
        alike = [row for row, value in values if most - value <= _EQUAL * abs(most)]
        return sorted(alike, key=lambda row: row is not self.reference)

    def may_be_best(self, k: int, lists: int = 1) -> list[TrainingRow]:
        """The rows that no row is significantly better than at k.

        All places of a study, and this number of `lists` of each, share its level.
        """
        rows = [row for row in self.measured if has_value(row.final(k))]
        worse = beaten(rows, k, self.alpha / self.places, lists)
        return [row for row in rows if row not in worse]

    def sign(self, row: TrainingRow, k: int) -> int:
        """1 for significantly better than the reference, -1 for worse, 0 for neither."""
        return sign(self.lines.get((row.key, k)))

    def significant(self, side: int, k: int) -> list[TrainingRow]:
        """The rows significantly better (1) or worse (-1) than their reference, best first."""
        rows = [row for row in self.compared if self.sign(row, k) == side]
        return sorted(rows, key=lambda row: -row.curve[k - 1].value)


def places_of(rows: Sequence[TrainingRow], level: float) -> list[Place]:
    """The places of a study, by environment and policy."""
    alpha = 1 - level
    groups, lines = grouped(rows, _place), reference_lines(rows, alpha)
    places = []
    for (_, setting), members in groups.items():
        policies = tuple((key, value) for key, value in setting if key.startswith("policy."))
        words = members[0].environment_words, setting_words(policies)
        name = ", ".join(filter(None, words))
        places.append(Place(tuple(members), name, lines, alpha, len(groups)))
    return places


def compare(pooled: Pooled[TrainingRow], *, level: float, alpha: float) -> Iterator[Comparison]:
    """The lines of `comparisons`: against the reference, and against the best of each place.

    Each at the K of interest, and of policies sampled as they were trained.
    """
    for place in places_of(pooled.rows, level):
        for row in place.compared:
            lines = (place.lines.get((row.key, k)) for k in place.ks)
            yield from filter(None, lines)
        for k in place.ks if place.measured else ():
            yield from _against_best(place, k, level)


def _against_best(place: Place, k: int, level: float) -> Iterator[Comparison]:
    """The rows of a place against the highest at k; none if no row has a value there."""
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
                paired=_paired_by(row),
                reason=_caveat(interval, row, first),
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
