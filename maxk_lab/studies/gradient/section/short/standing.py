"""Where each row of the short table stands: its variance over the least, and who is told apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from maxk_lab.report.document import UNDEFINED, marked
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.gradient.row.best import FOUND_BIASED
from maxk_lab.studies.gradient.row.contests import contests
from maxk_lab.studies.gradient.row.model import GradientKey, GradientRow, Rival, Why
from maxk_lab.studies.gradient.row.order import is_oracle
from maxk_lab.studies.gradient.section.across import Across, ratio
from maxk_lab.studies.gradient.section.focus import place_of
from maxk_lab.studies.gradient.section.words import WHY, Words, bounded, joined, method

STAR, STAR_HERE, MAYBE, SAME = "★", "(★)", "≈", "="


@dataclass(frozen=True)
class Standing:
    """The paired ratio of a row's variance to the least of its gradient, None for that itself.

    The mark is a star for the least that is told apart from all others, in brackets where it is so
    for the measured instances alone, `≈` for one that is not and for those that it is not told
    apart from, `=` for those that are the same on every instance.
    `why` is the reason where the two are not told apart.
    """

    over: Interval | None
    mark: str = ""
    why: Why | None = None

    @property
    def seems_apart(self) -> bool:
        """Whether it is not told apart, though its own interval leaves 1 out."""
        if self.mark != MAYBE or self.over is None or not self.over.known:
            return False
        return not self.over.low <= 1 <= self.over.high

    @property
    def text(self) -> str:
        """`1.10 [1.08, 1.11] ≈`; of the least itself its mark and 1."""
        if self.over is None:
            return f"1 {self.mark}".strip()
        return f"{marked(self.over) if bounded(self.over) else UNDEFINED} {self.mark}".strip()


def standings(
    rows: Sequence[GradientRow], met: Sequence[Across], level: float
) -> dict[GradientKey, Standing]:
    """The standing of all these rows that have one: biased ones have none, nor those left alone.

    `met` are the comparisons between estimators; their least is that of all rows of its gradient.
    """
    beyond = {(one.least.key.gradient, one.least.key.n): one for one in met}
    own = {one.first.key.group: one for one in contests(rows) if one.least is not None}
    found: dict[GradientKey, Standing] = {}
    for place, members in grouped(rows, lambda row: (row.key.gradient, row.key.n)).items():
        among = beyond.get(place)
        for row in members:
            contest = own.get(row.key.group)
            least = among.least if among else contest.least if contest else None
            if least is None or not _comparable(row):
                continue
            over = None if row.key == least.key else ratio(row, least, level)
            rivals = dict(_rivals(least, among))
            why = rivals[row.key].why if row.key in rivals else None
            found[row.key] = Standing(over, _mark(row, least, rivals), why)
    return found


def _comparable(row: GradientRow) -> bool:
    fair = row.catalogued_unbiased and row.bias.verdict not in FOUND_BIASED
    return fair and row.units is not None


def _mark(row: GradientRow, least: GradientRow, rivals: Mapping[GradientKey, Rival]) -> str:
    if row.key != least.key:
        return _of(rivals[row.key]) if row.key in rivals else ""
    found = set(map(_of, rivals.values())) - {SAME}
    return MAYBE if MAYBE in found else STAR_HERE if found else STAR


def _rivals(least: GradientRow, among: Across | None) -> Iterator[tuple[GradientKey, Rival]]:
    """The rivals of the least, of its own estimator or of another."""
    for rival in least.rivals:
        yield replace(least.key, baseline=rival.baseline), rival
    for row, rival in among.rivals if among else ():
        yield row.key, rival


def _of(rival: Rival) -> str:
    return "" if rival.here else SAME if rival.why == "same" else MAYBE


def compared(standing: Mapping[GradientKey, Standing]) -> bool:
    """Whether any row is compared with another."""
    return any(one.over is not None for one in standing.values())


def legend(
    heading: str, cells: str, rows: Sequence[GradientRow], *, level: float, alpha: float
) -> Iterator[str]:
    """The lines for the marks that stand in these cells of rows, in columns of this heading."""
    oracles = list(dict.fromkeys(row.key.baseline for row in rows if is_oracle(row)))
    aside = f", but for {joined(oracles)}" if oracles else ""
    marks = {
        STAR: f"told apart from all others (corrected over the whole sweep at {alpha:g})",
        STAR_HERE: "told apart from them on the measured instances alone",
        MAYBE: "the least as measured, and those not told apart from it",
        SAME: "the same as the least on every instance",
    }
    told = [f"{mark}: {meaning}" for mark, meaning in marks.items() if f" {mark} " in f"{cells} "]
    if told:
        yield (
            f"{heading}: as a multiple of that of the unbiased method of least variance for the "
            f"same gradient{aside}; paired, {level:.0%}, each alone. {'; '.join(told)}."
        )
    if oracles:
        yield (
            f"{joined(oracles)}: fitted to every possible group of samples, which no training has; "
            "there to compare with."
        )


def unlike_the_bars(
    rows: Sequence[GradientRow],
    standing: Mapping[GradientKey, Standing],
    words: Words,
    *,
    level: float,
    alpha: float,
) -> Iterator[str]:
    """The line on rows that are marked `≈` beside an interval clear of 1."""
    clear = [(row, one) for row in rows if (one := standing.get(row.key)) and one.seems_apart]
    if clear:
        several = len(set(map(place_of, rows))) > 1
        reasons = grouped(
            clear, lambda pair: (words.place(pair[0]) if several else "", pair[1].why)
        )
        each = [
            f"{joined([method(row, estimator=words.named) for row, _ in members])}"
            f"{f' {place}' if place else ''} ({WHY[why]})"
            for (place, why), members in reasons.items()
            if why
        ]
        yield (
            f"{MAYBE} beside an interval that leaves 1 out: that is of one comparison at "
            f"{level:.0%}, and the mark is corrected for all of the sweep at {alpha:.0%}, and asks "
            f"for more than means. Not told apart: {'; '.join(each)}."
        )
