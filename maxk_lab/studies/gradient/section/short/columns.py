"""The columns of the short table: what tells its lines apart, variances by place, and biases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from maxk_lab.report.document import BASELINE, ESTIMATOR, UNDEFINED, Column, N, number
from maxk_lab.studies.gradient.columns import OVER_BEST, measure
from maxk_lab.studies.gradient.row.best import FOUND_BIASED, UNBIASED
from maxk_lab.studies.gradient.row.model import GradientKey, GradientRow
from maxk_lab.studies.gradient.section.bias import verdict_words
from maxk_lab.studies.gradient.section.focus import Focus, Place, place_of
from maxk_lab.studies.gradient.section.short.standing import Standing, compared
from maxk_lab.studies.gradient.section.words import Words

OVER = "variance over the least"
RELATIVE = measure("relative_variance")
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


def columns(
    lines: Sequence[Line],
    at: Focus,
    words: Words,
    rows: Sequence[GradientRow],
    standing: Mapping[GradientKey, Standing],
    *,
    one_method: bool,
) -> tuple[Column, ...]:
    """The columns of these lines, of which `rows` are the rows."""
    return (
        *_names(lines, one_method),
        *(column for place in at.places for column in _columns(place, at, words, rows, standing)),
        Column("bias", partial(_bias, at=at), lambda line: {}),
        *((COULD_SEE,) if any(_could_see(line) not in ("", UNDEFINED) for line in lines) else ()),
    )


def _names(lines: Sequence[Line], one_method: bool) -> tuple[Column, ...]:
    """The columns that tell the lines apart."""
    keys = [line.key for line in lines]
    several = len({key.estimator for key in keys}) > 1
    choice = len({key.baseline for key in keys}) > 1
    # Of an estimator that takes no baseline, only its own name says what the row is.
    lone = BASELINE if keys[0].method.takes_baseline else ESTIMATOR
    if several and choice:
        return (_METHOD,)
    return (
        *((ESTIMATOR,) if several else ()),
        *((lone,) if choice or not (several or one_method) else ()),
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
        found.append(_of(place, RELATIVE.heading, RELATIVE.text, RELATIVE.values, name))
    if compared(standing):
        over, values = partial(_over, standing=standing), partial(_values, standing=standing)
        found.append(_of(place, OVER, over, values, name))
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
        return "no signal" if row.no_signal else UNDEFINED
    if row.bias.verdict in FOUND_BIASED:
        return "biased"
    if not row.catalogued_unbiased:
        # Unbiased where it was found to be, as of a policy that samples itself; not by its formula.
        return "not compared" if row.bias.verdict in UNBIASED else "biased"
    return standing[row.key].text if row.key in standing else UNDEFINED


def _values(row: GradientRow, standing: Mapping[GradientKey, Standing]) -> Mapping[str, Any]:
    found = standing.get(row.key)
    return {} if found is None or found.over is None else found.over.columns("over_least")


def _bias(line: Line, at: Focus) -> str:
    """The verdicts on the rows that are shown, each once."""
    found = (verdict_words(line.rows[place]) for place in at.places if place in line.rows)
    return "; ".join(dict.fromkeys(found))


def _could_see(line: Line) -> str:
    """The largest of its rows without a bias: what would have been seen in all of them."""
    found = [row.bias.detectable for row in line.rows.values() if row.bias.verdict in UNBIASED]
    if not found:
        return ""
    return UNDEFINED if any(map(math.isnan, found)) else number(max(found))


COULD_SEE = Column("could see", _could_see, lambda line: {}, numeric=True)
