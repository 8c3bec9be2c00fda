"""The short table of a gradient study: every method at one size, ranked, with its bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maxk_lab.report.document import UNDEFINED, Block, Sheet, breaks_between
from maxk_lab.report.model import Summary
from maxk_lab.report.naming import seed_words
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.bias import POWER
from maxk_lab.studies.gradient.row.best import FOUND_BIASED
from maxk_lab.studies.gradient.row.model import GradientKey, GradientRow
from maxk_lab.studies.gradient.row.order import is_oracle
from maxk_lab.studies.gradient.section.across import Across
from maxk_lab.studies.gradient.section.focus import Focus, place_of
from maxk_lab.studies.gradient.section.short.columns import COULD_SEE, OVER, RELATIVE, Line, columns
from maxk_lab.studies.gradient.section.short.standing import (
    Standing,
    compared,
    legend,
    standings,
    unlike_the_bars,
)
from maxk_lab.studies.gradient.section.short.tally import tally
from maxk_lab.studies.gradient.section.words import Words, counted, some

_LINES = 12
_ABSENT = 6
_TESTS = (
    "could see: the smallest bias along the gradient, as a share of its length, that the test "
    f"finds with probability {POWER:g}; {UNDEFINED} where too few groups of samples tell it."
)


def short_table(
    rows: Sequence[GradientRow],
    at: Focus,
    words: Words,
    met: Sequence[Across],
    summary: Summary,
) -> tuple[Block, ...]:
    """The table at the focus; where there are too many places for it, one that counts them.

    `met` are the comparisons between estimators.
    """
    counts = tally(rows, summary.alpha)
    if counts is not None:
        return (counts,)
    one_method = len({(row.key.estimator, row.key.baseline) for row in rows}) == 1
    shown = [
        row
        for row in rows
        if (place_of(row) in at.places and row.key.k == at.k if one_method else at.has(row))
    ]
    if not any(row.units is not None for row in shown):
        return ()
    standing = standings(shown, met, summary.level)
    elsewhere = {(row.key.estimator, row.key.baseline): row for row in rows}
    for row in shown:
        elsewhere.pop((row.key.estimator, row.key.baseline), None)
    named = [Line({place_of(row): row}).method for row in elsewhere.values()]
    absent = f"At other sizes alone: {some(named, _ABSENT)}." if named else ""
    return (_sheet(shown, at, words, standing, one_method, summary, absent),)


def _sheet(
    rows: Sequence[GradientRow],
    at: Focus,
    words: Words,
    standing: Mapping[GradientKey, Standing],
    one_method: bool,
    summary: Summary,
    absent: str,
) -> Sheet:
    methods = grouped(rows, lambda row: (row.key.estimator, row.key.baseline, row.key.n))
    lines = [Line({place_of(row): row for row in members}) for members in methods.values()]
    if not one_method:
        lines.sort(key=lambda line: _rank(line, at))
    found = columns(lines, at, words, rows, standing, one_method=one_method)
    shown = tuple(lines[:_LINES])
    cells = [column.text(line) for line in shown for column in found]
    caption = [
        *([] if one_method else at.words[:1]),
        *at.words[1:],
        *filter(None, (absent,)),
        *_legend(rows, " ".join(cells), summary),
        *([_TESTS] if COULD_SEE in found else []),
        *unlike_the_bars(
            [row for line in shown for row in line.rows.values()],
            standing,
            words,
            level=summary.level,
            alpha=summary.alpha,
        ),
    ]
    if (more := len(lines) - _LINES) > 0:
        stand = "stands" if more == 1 else "stand"
        caption.append(f"{counted(more, 'more line')} {stand} in the tables further down.")
    where = {row.key.plain or row.key.environment for row in rows}
    size = f"K = {at.k}" if one_method else f"n = {at.n}, K = {at.k}"
    # Of several places the headings are their names, and the title says what stands below them.
    told = OVER if compared(standing) else RELATIVE.heading
    title = f"In short, {f'{told}, ' * (len(at.places) > 1)}{size}"
    title += f": {where.pop()}" if len(where) == 1 else ""
    kinds = [_rank(line, at)[0] for line in shown]
    return Sheet(title, found, shown, tuple(caption), breaks_between(kinds))


def _rank(line: Line, at: Focus) -> tuple[float, ...]:
    """The variances over the least of the unbiased lines, place by place; then all others."""
    row = next(line.rows[place] for place in at.places if place in line.rows)
    if row.units is None:
        return (3.0, 0.0)
    if not row.catalogued_unbiased or row.bias.verdict in FOUND_BIASED:
        return (2.0, 0.0)
    return (float(is_oracle(row)), row.intervals["variance"].value)


def _legend(rows: Sequence[GradientRow], cells: str, summary: Summary) -> list[str]:
    """The lines that explain the words and marks which stand in these cells."""
    first = rows[0]
    of_these = "†: about these instances alone; too few carry the mean to speak of others."
    if all(row.enumerated for row in rows):
        of_these = (
            "†: exact for these instances, of which every possible group of samples was counted; "
            "too few carry the mean to speak of others."
        )
    lines = [
        "n: the samples of an instance that one gradient estimate is made from; K: the best of K "
        "counts (Max@K); baseline: what is taken off the weight of each sample.",
        f"{seed_words(rows)}, {first.instances} instance{'s' if first.instances > 1 else ''} each; "
        "policies are held fixed.",
        *legend(OVER, cells, rows, level=summary.level, alpha=summary.alpha),
        *([of_these] if "†" in cells else []),
        "bias: as derived, where it was found and the catalogue derives one; proven, where every "
        "possible group of samples was enumerated.",
    ]
    if "no signal" in cells:
        lines.append("no signal: every group had weight 0, or gave the same estimate.")
    if "not compared" in cells:
        lines.append("not compared: biased by its formula, and without a bias here.")
    return lines
