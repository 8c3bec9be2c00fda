"""How far the numbers of B are from those of A: paired where they can be, with verdicts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from maxk_lab.report.parts import MeasuredPart
from maxk_lab.report.rows import ROUNDING, Effect, Measured
from maxk_lab.results.compare.model import Number, Verdict
from maxk_lab.results.compare.pairs import Pair
from maxk_lab.results.reading import ReadRun, numbers
from maxk_lab.statistics.intervals import EXACT, Interval, exactly
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

    def effect(self, pair: Pair, name: str, level: float) -> Effect:
        """How far a number of B is from A's; no ratio where that of A may be rounding alone."""
        part: MeasuredPart = STUDIES.get(pair.kind).part("measured")
        mine = numbers(pair.kind, pair.a)[name]
        found = None
        if not abs(mine.interval.value) <= mine.rounding:
            found = part.against(pair.b, pair.a, name, level)
        return self._unpaired(pair, name, level) if found is None else found

    def _unpaired(self, pair: Pair, name: str, level: float) -> Effect:
        each = 1 - (1 - level) / 2
        mine = self.a.numbers_at(each)[pair.kind, pair.a.key][name]
        theirs = self.b.numbers_at(each)[pair.kind, pair.b.key][name]
        return set_against(mine, theirs, level)


def set_against(a: Measured, b: Measured, level: float) -> Effect:
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


def verdict(effect: Effect, a: Measured, b: Measured, tie: float) -> Verdict:
    """Whether B is better or worse, by an interval that holds for all that are compared.

    A tie where all of it lies within the share `tie` of A's number, or within what rounding
    explains, whatever else it shows.
    """
    found = effect.interval
    if not found.known:
        return "cannot tell"
    nothing = 1.0 if effect.ratio else 0.0
    size = abs(a.interval.value)
    slack = max(max(tie, ROUNDING) * size, a.rounding, b.rounding)
    if effect.ratio:
        slack /= size
    if found.low >= nothing - slack and found.high <= nothing + slack:
        return "tie"
    if found.low <= nothing <= found.high:
        return "cannot tell"
    if not a.better:
        return "differs"
    return "better" if (found.low > nothing) == (a.better == "higher") else "worse"


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
    corrected = 1 - alpha / max(1, tests)

    def judged(pair: Pair, name: str, a: Measured, b: Measured) -> Number:
        if _are_same(a, b):
            return Number(name, a, b, _NOTHING, "identical")
        effect = differences.effect(pair, name, level)
        found = verdict(differences.effect(pair, name, corrected), a, b, tie)
        return Number(name, a, b, effect, found)

    return [
        tuple(judged(pair, *both) for both in of_pair)
        for pair, of_pair in zip(pairs, asked, strict=True)
    ], tests


def identical(pair: Pair, wanted: Collection[str]) -> tuple[Number, ...]:
    """The numbers of a row whose cells are the same in both runs, to the last digit."""
    return tuple(Number(*both, _NOTHING, "identical") for both in _in_both(pair, wanted))


def _are_same(a: Measured, b: Measured) -> bool:
    """Whether two numbers with their intervals are the same to the last digit."""
    return a.interval.known and a.interval == b.interval


def _in_both(pair: Pair, wanted: Collection[str]) -> Iterator[tuple[str, Measured, Measured]]:
    """The numbers that both have, but for those that compare the row with another of its run."""
    theirs = numbers(pair.kind, pair.b)
    for name, mine in numbers(pair.kind, pair.a).items():
        if name in theirs and not mine.of_pair and (not wanted or name in wanted):
            yield name, mine, theirs[name]
