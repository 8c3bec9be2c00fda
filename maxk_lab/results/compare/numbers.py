"""How far the numbers of run B are from those of run A, with verdicts.

Runs with the same seeds have the same instances, and are paired where they can be. Other seeds are
other policies and instances: runs that differ in their seeds are two samples of values of seeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, get_args

import numpy as np

from maxk_lab.report.tables import (
    ROUNDING,
    Effect,
    Estimate,
    PooledRow,
    numbers,
    rows_of_cells,
)
from maxk_lab.results.frame import ReadRun
from maxk_lab.statistics.intervals import EXACT, Interval, exactly
from maxk_lab.statistics.seeds import SEEDS
from maxk_lab.statistics.units import Array
from maxk_lab.sweeps.studies import STUDIES

# "identical": the same to the last digit, and so is its interval. "tie": any difference is smaller
# than matters. "differs": another number, of which neither side is better. "differs for these
# seeds": another number, as the policies of other seeds may have, whatever else was changed.
Verdict = Literal[
    "worse", "better", "differs", "differs for these seeds", "not significant", "tie", "identical"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Number:
    """A number of a row in both runs: how far B's is from A's, and what follows.

    `effect` has an interval of its own level, `verdict` rests on one that is corrected for all that
    were compared.
    """

    measure: str
    a: Estimate
    b: Estimate
    effect: Effect
    verdict: Verdict


@dataclass(frozen=True)
class Pair:
    """A row in both runs, of a kind of study."""

    kind: str
    a: PooledRow
    b: PooledRow

    @property
    def same_seeds(self) -> bool:
        """Whether both rest on the same seeds; where only some are shared, they do not."""
        return set(self.a.cells) == set(self.b.cells)

    def in_both(self, wanted: Collection[str] = ()) -> Iterator[tuple[str, Estimate, Estimate]]:
        """The numbers of both, or the `wanted`, but for those of a row and another of its run."""
        theirs = numbers(self.kind, self.b)
        for name, mine in numbers(self.kind, self.a).items():
            if name in theirs and not mine.of_pair and (not wanted or name in wanted):
                yield name, mine, theirs[name]


@dataclass(frozen=True)
class Differences:
    """The differences of rows of two runs, whose intervals can be had at any level.

    Those that are shown have the `level`. A difference that is surely less than the share `tie` of
    A's number is a tie.
    """

    a: ReadRun
    b: ReadRun
    level: float
    tie: float

    def of(
        self, same: Sequence[Pair], apart: Sequence[Pair], wanted: Collection[str], alpha: float
    ) -> tuple[list[tuple[Number, ...]], int]:
        """The numbers of each pair, and for how many comparisons their verdicts are corrected.

        That is Bonferroni's correction, over all that are not the same in both; the cells of `same`
        pairs are.
        """
        asked = [list(pair.in_both(wanted)) for pair in apart]
        tests = sum(not _are_same(a, b) for of_pair in asked for _, a, b in of_pair)
        corrected, nothing = 1 - alpha / max(1, tests), Effect(exactly(0.0))
        told = [
            tuple(
                Number(name, a, b, nothing, "identical")
                if _are_same(a, b)
                else self._number(pair, name, a, b, corrected)
                for name, a, b in of_pair
            )
            for pair, of_pair in zip(apart, asked, strict=True)
        ]
        identical = [
            tuple(Number(*both, nothing, "identical") for both in pair.in_both(wanted))
            for pair in same
        ]
        return [*identical, *told], tests

    def _number(self, pair: Pair, name: str, a: Estimate, b: Estimate, corrected: float) -> Number:
        """With other seeds a number is better or worse only over the seeds."""
        if pair.same_seeds:
            found = verdict(self._effect(pair, name, corrected), a, b, self.tie)
            return Number(name, a, b, self._effect(pair, name, self.level), found)
        mine, theirs = self._of_each_seed(pair, name)
        ratio = a.as_ratio and bool((mine > a.rounding).all() and (theirs > 0).all())
        effect = between_seeds(mine, theirs, self.level, ratio=ratio)
        found = verdict(between_seeds(mine, theirs, corrected, ratio=ratio), a, b, self.tie)
        if found == "not significant":
            found = verdict(self._unpaired(pair, name, corrected), a, b, self.tie)
            if found not in ("not significant", "tie"):
                found = "differs for these seeds"
        if not effect.interval.known:
            effect = self._unpaired(pair, name, self.level)
        return Number(name, a, b, effect, found)

    @cached_property
    def _rows_of_cells(self) -> tuple[Mapping[str, PooledRow], Mapping[str, PooledRow]]:
        # The level is of intervals that nobody looks at: only the values are used.
        mine, theirs = (rows_of_cells(run.records.values(), 0.95) for run in (self.a, self.b))
        return mine, theirs

    def _of_each_seed(self, pair: Pair, name: str) -> tuple[Array, Array]:
        """The number in each seed of both runs; NaN where the report of a seed has none."""
        found = []
        for rows, row in zip(self._rows_of_cells, (pair.a, pair.b), strict=True):
            of_cells = [numbers(pair.kind, rows[cell]).get(name) for cell in row.cells.values()]
            found.append(np.array([one.interval.value if one else math.nan for one in of_cells]))
        return found[0], found[1]

    def _effect(self, pair: Pair, name: str, level: float) -> Effect:
        """How far a number of B is from A's; no ratio where that of A may be rounding alone."""
        part = STUDIES.get(pair.kind).part("compare")
        mine = numbers(pair.kind, pair.a)[name]
        found: Effect | None = None
        if hasattr(part, "effect") and not abs(mine.interval.value) <= mine.rounding:
            found = part.effect(pair.b, pair.a, name, level)
        return self._unpaired(pair, name, level) if found is None else found

    def _unpaired(self, pair: Pair, name: str, level: float) -> Effect:
        """The effect by intervals that both hold at that level (Bonferroni), whatever ties them."""
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
    asked = [one.question for one in (mine, theirs) if one.question != EXACT]
    reason = next((one.reason or "no interval" for one in (mine, theirs) if not one.known), "")
    if not reason and len(set(asked)) > 1:
        reason = f"A's interval is about {mine.question}, B's about {theirs.question}"
    ratio = a.as_ratio and mine.value > a.rounding and mine.low >= 0 and theirs.low >= 0
    value = theirs.value / mine.value if ratio else theirs.value - mine.value
    if reason:
        return Effect(Interval(value, math.nan, math.nan, level, reason), ratio=ratio)
    ends = (
        (theirs.low / mine.high, theirs.high / mine.low if mine.low > 0 else math.inf)
        if ratio
        else (theirs.low - mine.high, theirs.high - mine.low)
    )
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


def _are_same(a: Estimate, b: Estimate) -> bool:
    """Whether two numbers with their intervals are the same to the last digit."""
    return a.interval.known and a.interval == b.interval
