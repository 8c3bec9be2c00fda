"""The lines of a declared figure: what each stands for, its look, and the panels it is in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxk_lab.report.drawing.style import look, looks
from maxk_lab.report.naming import spelled
from maxk_lab.studies.gradient.pool import DISTANCE, OF_RATIOS, GradientRow, method_order

if TYPE_CHECKING:
    from maxk_lab.sweeps.spec.figures import Figure as Declared

# Coloured lines of a panel; of more, those of one estimator have panels of their own.
MOST = 6
_AXES = ("estimator", "baseline", "n", "k", "stage")
# The styles of the third thing that tells lines apart: a full marker or an empty one.
_FILLS: tuple[dict[str, Any], ...] = ({}, {"markerfacecolor": "white"})


@dataclass(frozen=True)
class Line:
    """The values that the rows of one line share, and the look of the line.

    Lines of different `part` are coloured in different panels, and may look the same.
    """

    values: tuple[Any, ...]
    label: str
    unbiased: bool
    style: dict[str, Any]
    part: str = ""


def value_of(row: GradientRow, axis: str) -> Any:
    """The row's value of an axis of the grid or of a setting.

    A policy that samples itself is at distance 0.
    """
    if axis in _AXES:
        return getattr(row.key, axis)
    return dict(row.key.setting).get(axis, 0.0 if axis == DISTANCE else None)


def values_of(row: GradientRow, declared: Declared) -> tuple[Any, ...]:
    """The values that tell the line of the row from others."""
    return tuple(value_of(row, axis) for axis in _axes(declared))


def lines_of(rows: Sequence[GradientRow], declared: Declared) -> list[Line]:
    """The lines of a figure of these rows, in the order of the catalogue."""
    ordered = {values_of(row, declared): row for row in sorted(rows, key=method_order)}
    places = list(ordered)
    columns = list(zip(*places, strict=True))
    varying = [i for i, column in enumerate(columns) if len(set(column)) > 1]
    divides = _divides(columns) if len(places) > MOST and len(varying) > 1 else None
    others = [i for i in varying if i != divides]
    styles = _styles([tuple(place[i] for i in others) for place in places])
    found = []
    for (place, row), style in zip(ordered.items(), styles, strict=True):
        members = [row for row in rows if values_of(row, declared) == place]
        unbiased = declared.metric in OF_RATIOS or all(row.catalogued_unbiased for row in members)
        label = _label(row, place, _axes(declared), others or varying)
        part = "" if divides is None else told(_axes(declared)[divides], place[divides])
        found.append(Line(place, label + ("" if unbiased else " (biased)"), unbiased, style, part))
    return found


def word(axis: str) -> str:
    """An axis or a setting in a word: `arms` for environment.arms."""
    return {"k": "K"}.get(axis, axis.rpartition(".")[2].replace("_", " "))


def told(axis: str, value: Any) -> str:
    """`arms = 8`: the value of an axis in words; of a method its name alone."""
    if axis in ("estimator", "baseline"):
        return str(value)
    return f"{word(axis)} = {'none' if value is None else spelled(value)}"


def _axes(declared: Declared) -> tuple[str, ...]:
    """The axes that tell lines apart; ratios of two policies depend on no estimator or baseline."""
    own = declared.metric in OF_RATIOS
    return tuple(axis for axis in declared.lines if not (own and axis in ("estimator", "baseline")))


def _divides(columns: Sequence[tuple[Any, ...]]) -> int:
    """The axis of fewest values that leaves at most `MOST` lines in a panel, or else the fewest."""
    sizes = [max(column.count(value) for value in column) for column in columns]
    fitting = [i for i, size in enumerate(sizes) if size <= MOST]
    if fitting:
        return min(fitting, key=lambda i: len(set(columns[i])))
    return min(range(len(columns)), key=lambda i: sizes[i])


def _styles(places: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """A colour per first value, a marker per second, a fill per third, if all combinations exist.

    Elsewhere each place has its own look: where one estimator is compared with single others, most
    lines share no colour.
    """
    distinct = list(dict.fromkeys(places))
    values = [list(dict.fromkeys(column)) for column in zip(*distinct, strict=True)]
    whole = math.prod(map(len, values)) == len(distinct)
    if (
        not whole
        or not 2 <= len(values) <= 3
        or (len(values) == 3 and len(values[2]) > len(_FILLS))
    ):
        return [look(distinct.index(place)) for place in places]
    numbers = [
        [column.index(value) for column, value in zip(values, place, strict=True)]
        for place in places
    ]
    styles = looks([first for first, *_ in numbers], [str(second) for _, second, *_ in numbers])
    if len(values) == 2:
        return styles
    return [style | _FILLS[third] for style, (*_, third) in zip(styles, numbers, strict=True)]


def _label(
    row: GradientRow, place: Sequence[Any], axes: Sequence[str], varying: Sequence[int]
) -> str:
    parts = []
    for i in varying or range(len(axes)):
        if axes[i] == "baseline" and not row.key.method.takes_baseline and varying[1:]:
            continue
        parts.append(told(axes[i], place[i]))
    return ", ".join(parts)
