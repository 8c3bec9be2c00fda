"""Rows of a gradient study against each other: bias, the lowest variance, the reference, claims.

The families that are corrected together: the baselines of each place against the lowest, the
estimators of each gradient against the lowest, baselines against none, and the tests of bias.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from maxk_lab.report.claims import Judged, shown, side, strict_side, together
from maxk_lab.report.document import number
from maxk_lab.report.model import Verdict
from maxk_lab.report.tables import Effect, grouped
from maxk_lab.statistics.bias import BiasVerdict, bias_verdicts
from maxk_lab.statistics.families import Comparison, Family
from maxk_lab.statistics.intervals import Interval, interval, undefined
from maxk_lab.statistics.log_ratios import UNPAIRED, log_ratio, stays_less, typical_ratio
from maxk_lab.statistics.measures import LIKE_THESE, Question
from maxk_lab.studies.gradient.pool import (
    FOUND_BIASED,
    GradientKey,
    GradientRow,
    GradientRows,
    OverLeast,
    Rival,
    is_oracle,
    same_mean,
)
from maxk_lab.sweeps.spec.arithmetic import evaluate_value
from maxk_lab.sweeps.spec.claims import (
    BiasedClaim,
    Claim,
    EqualsClaim,
    OrderClaim,
    RatioClaim,
    UnbiasedClaim,
)

# Two ways to write one estimator differ by rounding alone, in the same direction on every instance
# that is like the others.
_ROUNDING = 1e-9
# Above, an exponential is more than a number can be.
_MOST = 700.0
# The baseline that is the best possible.
_OPTIMUM = "joint_optimum"
# So many pairs are compared with the reference, for the time it takes.
_PAIRS = 2000
_NOT_SEEN = ("no bias seen", "unbiased")
# Chance shows a bias in one report of twenty. It is told there, but a claim that is true by proof
# must not be refuted as often.
_REFUTES_AT = 0.2
ALARM = (
    "rejected although proven unbiased: the pool misses trajectories that carry the gradient, or "
    "sampling is not i.i.d."
)
# Why two rows are not significantly different, for readers.
_WHY = {
    "same": "equal on every instance",
    "both signs": "the corrected interval of the ratio includes 1",
    "few instances": "too few effective instances to speak of new ones",
    "median": "mean and median over instances disagree",
    "one instance": "one more outlier instance could undo it",
    "unpaired": "enumerated and sampled rows make no pairs",
    "no interval": "the ratio has no interval",
}


def judged(pooled: GradientRows, *, level: float, alpha: float) -> GradientRows:
    """The rows with their verdicts on bias, their ratios to others, and the lowest marked."""
    rows = pooled.rows
    testable = {
        row.key: row.units
        for row in rows
        if row.units is not None and not (row.untested and row.untested.everywhere)
    }
    verdicts = bias_verdicts(testable, alpha=alpha)
    biased = [replace(row, bias=_verdict(row, verdicts.get(row.key, row.bias))) for row in rows]
    marked = mark_best(biased, alpha=alpha)
    return replace(pooled, rows=tuple(_with_ratios(marked, level)))


def _verdict(row: GradientRow, judged: BiasVerdict) -> BiasVerdict:
    """The verdict on a row; a test that rejects what is unbiased by proof is an alarm.

    Enumeration proves a bias: there the derivation itself is refuted.
    """
    if not row.catalogued_unbiased or row.enumerated or judged.verdict not in FOUND_BIASED:
        return judged
    return replace(judged, verdict="alarm", reason=ALARM)


def mark_best(rows: Iterable[GradientRow], *, alpha: float = 0.05) -> list[GradientRow]:
    """`rows` with `best` set on at most one row per (environment, setting, stage, estimator, n, K).

    Candidates are catalogued unbiased, were not found biased and are no oracles. The one of least
    variance is marked when, against every other candidate, two paired intervals about instances
    like these agree that it has less: that of the ratio of mean variances, and that of the median
    over instances of their ratio; and when one more instance would not undo it (`stays_less`). The
    level is Bonferroni over all these comparisons of the sweep, so the probability of any wrong
    mark is at most `alpha`. A group with an unfinished candidate gets no mark: the missing row
    could have been better. Nor does one where too few instances carry a mean, or where a ratio is
    undefined: `rivals` of the least has those that it is not told apart from, `best_note` why.
    """
    rows = list(rows)
    groups = grouped(filter(_is_fair, rows), lambda row: row.key.group)
    level = _family_of_best(groups.values(), alpha).level
    marks: dict[GradientKey, tuple[Rival, ...]] = {}
    for group in groups.values():
        least = least_of(group)
        if least is not None:
            first, others = least
            marks[first.key] = rivals_of(first, others, level)
    return [_marked(row, marks[row.key]) if row.key in marks else row for row in rows]


def _family_of_best(groups: Iterable[Sequence[GradientRow]], alpha: float) -> Family:
    size = sum(max(0, len(candidates(group)) - 1) for group in groups)
    return Family("best", size, alpha)


def _is_fair(row: GradientRow) -> bool:
    """Whether it is unbiased by its formula and can be trained with."""
    return row.catalogued_unbiased and not is_oracle(row)


def _with_ratios(rows: Sequence[GradientRow], level: float) -> Iterator[GradientRow]:
    """The rows with their paired ratios to the lowest of their group and to the best possible.

    That is the joint optimum of the same environment, setting, stage, n and objective. A row
    derived biased has no ratio to it: a shorter or a wrong gradient may well have less variance.
    """
    lowest: dict[tuple[object, ...], GradientRow] = {}
    for group, members in grouped(filter(_is_fair, rows), lambda row: row.key.group).items():
        found = least_of(members)
        if found is not None:
            lowest[group] = found[0]
    optima = {
        (row.key.gradient, row.key.n): row
        for row in rows
        if row.key.method.baseline.row.name == _OPTIMUM
    }
    for row in rows:
        least = lowest.get(row.key.group)
        if least is not None and row.units and row.key != least.key:
            row = replace(row, over_least=_over(row, least, level))
        optimum = optima.get((row.key.gradient, row.key.n))
        if optimum is not None and row.catalogued_unbiased:
            row = replace(row, over_best=_over_best(row, optimum, level))
        yield row


def _over(row: GradientRow, least: GradientRow, level: float) -> OverLeast:
    mean = ratio(row, least, level)
    assert row.units is not None
    assert least.units is not None
    try:
        typical = typical_ratio(row.units, least.units, level=level)
    except ValueError:
        typical = None
    return OverLeast(least.key.baseline, mean, typical)


def _over_best(row: GradientRow, optimum: GradientRow, level: float) -> Interval:
    if row.key == optimum.key:
        return Interval(1.0, 1.0, 1.0, level)
    if row.units is None or optimum.units is None:
        return undefined(level, (row if row.units is None else optimum).bias.reason)
    return ratio(row, optimum, level)


def ratio(
    row: GradientRow,
    other: GradientRow,
    level: float,
    measure: str = "variance",
    about: Question | None = None,
    *,
    alike: bool = False,
) -> Interval:
    """The paired ratio of a measure of the row to that of the other; `alike`: of one mean."""
    assert row.units is not None
    assert other.units is not None
    found = log_ratio(
        row.units, other.units, measure=measure, level=level, same_mean=alike, question=about
    )
    return found.mapped(_exp)


def _exp(value: float) -> float:
    return math.inf if value > _MOST else math.exp(value)


def _marked(row: GradientRow, rivals: tuple[Rival, ...]) -> GradientRow:
    reason = rivals[0].reason if rivals else ""
    note = f"undecided against {rivals[0].baseline}: {reason}" if reason else ""
    return replace(row, best=not rivals, best_note=note, rivals=rivals)


def candidates(group: Sequence[GradientRow]) -> list[GradientRow]:
    """Those of a group that were not found biased."""
    return [row for row in group if row.bias.verdict not in FOUND_BIASED]


def least_of(group: Sequence[GradientRow]) -> tuple[GradientRow, list[GradientRow]] | None:
    """The candidate of least variance and the others; None where there is nothing to compare."""
    competing = candidates(group)
    # An unfinished row has no variance either.
    if len(competing) < 2 or any(math.isnan(row.intervals["variance"].value) for row in competing):
        return None
    first, *others = sorted(competing, key=lambda row: row.intervals["variance"].value)
    return first, others


def tied(group: Sequence[GradientRow]) -> list[GradientRow]:
    """The row of least variance of a contest, and those that tie with it; none without a contest.

    A row ties where no test says that it has more variance: neither the one that is corrected for
    many, nor its own interval. Rows that lie far above are none, however few their instances are.
    """
    compared = least_of(group)
    if compared is None:
        return []
    least, others = compared
    open_to = {rival.baseline for rival in least.rivals}
    return [least, *(row for row in others if row.key.baseline in open_to and _may_be_least(row))]


def _may_be_least(row: GradientRow) -> bool:
    over = row.over_least
    return over is not None and over.mean.known and over.mean.low <= 1 + _ROUNDING


def simplest(rows: Sequence[GradientRow]) -> GradientRow:
    """The row to use of those that tie: the first in the catalogue that needs rewards alone.

    Where none is such, the first of the rows.
    """
    plain = [row for row in rows if row.key.method.needs_rewards_alone]
    return min(plain, key=lambda row: row.key.method.catalogue_order) if plain else rows[0]


def rivals_of(first: GradientRow, others: Iterable[GradientRow], level: float) -> tuple[Rival, ...]:
    """Those of the others that `first`, each at `level`, is not told apart from.

    The one of least variance is `first` or one of them, as surely as all comparisons hold.
    """
    found = (_rival(first, other, level) for other in others)
    return tuple(rival for rival in found if rival is not None)


def _rival(first: GradientRow, other: GradientRow, level: float) -> Rival | None:
    """None where `first` has less beyond doubt."""
    assert first.units is not None
    assert other.units is not None
    name = other.key.baseline
    mean = log_ratio(first.units, other.units, level=level)
    if not mean.known:
        return Rival(name, "unpaired" if mean.reason == UNPAIRED else "no interval", mean.reason)
    typical = typical_ratio(first.units, other.units, level=level)
    if not mean.high < -_ROUNDING:
        return Rival(name, "same" if typical.ties == typical.instances else "both signs")
    if mean.question != LIKE_THESE:
        here = 2 * typical.below > typical.instances
        return Rival(name, "few instances", mean.reason, here=here)
    if not typical.median.high < 1 - _ROUNDING:
        reason = typical.median.reason or "the median over instances does not tell them apart"
        return Rival(name, "median", reason)
    if not stays_less(first.units, other.units):
        reason = "an instance of a kind that was not drawn could undo it"
        return Rival(name, "one instance", reason)
    return None


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
    groups = grouped(filter(_is_fair, rows), lambda row: row.key.group)
    return [Contest(tuple(group)) for group in groups.values() if len(group) > 1]


def compare(pooled: GradientRows, *, level: float, alpha: float) -> Iterator[Comparison]:
    """The lines of every family, each with the interval of its comparison alone at `level`."""
    rows = pooled.rows
    found = contests(rows)
    family = _family_of_best([one.rows for one in found], alpha)
    for one in found:
        if one.least is not None:
            rivals = {rival.baseline: rival for rival in one.least.rivals}
            for row in candidates(one.rows):
                if row.over_least is not None:
                    rival = rivals.get(row.key.baseline)
                    yield _line(family, row, one.least, row.over_least.mean, rival)
    yield from _of_estimators(rows, level, alpha)
    yield from _against_none(found, level, alpha)
    yield from _of_bias(rows, alpha)


def _line(
    family: Family, row: GradientRow, other: GradientRow, over: Interval, rival: Rival | None
) -> Comparison:
    """The variance of a row over that of another, which is lower unless `rival` says otherwise."""
    verdict = "worse"
    if rival is not None:
        verdict = "open" if rival.why in ("unpaired", "no interval") else "tied"
    return Comparison(
        family.name,
        row.key.path,
        other.key.path,
        "variance",
        over,
        verdict,
        ratio=True,
        reason="" if rival is None else _WHY[rival.why],
        fixed=rival is not None and rival.here,
        comparisons=family.size,
        alpha=family.alpha,
    )


def _of_estimators(rows: Sequence[GradientRow], level: float, alpha: float) -> Iterator[Comparison]:
    """The lowest of all unbiased estimators of one gradient against those of other estimators."""
    pairs = []
    for group in grouped(
        filter(_is_fair, rows), lambda row: (row.key.gradient, row.key.n)
    ).values():
        competing = candidates(group)
        unknown = any(math.isnan(row.intervals["variance"].value) for row in competing)
        if not unknown and len({row.key.estimator for row in competing}) > 1:
            least = min(competing, key=lambda row: row.intervals["variance"].value)
            pairs += [(row, least) for row in competing if row.key.estimator != least.key.estimator]
    family = Family("best estimator", len(pairs), alpha)
    for row, least in pairs:
        rivals = rivals_of(least, [row], family.level)
        yield _line(family, row, least, ratio(row, least, level), next(iter(rivals), None))


def _against_none(found: Sequence[Contest], level: float, alpha: float) -> Iterator[Comparison]:
    """The baselines of more variance than no baseline at all, and whether significantly."""
    pairs = [
        (row, none)
        for one in found
        if (none := one.of("none")) is not None and none.units is not None
        for row in one.rows
        if row.key.baseline in one.competing and row is not none and row.units is not None
    ]
    family = Family("reference", len(pairs), alpha)
    for row, none in pairs[:_PAIRS]:
        # Of most the mean alone says that they are not, which takes no interval.
        if row.intervals["variance"].value > none.intervals["variance"].value:
            rivals = rivals_of(none, [row], family.level)
            yield _line(family, row, none, ratio(row, none, level), next(iter(rivals), None))


def _of_bias(rows: Sequence[GradientRow], alpha: float) -> Iterator[Comparison]:
    """The bias of every row against 0, relative to the length of the gradient."""
    tested = sum(not math.isnan(row.bias.p_value) for row in rows)
    for row in rows:
        bias = row.bias
        size = Interval(bias.relative_bias, math.nan, bias.at_most, 1 - alpha)
        yield Comparison(
            "bias",
            row.key.path,
            "",
            "relative_bias",
            size,
            bias.verdict,
            p_adjusted=bias.p_value,
            reason=bias.reason,
            comparisons=tested,
            alpha=alpha,
        )


def effect(row: GradientRow, other: GradientRow, name: str, level: float) -> Effect | None:
    """The ratio of a measure, paired by seed and instance where both rows have the same."""
    if name not in row.intervals or name not in other.intervals or not _paired(row, other):
        return None
    found = ratio(row, other, level, name)
    return Effect(found, ratio=True, paired="seed and instance") if found.known else None


def _paired(row: GradientRow, other: GradientRow) -> bool:
    """Whether the instances are the same: they are drawn by environment and seed."""
    there = row.units is not None and other.units is not None
    alike = all(
        getattr(row.key, axis) == getattr(other.key, axis) for axis in ("environment", "setting")
    )
    return there and alike and row.finished == other.finished and row.instances == other.instances


def judge(claim: Claim, met: Sequence[tuple[GradientRow, ...]], alpha: float) -> Judged:
    """The verdict on a claim that meets these rows, or pairs or lists of them."""
    for row in (row for found in met for row in found):
        if row.units is None:
            return Judged("undecided", f"{row.key.path}: {row.bias.reason}")
        if row.bias.verdict == "alarm":
            return Judged("undecided", _evidence(row))
    if isinstance(claim, RatioClaim):
        return _judge_ratio(claim, met, alpha)
    if isinstance(claim, OrderClaim):
        return _judge_order(claim, met, alpha)
    rows = [row for (row,) in met]
    if isinstance(claim, UnbiasedClaim):
        return _judge_unbiased(claim, rows, alpha)
    if isinstance(claim, BiasedClaim):
        return _judge_biased(claim, rows)
    assert isinstance(claim, EqualsClaim)
    return _judge_equals(claim, rows, alpha)


def _judge_unbiased(claim: UnbiasedClaim, met: Sequence[GradientRow], alpha: float) -> Judged:
    """Refuted by a bias that was found, supported where none was and the claimed one would be.

    A bias that was found, but not at a fifth of the level, leaves it undecided.
    """
    biased = [row for row in met if row.bias.verdict in FOUND_BIASED]
    if biased:
        worst = min(biased, key=_clearness)
        text = f"{len(biased)} of {len(met)} rows biased, most clearly {_evidence(worst)}"
        if worst.enumerated or worst.bias.p_value < _REFUTES_AT * alpha:
            return Judged("refuted", text)
        return Judged("undecided", f"{text}, which refutes below {_REFUTES_AT * alpha:g}")
    unjudged = [row for row in met if row.bias.verdict not in _NOT_SEEN]
    if unjudged:
        example = f"{unjudged[0].key.path}: {unjudged[0].bias.reason}"
        return Judged("undecided", f"{len(unjudged)} of {len(met)} rows not judged, e.g. {example}")
    untold = [row for row in met if math.isnan(row.bias.detectable)]
    if untold:
        example = f"{untold[0].key.path}: {untold[0].bias.reason}"
        return Judged(
            "undecided", f"no bias seen in {len(met)} rows, but in {len(untold)} {example}"
        )
    widest = max(met, key=lambda row: row.bias.detectable)
    if all(row.enumerated for row in met):
        seen = (
            f"unbiased by complete enumeration in {len(met)} rows, "
            "to a relative bias of at most "
            f"{widest.bias.detectable:.2g} ({widest.key.path})"
        )
    else:
        seen = (
            f"no bias seen in {len(met)} rows; "
            "the smallest bias along the gradient that could have been seen is at most "
            f"{widest.bias.detectable:.2g} ({widest.key.path})"
        )
    if not widest.bias.detectable <= claim.detectable:
        return Judged("undecided", f"{seen}, more than the {claim.detectable:g} asked for")
    return Judged("supported", seen)


def _judge_biased(claim: BiasedClaim, met: Sequence[GradientRow]) -> Judged:
    """Supported where every row has the claimed bias.

    Enumeration decides every row. A test refutes only by finding the other kind where it proves it:
    a bias off the gradient, where one of scale alone was claimed; a bias that it does not see
    leaves the claim undecided.
    """
    wanted = "biased" if claim.bias == "direction" else "scale bias"
    verdicts: list[Judged] = []
    for row in met:
        if row.bias.verdict == wanted:
            verdicts.append(Judged("supported", _evidence(row)))
        elif row.bias.verdict == "biased" or (
            row.enumerated and row.bias.verdict in (*FOUND_BIASED, *_NOT_SEEN)
        ):
            verdicts.append(Judged("refuted", _evidence(row)))
        else:
            verdicts.append(Judged("undecided", _evidence(row)))
    return together(verdicts, "rows")


def _clearness(row: GradientRow) -> tuple[float, float]:
    """Enumerated rows first, then the smallest p-value."""
    return -1.0 if row.enumerated else row.bias.p_value, -row.bias.relative_bias


def _evidence(row: GradientRow) -> str:
    bias = row.bias
    text = f"{row.key.path}: {bias.verdict}"
    if bias.verdict in ("undefined", "reference", "alarm"):
        return f"{text} ({bias.reason})"
    if row.enumerated:
        return f"{text}, relative bias {number(bias.relative_bias)} by complete enumeration"
    return f"{text}, p = {bias.p_value:.2g} (Holm)" if not math.isnan(bias.p_value) else text


def _judge_equals(claim: EqualsClaim, met: Sequence[GradientRow], alpha: float) -> Judged:
    """Supported where every interval lies within the tolerance, refuted where one lies outside."""
    level, verdicts, sampled = 1 - alpha / len(met), [], False
    for row in met:
        assert row.units is not None
        wanted = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
        found = interval(row.units, claim.metric, level=level)
        sampled = sampled or found.width > 0
        slack = claim.slack(wanted)
        low, high = wanted - slack, wanted + slack
        verdict: Verdict = "supported" if low <= found.low and found.high <= high else "undecided"
        if found.low > high or found.high < low:
            verdict = "refuted"
        text = f"{row.key.path}: {shown(found)}, claimed {number(wanted)} ± {slack:.3g}"
        verdicts.append(Judged(verdict, text, found))
    return together(verdicts, "intervals", alpha if sampled else None)


def _judge_ratio(claim: RatioClaim, met: Sequence[tuple[GradientRow, ...]], alpha: float) -> Judged:
    """Judge each ratio by its paired interval, which may touch the bound."""
    level, verdicts = 1 - alpha / len(met), []
    for row, partner in met:
        alike = same_mean(row, partner)
        found = ratio(row, partner, level, claim.metric, claim.about, alike=alike)
        text = f"{row.key.path} over {partner.key.path}: {shown(found)}"
        verdicts.append(Judged(side(found, claim.at_least, claim.at_most), text, found))
    return together(verdicts, "ratios", alpha)


def _judge_order(claim: OrderClaim, met: Sequence[tuple[GradientRow, ...]], alpha: float) -> Judged:
    """Judge the ratio of each row to the one before it: its paired interval must lie above 1.

    Below, it refutes. Neighbours suffice, as the order goes from each to the next. Rows of
    different settings have other instances as their units: the ratio is then as good as one of
    independent rows, and its interval still covers.
    """
    pairs = [pair for rows in met for pair in pairwise(rows)]
    level, verdicts = 1 - alpha / len(pairs), []
    for lower, upper in pairs:
        alike = same_mean(upper, lower)
        found = ratio(upper, lower, level, claim.metric, alike=alike)
        text = f"{upper.key.path} over {lower.key.path}: {shown(found)}"
        verdicts.append(Judged(strict_side(found, 1.0, None), text, found))
    return together(verdicts, "ratios", alpha)
