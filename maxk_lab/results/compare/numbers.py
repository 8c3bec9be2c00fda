"""How far the numbers of B are from those of A, with verdicts.

Runs with the same seeds have the same instances, and are paired where they can be. Other seeds are
other policies and instances: runs that differ in their seeds are two samples of values of seeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from maxk_lab.report.parts import effect
from maxk_lab.report.tables import ROUNDING, Effect, Estimate, PooledRow, numbers
from maxk_lab.results.compare.model import Number, Verdict
from maxk_lab.results.compare.pairs import Pair
from maxk_lab.results.reading import ReadRun
from maxk_lab.statistics.intervals import EXACT, Interval, exactly
from maxk_lab.statistics.seeds.over_seeds import SEEDS
from maxk_lab.statistics.units import Array
from maxk_lab.sweeps.studies import STUDIES

# The difference of what is the same.
_NOTHING = Effect(exactly(0.0))


@dataclass(frozen=True)
class Differences:
    """The differences of rows of two runs, whose intervals can be had at any level.

    Where values cannot be paired, both intervals are taken at a level at which they hold together
    (Bonferroni), so whatever their dependence: wide, and never wrong.
    """

    a: ReadRun
    b: ReadRun

    def number(
        self, pair: Pair, name: str, both: tuple[Estimate, Estimate], how: Judging
    ) -> Number:
        """A number of both runs, its difference, and the verdict.

        With other seeds it is better or worse only over the seeds.
        """
        a, b = both
        shown, corrected = how.level, how.corrected
        if pair.same_seeds:
            effect = self.effect(pair, name, shown)
            return Number(
                name, a, b, effect, verdict(self.effect(pair, name, corrected), a, b, how.tie)
            )
        mine, theirs = self._of_each_seed(pair, name)
        ratio = a.as_ratio and bool((mine > a.rounding).all() and (theirs > 0).all())
        effect = between_seeds(mine, theirs, shown, ratio=ratio)
        found = verdict(between_seeds(mine, theirs, corrected, ratio=ratio), a, b, how.tie)
        if found == "not significant":
            of_these = verdict(self._unpaired(pair, name, corrected), a, b, how.tie)
            found = (
                of_these if of_these in ("not significant", "tie") else "differs for these seeds"
            )
        if not effect.interval.known:
            effect = self._unpaired(pair, name, shown)
        return Number(name, a, b, effect, found)

    @cached_property
    def _rows_of_cells(self) -> tuple[Mapping[str, PooledRow], Mapping[str, PooledRow]]:
        # The level is of intervals that nobody looks at: only the values are used.
        return self.a.rows_of_cells(0.95), self.b.rows_of_cells(0.95)

    def _of_each_seed(self, pair: Pair, name: str) -> tuple[Array, Array]:
        """The number in each seed of both runs; NaN where the report of a seed has none."""
        mine, theirs = (
            np.array([_value(pair.kind, rows[cell], name) for cell in row.cells.values()])
            for rows, row in zip(self._rows_of_cells, (pair.a, pair.b), strict=True)
        )
        return mine, theirs

    def effect(self, pair: Pair, name: str, level: float) -> Effect:
        """How far a number of B is from A's; no ratio where that of A may be rounding alone."""
        part = STUDIES.get(pair.kind).part("compare")
        mine = numbers(pair.kind, pair.a)[name]
        found = None
        if not abs(mine.interval.value) <= mine.rounding:
            found = effect(part, pair.b, pair.a, name, level)
        return self._unpaired(pair, name, level) if found is None else found

    def _unpaired(self, pair: Pair, name: str, level: float) -> Effect:
        each = 1 - (1 - level) / 2
        mine = self.a.numbers_at(each)[pair.kind, pair.a.key][name]
        theirs = self.b.numbers_at(each)[pair.kind, pair.b.key][name]
        return set_against(mine, theirs, level)


def set_against(a: Estimate, b: Estimate, level: float) -> Effect:
    """The difference of two numbers from intervals of which each holds at half of the error.

    Their ratio, where they are told so, neither interval reaches below 0, and A's number is more
    than rounding.
    """
    mine, theirs = a.interval, b.interval
    asked = [found.question for found in (mine, theirs) if found.question != EXACT]
    reason = next(
        (found.reason or "no interval" for found in (mine, theirs) if not found.known), ""
    )
    if not reason and len(set(asked)) > 1:
        reason = f"A's interval is about {mine.question}, B's about {theirs.question}"
    ratio = a.as_ratio and mine.value > a.rounding and mine.low >= 0 and theirs.low >= 0
    if reason:
        value = theirs.value / mine.value if ratio else theirs.value - mine.value
        return Effect(Interval(value, math.nan, math.nan, level, reason), ratio=ratio)
    ends = (
        (theirs.low / mine.high, theirs.high / mine.low if mine.low > 0 else math.inf)
        if ratio
        else (theirs.low - mine.high, theirs.high - mine.low)
    )
    value = theirs.value / mine.value if ratio else theirs.value - mine.value
    about = asked[0] if asked else EXACT
    return Effect(Interval(value, *ends, level, question=about), ratio=ratio)


def between_seeds(a: Array, b: Array, level: float, *, ratio: bool) -> Effect:
    """The median difference, or ratio, of a seed of B and one of A (Hodges and Lehmann 1963).

    Its interval is of the values that Mann and Whitney's exact test does not reject. The test needs
    no bell shape: where nothing but the seeds differs, any division of all seeds was as likely.
    """
    apart = np.sort((np.divide if ratio else np.subtract).outer(b, a), axis=None)
    value = float(np.median(apart))
    cut = _rejected(len(a), len(b), 1 - level)
    if cut == 0 or math.isnan(value):
        reason = "not defined in every seed" if cut else f"{len(a)} and {len(b)} seeds: too few"
        return Effect(Interval(value, math.nan, math.nan, level, reason), ratio=ratio)
    low, high = float(apart[cut - 1]), float(apart[-cut])
    return Effect(Interval(value, low, high, level, question=SEEDS), ratio=ratio)


@cache
def _rejected(count: int, others: int, alpha: float) -> int:
    """How many values of Mann and Whitney's U, from 0 on, a two-sided exact test rejects."""
    most = count * others
    # Sets of so many samples by the sum of their ranks, less the least that it can be.
    sums = np.zeros((count + 1, most + 1))
    sums[0, 0] = 1
    for rank in range(count + others):
        for size in range(min(rank + 1, count), 0, -1):
            step = rank - (size - 1)
            if step <= most:
                sums[size, step:] += sums[size - 1, : most + 1 - step]
    below = sums[count].cumsum() / sums[count].sum()
    return int((2 * below <= alpha).sum())


def verdict(effect: Effect, a: Estimate, b: Estimate, tie: float) -> Verdict:
    """Whether B is better or worse, by an interval that holds for all that are compared.

    A tie where all of it lies within the share `tie` of A's number, or within what rounding
    explains, whatever else it shows.
    """
    found = effect.interval
    if not found.known:
        return "not significant"
    nothing = 1.0 if effect.ratio else 0.0
    size = abs(a.interval.value)
    slack = max(max(tie, ROUNDING) * size, a.rounding, b.rounding)
    if effect.ratio:
        slack /= size
    if found.low >= nothing - slack and found.high <= nothing + slack:
        return "tie"
    if found.low <= nothing <= found.high:
        return "not significant"
    if not a.better:
        return "differs"
    return "better" if (found.low > nothing) == (a.better == "higher") else "worse"


@dataclass(frozen=True)
class Judging:
    """The level of the intervals that are shown, that of the verdicts, and what a tie is."""

    level: float
    corrected: float
    tie: float


def compared(
    differences: Differences,
    pairs: Sequence[Pair],
    wanted: Collection[str],
    *,
    level: float,
    alpha: float,
    tie: float,
) -> tuple[list[tuple[Number, ...]], int]:
    """The numbers of each pair, and for how many comparisons their verdicts are corrected.

    That is Bonferroni's correction, over all that are not the same in both. `wanted` names the
    numbers; all if empty.
    """
    asked = [list(_in_both(pair, wanted)) for pair in pairs]
    tests = sum(not _are_same(a, b) for of_pair in asked for _, a, b in of_pair)
    how = Judging(level, 1 - alpha / max(1, tests), tie)

    def judged(pair: Pair, name: str, a: Estimate, b: Estimate) -> Number:
        if _are_same(a, b):
            return Number(name, a, b, _NOTHING, "identical")
        return differences.number(pair, name, (a, b), how)

    return [
        tuple(judged(pair, *both) for both in of_pair)
        for pair, of_pair in zip(pairs, asked, strict=True)
    ], tests


def identical(pair: Pair, wanted: Collection[str]) -> tuple[Number, ...]:
    """The numbers of a row whose cells are the same in both runs, to the last digit."""
    return tuple(Number(*both, _NOTHING, "identical") for both in _in_both(pair, wanted))


def _value(kind: str, row: PooledRow, name: str) -> float:
    found = numbers(kind, row).get(name)
    return math.nan if found is None else found.interval.value


def _are_same(a: Estimate, b: Estimate) -> bool:
    """Whether two numbers with their intervals are the same to the last digit."""
    return a.interval.known and a.interval == b.interval


def _in_both(pair: Pair, wanted: Collection[str]) -> Iterator[tuple[str, Estimate, Estimate]]:
    """The numbers that both have, but for those that compare the row with another of its run."""
    theirs = numbers(pair.kind, pair.b)
    for name, mine in numbers(pair.kind, pair.a).items():
        if name in theirs and not mine.of_pair and (not wanted or name in wanted):
            yield name, mine, theirs[name]
