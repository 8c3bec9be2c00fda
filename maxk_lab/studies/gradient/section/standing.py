"""Where each row of the short table stands: its variance over the least, and who is told apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from maxk_lab.report.document import marked
from maxk_lab.report.rows import grouped
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.gradient.row.best import FOUND_BIASED
from maxk_lab.studies.gradient.row.model import GradientKey, GradientRow, Rival
from maxk_lab.studies.gradient.section.across import Across, ratio
from maxk_lab.studies.gradient.section.contests import contests

STAR, STAR_HERE, MAYBE, SAME = "★", "(★)", "≈", "="


@dataclass(frozen=True)
class Standing:
    """The paired ratio of a row's variance to the least of its gradient, None for that itself.

    The mark is a star for the least that is told apart from all others, in brackets where it is so
    for the measured instances alone, `≈` for one that is not and for those that it is not told
    apart from, `=` for those that are the same on every instance.
    """

    over: Interval | None
    mark: str = ""

    @property
    def text(self) -> str:
        """`1.10 [1.08, 1.11] ≈`; of the least itself its mark and 1."""
        return f"{'1' if self.over is None else marked(self.over)} {self.mark}".strip()


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
            found[row.key] = Standing(over, _mark(row, least, among))
    return found


def _comparable(row: GradientRow) -> bool:
    fair = row.catalogued_unbiased and row.bias.verdict not in FOUND_BIASED
    return fair and row.units is not None


def _mark(row: GradientRow, least: GradientRow, among: Across | None) -> str:
    reasons = dict(_reasons(least, among))
    if row.key != least.key:
        return reasons.get(row.key, "")
    found = set(reasons.values()) - {SAME}
    return MAYBE if MAYBE in found else STAR_HERE if found else STAR


def _reasons(least: GradientRow, among: Across | None) -> Iterator[tuple[GradientKey, str]]:
    """The mark of each rival of the least, of its own estimator or of another."""
    for rival in least.rivals:
        yield replace(least.key, baseline=rival.baseline), _of(rival)
    for row, rival in among.rivals if among else ():
        yield row.key, _of(rival)


def _of(rival: Rival) -> str:
    return "" if rival.here else SAME if rival.why == "same" else MAYBE


def compared(standing: Mapping[GradientKey, Standing]) -> bool:
    """Whether any row is compared with another."""
    return any(one.over is not None for one in standing.values())


def legend(heading: str, cells: str, *, level: float, alpha: float) -> Iterator[str]:
    """The lines for the marks that stand in these cells, of columns of this heading."""
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
            f"same gradient; paired, {level:.0%}, each alone. {'; '.join(told)}."
        )
    if "†" in cells:
        yield "†: about these instances alone; too few carry the mean to speak of others."
