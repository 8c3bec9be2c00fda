"""How far the numbers of run B are from those of run A, with verdicts.

Runs with the same seeds have the same instances, and are paired where they can be. Other seeds are
other policies and instances: runs that differ in their seeds are two samples of values of seeds.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Literal, get_args

import numpy as np
from scipy import stats

from maxk_lab.reports.tables import ROUNDING, PooledRow, row_estimates, rows_of_cells
from maxk_lab.results.frame import ReadRun
from maxk_lab.statistics.intervals import EXACT, Interval, exactly, undefined
from maxk_lab.statistics.measures import described
from maxk_lab.statistics.seeds import SEEDS
from maxk_lab.statistics.units import Array
from maxk_lab.sweep_file.studies import STUDIES

# "identical": the same to the last digit, and so is its interval. "tie": any difference is smaller
# than matters. "differs": another number, of which neither side is better. "differs for these
# seeds": another number, as the policies of other seeds may have, whatever else was changed.
Verdict = Literal[
    "worse", "better", "differs", "differs for these seeds", "not significant", "tie", "identical"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
# Counts, and numbers that compare a row with another row of its run.
_NOT_COMPARED = re.compile(
    "instances|pool|steps|rollouts|effective_instances_.*|lower_on|bias_at_most|detectable_bias"
    "|(median_)?over_.*|(.*_)?difference(@.*|_.*)?|improvement"
)


@dataclass(frozen=True)
class Estimate:
    """A number of a row: its interval, its unit, and the side on which it is better.

    `as_ratio` says that two of them are compared by their ratio rather than by their difference.
    Numbers that differ by up to `rounding` may be the same but for rounding.
    """

    interval: Interval
    unit: str = ""
    better: str = ""
    as_ratio: bool = False
    rounding: float = 0.0


@dataclass(frozen=True)
class Effect:
    """How far a number of one run is from that of another: their difference, or their `ratio`.

    `paired` names the values that were compared one by one, such as "seed and instance".
    """

    interval: Interval
    ratio: bool = False
    paired: str = ""


def numbers(kind: str, row: PooledRow) -> dict[str, Estimate]:
    """The numbers of a row that another run may have, too."""
    table = STUDIES.get(kind).load_module("table")
    found = {}
    for name, interval in row_estimates(kind, row).items():
        column = described(name)
        if column is not None and not _NOT_COMPARED.fullmatch(name):
            rounding = table.rounding(row, name)
            ratio = kind == "gradient"
            found[name] = Estimate(interval, column.unit, column.better, ratio, rounding)
    return found


# An effect with its interval at a level.
_Way = Callable[[float], Effect]
_SAME = Effect(exactly(0.0))
_NONE = Estimate(undefined(0.95, "not a number of this cell"))


@dataclass(frozen=True)
class Pair:
    """A row in both runs, of a kind of study, and the states of its cells, seed by seed.

    Of a row that a run does not plan there it is empty.
    """

    kind: str
    a: PooledRow
    b: PooledRow
    states: tuple[str, ...]

    @property
    def identical(self) -> bool:
        """Whether its cells are the same in both, and so are all metrics, to the last digit."""
        return set(self.states) == {"identical"}

    @property
    def same_seeds(self) -> bool:
        """Whether both rest on the same seeds; where only some are shared, they do not."""
        return set(self.a.cells) == set(self.b.cells)

    def in_both(self) -> dict[str, tuple[Estimate, Estimate]]:
        """The numbers of both, but for those of a row and another of its run."""
        theirs = numbers(self.kind, self.b)
        return {
            name: (mine, theirs[name])
            for name, mine in numbers(self.kind, self.a).items()
            if name in theirs
        }


@dataclass(frozen=True)
class Number:
    """A number of a row in both runs: how far B's is from A's, and what follows.

    `effect` has an interval of its own level, `verdict` rests on one that is corrected for all that
    were compared.
    """

    pair: Pair
    measure: str
    a: Estimate
    b: Estimate
    effect: Effect = _SAME
    verdict: Verdict = "identical"


@dataclass(frozen=True)
class Differences:
    """The numbers of two runs set against each other, with intervals at any level.

    Those that are shown have the `level`. A difference that is surely less than the share `tie` of
    A's number is a tie.
    """

    runs: Sequence[ReadRun]
    level: float
    tie: float

    def of(
        self, pairs: Sequence[Pair], wanted: Collection[str], alpha: float
    ) -> tuple[tuple[Number, ...], int]:
        """The numbers of the pairs, or the `wanted`, and for how many verdicts are corrected.

        That is Bonferroni's correction, over all that are not the same in both.
        """
        found = [
            Number(pair, name, a, b)
            for pair in pairs
            for name, (a, b) in pair.in_both().items()
            if not wanted or name in wanted
        ]
        apart = [i for i, one in enumerate(found) if not _are_same(one)]
        for i in apart:
            found[i] = self._judged(found[i], 1 - alpha / len(apart))
        return tuple(found), len(apart)

    def _judged(self, one: Number, corrected: float) -> Number:
        """With other seeds a number is better or worse only over the seeds."""
        held: _Way = partial(self._held, one)
        ways = [held] if one.pair.same_seeds else [self._over_seeds(one), held]
        said: Verdict = "not significant"
        for way in ways:
            if said == "not significant":
                said = verdict(way(corrected), one.a, one.b, self.tie)
                if way is not ways[0] and said not in ("not significant", "tie"):
                    said = "differs for these seeds"
        effect = ways[0](self.level)
        if not effect.interval.defined:
            effect = held(self.level)
        return replace(one, effect=effect, verdict=said)

    def _over_seeds(self, one: Number) -> _Way:
        """The effect by the number in each seed; NaN where the report of a seed has none."""
        values = []
        for of_cells, row in zip(self._of_cells, (one.pair.a, one.pair.b), strict=True):
            found = (numbers(one.pair.kind, of_cells[cell]) for cell in row.cells.values())
            each = [of.get(one.measure, _NONE).interval.value for of in found]
            values.append(np.array(each))
        mine, theirs = values
        ratio = one.a.as_ratio and bool((mine > one.a.rounding).all() and (theirs > 0).all())
        return partial(between_seeds, mine, theirs, ratio=ratio)

    @cached_property
    def _of_cells(self) -> list[Mapping[str, PooledRow]]:
        # The level is of intervals that nobody looks at: only the values are used.
        return [rows_of_cells(run.records.values(), 0.95) for run in self.runs]

    def _held(self, one: Number, level: float) -> Effect:
        """The effect for the policies as they are: paired, or by intervals of each (Bonferroni).

        There is no ratio where the number of A may be rounding alone.
        """
        pair, name = one.pair, one.measure
        part = STUDIES.get(pair.kind).load_module("table")
        if hasattr(part, "effect") and not abs(one.a.interval.value) <= one.a.rounding:
            effect = part.effect(pair.b, pair.a, name, level)
            if effect is not None:
                return Effect(effect.interval, effect.ratio, effect.paired)
        mine, theirs = (run.numbers_at(1 - (1 - level) / 2) for run in self.runs)
        a = replace(one.a, interval=mine[pair.kind, pair.a.key][name])
        b = replace(one.b, interval=theirs[pair.kind, pair.b.key][name])
        return set_against(a, b, level)


def set_against(a: Estimate, b: Estimate, level: float) -> Effect:
    """The difference of two numbers from intervals of which each holds at half of the error.

    Their ratio, where they are told so, neither interval reaches below 0, and A's number is more
    than rounding.
    """
    mine, theirs = a.interval, b.interval
    asked = [one.question for one in (mine, theirs) if one.question != EXACT]
    reason = next((one.reason or "no interval" for one in (mine, theirs) if not one.defined), "")
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

    def p_value(u: int) -> float:
        full, part = divmod(u, others)
        values = [*[others] * full, part - 0.5, *[-1] * count][:count]
        return float(stats.mannwhitneyu(values, range(others), method="exact").pvalue)

    return bisect_left(range(count * others // 2 + 1), True, key=lambda u: p_value(u) > alpha)


def verdict(effect: Effect, a: Estimate, b: Estimate, tie: float) -> Verdict:
    """Whether B is better or worse, by an interval that holds for all that are compared.

    A tie where all of it lies within the share `tie` of A's number, or within what rounding
    explains, whatever else it shows.
    """
    found = effect.interval
    if not found.defined:
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


def _are_same(one: Number) -> bool:
    """Whether both numbers with their intervals are the same to the last digit."""
    known = one.a.interval.defined and one.a.interval == one.b.interval
    return one.pair.identical or known
