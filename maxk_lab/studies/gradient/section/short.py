"""The short table of a gradient study: every method at one size, ranked, with its bias."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from maxk_lab.report.document import UNDEFINED, Block, Column, Sheet, number
from maxk_lab.report.key_columns import BASELINE, ESTIMATOR, N
from maxk_lab.report.model import Summary
from maxk_lab.report.naming import seed_words
from maxk_lab.report.rows import grouped
from maxk_lab.statistics.bias import POWER
from maxk_lab.studies.gradient.columns import OVER_BEST, measure
from maxk_lab.studies.gradient.row.best import FOUND_BIASED
from maxk_lab.studies.gradient.row.model import GradientKey, GradientRow
from maxk_lab.studies.gradient.row.order import is_oracle
from maxk_lab.studies.gradient.section.across import Across
from maxk_lab.studies.gradient.section.bias import verdict_words
from maxk_lab.studies.gradient.section.focus import Focus, Place, place_of
from maxk_lab.studies.gradient.section.standing import Standing, compared, legend, standings
from maxk_lab.studies.gradient.section.tally import tally
from maxk_lab.studies.gradient.section.words import Words

_LINES = 12
_OVER = "variance over the least"
_RELATIVE = measure("relative_variance")
_METHOD = Column(
    "method",
    lambda line: line.method,
    lambda line: {"estimator": line.key.estimator, "baseline": line.key.baseline},
)


@dataclass(frozen=True)
class Line:
    """A line of the table: the rows of one method at one size, by their place."""

    rows: Mapping[Place, GradientRow] = field(repr=False)

    @property
    def key(self) -> Any:
        """The key of the first of its rows; all have the same method and size."""
        return next(iter(self.rows.values())).key

    @property
    def method(self) -> str:
        """The estimator with its baseline, if it takes one."""
        takes = self.key.method.takes_baseline
        return f"{self.key.estimator} {self.key.baseline}" if takes else str(self.key.estimator)

    @property
    def cells(self) -> dict[str, str]:
        """The cells of all its rows, by the row's name and the seed."""
        return {
            f"{row.key.path}/seed{seed}": cell
            for row in self.rows.values()
            for seed, cell in row.cells.items()
        }


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
    counted = tally(rows, summary.alpha)
    if counted is not None:
        return (counted,)
    one_method = len({(row.key.estimator, row.key.baseline) for row in rows}) == 1
    shown = [
        row
        for row in rows
        if (place_of(row) in at.places and row.key.k == at.k if one_method else at.has(row))
    ]
    standing = standings(shown, met, summary.level)
    return (_sheet(shown, at, words, standing, one_method, summary),)


def _sheet(
    rows: Sequence[GradientRow],
    at: Focus,
    words: Words,
    standing: Mapping[GradientKey, Standing],
    one_method: bool,
    summary: Summary,
) -> Sheet:
    methods = grouped(rows, lambda row: (row.key.estimator, row.key.baseline, row.key.n))
    lines = [Line({place_of(row): row for row in members}) for members in methods.values()]
    if not one_method:
        lines.sort(key=lambda line: _rank(line, at))
    columns = (
        *_names(lines, one_method),
        *(column for place in at.places for column in _columns(place, at, words, rows, standing)),
        Column("bias", partial(_bias, at=at), lambda line: {}),
        *((_COULD_SEE,) if any(row.bias.verdict == "no bias seen" for row in rows) else ()),
    )
    shown = tuple(lines[:_LINES])
    cells = [column.text(line) for line in shown for column in columns]
    caption = [
        *([] if one_method else at.words[:1]),
        *at.words[1:],
        *_legend(rows, " ".join(cells), summary),
    ]
    if len(lines) > _LINES:
        caption.append(f"{len(lines) - _LINES} more lines stand in the tables further down.")
    where = {row.key.plain or row.key.environment for row in rows}
    size = f"K = {at.k}" if one_method else f"n = {at.n}, K = {at.k}"
    # Of several places the headings are their names, and the title says what stands below them.
    told = _OVER if compared(standing) else _RELATIVE.heading
    title = f"In short, {f'{told}, ' * (len(at.places) > 1)}{size}"
    title += f": {where.pop()}" if len(where) == 1 else ""
    return Sheet(title, columns, shown, tuple(caption))


def _names(lines: Sequence[Line], one_method: bool) -> tuple[Column, ...]:
    """The columns that tell the lines apart."""
    keys = [line.key for line in lines]
    several = len({key.estimator for key in keys}) > 1
    choice = len({key.baseline for key in keys}) > 1
    if several and choice:
        return (_METHOD,)
    return (
        *((ESTIMATOR,) if several else ()),
        *((BASELINE,) if choice or not (several or one_method) else ()),
        *((N,) if one_method else ()),
    )


def _columns(
    place: Place,
    at: Focus,
    words: Words,
    rows: Sequence[GradientRow],
    standing: Mapping[GradientKey, Standing],
) -> list[Column]:
    """The columns of a place: the variance over the least, and beside a single place its size."""
    first = next(row for row in rows if place_of(row) == place)
    name = words.place(first) if len(at.places) > 1 else ""
    found = []
    if not compared(standing) or len(at.places) == 1:
        found.append(_of(place, _RELATIVE.heading, _RELATIVE.text, _RELATIVE.values, name))
    if compared(standing):
        over, values = partial(_over, standing=standing), partial(_values, standing=standing)
        found.append(_of(place, _OVER, over, values, name))
    if len(at.places) == 1 and any(row.over_best for row in rows):
        found.append(_of(place, OVER_BEST.heading, OVER_BEST.text, OVER_BEST.values, name))
    return found


def _of(
    place: Place,
    heading: str,
    text: Callable[[Any], str],
    values: Callable[[Any], Mapping[str, Any]],
    name: str,
) -> Column:
    def shown(line: Line) -> str:
        return text(line.rows[place]) if place in line.rows else ""

    def flat(line: Line) -> Mapping[str, Any]:
        found = values(line.rows[place]) if place in line.rows else {}
        return {f"{key} {name}".strip(): value for key, value in found.items()}

    return Column(name or heading, shown, flat, numeric=True)


def _over(row: GradientRow, standing: Mapping[GradientKey, Standing]) -> str:
    if row.units is None:
        return UNDEFINED
    if not row.catalogued_unbiased or row.bias.verdict in FOUND_BIASED:
        return "biased"
    return standing[row.key].text if row.key in standing else UNDEFINED


def _values(row: GradientRow, standing: Mapping[GradientKey, Standing]) -> Mapping[str, Any]:
    found = standing.get(row.key)
    return {} if found is None or found.over is None else found.over.columns("over_least")


def _rank(line: Line, at: Focus) -> tuple[float, ...]:
    """The variances over the least of the unbiased lines, place by place; then all others."""
    row = next(line.rows[place] for place in at.places if place in line.rows)
    if row.units is None:
        return (3.0, 0.0)
    if not row.catalogued_unbiased or row.bias.verdict in FOUND_BIASED:
        return (2.0, 0.0)
    return (float(is_oracle(row)), row.intervals["variance"].value)


def _bias(line: Line, at: Focus) -> str:
    """The verdicts on the rows that are shown, each once."""
    found = (verdict_words(line.rows[place]) for place in at.places if place in line.rows)
    return "; ".join(dict.fromkeys(found))


def _could_see(line: Line) -> str:
    """The largest of its rows without a bias: what would have been seen in all of them."""
    found = [
        row.bias.detectable
        for row in line.rows.values()
        if row.bias.verdict in ("unbiased", "no bias seen")
    ]
    if not found:
        return ""
    return UNDEFINED if any(map(math.isnan, found)) else number(max(found))


_COULD_SEE = Column("could see", _could_see, lambda line: {}, numeric=True)


def _legend(rows: Sequence[GradientRow], cells: str, summary: Summary) -> list[str]:
    """The lines that explain the words and marks which stand in these cells."""
    first = rows[0]
    lines = [
        "n: the samples of an instance that one gradient estimate is made from; K: the best of K "
        "counts (Max@K); baseline: what is taken off the weight of each sample.",
        f"{seed_words(rows)}, {first.instances} instance{'s' if first.instances > 1 else ''} each; "
        "policies are held fixed.",
        *legend(_OVER, cells, level=summary.level, alpha=summary.alpha),
        "bias: as derived, where it was found and the catalogue derives one; proven, where every "
        "possible group of samples was enumerated.",
    ]
    if any(row.bias.verdict == "no bias seen" for row in rows):
        lines.append(
            "could see: the smallest bias along the gradient, as a share of its length, that the "
            f"test finds with probability {POWER:g}; {UNDEFINED} where too few groups of samples "
            "tell it."
        )
    return lines
