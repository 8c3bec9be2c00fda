"""The frame of figures with a line for each method: panels by K and place, names at the left."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.report.drawing.style import panels
from maxk_lab.report.naming import Setting, plain_setting
from maxk_lab.studies.gradient.pool import GradientRow, method, method_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# (environment, setting, stage) of a column of panels; (estimator, baseline) of a line.
Place = tuple[str, Setting, int]
Line = tuple[str, str]

# Columns of a figure, beyond which none is readable on a phone; figures of one sort; values of n
# that a line has marks for.
COLUMNS = 3
PAGES = 2
PAGED = COLUMNS * PAGES
SIZES = 5
# Inches: of a panel, of a letter of a name, of what stands above and below the lines of a panel.
_PANEL = 1.3
_LETTER = 0.06
_AROUND = 0.5
# Letters of a line above a panel.
_TITLE = 22


@dataclass(frozen=True)
class Strips:
    """A figure with a panel per K (from above) and place (from the left), and a line per method.

    `heights` are the places of the methods of a K on its y axes, from 0 at the top.
    """

    figure: Figure
    axes: Any
    rows: tuple[GradientRow, ...]
    panels: dict[tuple[int, Place], Axes]
    heights: dict[int, dict[Line, int]]

    def members(self) -> Iterator[tuple[Axes, list[tuple[GradientRow, int]]]]:
        """Each panel with its rows and their heights."""
        for (k, place), axes in self.panels.items():
            here = [row for row in self.rows if row.key.k == k and place_of(row) == place]
            yield axes, [(row, self.heights[k][line_of(row)]) for row in here]


def pages(rows: Sequence[GradientRow]) -> list[list[GradientRow]]:
    """The rows of each figure of a sort, a few places in each; the places beyond are left out."""
    places = list(dict.fromkeys(map(place_of, rows)))[:PAGED]
    count = -(-len(places) // COLUMNS)
    width = -(-len(places) // max(1, count))
    together = [places[i * width : (i + 1) * width] for i in range(count)]
    return [[row for row in rows if place_of(row) in found] for found in together]


def strips(
    rows: Sequence[GradientRow], pitch: float, *, sharex: Literal["all", "row"] = "all"
) -> Strips:
    """The empty panels of these rows, whose lines are `pitch` inches apart.

    A line has its name at the left of its row of panels, and a K only the lines that it has.
    """
    ks, places = sorted({row.key.k for row in rows}), list(dict.fromkeys(map(place_of, rows)))
    names = line_names(rows)
    lines = {k: [line for line in names if line in _of_k(rows, k)] for k in ks}
    width = 0.4 + _LETTER * max(map(len, names.values())) + _PANEL * max(2, len(places))
    tall = [_AROUND + pitch * len(found) for found in lines.values()]
    size = (max(4.4, width), 0.9 + sum(tall))
    figure, axes = panels(len(ks), len(places), size, sharex=sharex, sharey="row", heights=tall)
    for row_of_axes, k in zip(axes, ks, strict=True):
        for panel, place in zip(row_of_axes, places, strict=True):
            panel.set_title(_title(k, place_words(place, rows)), fontsize=8)
            panel.set_ylim(len(lines[k]) - 0.4, -0.6)
            panel.tick_params(axis="x", labelbottom=True)
        found = [names[line] for line in lines[k]]
        row_of_axes[0].set_yticks(range(len(found)), found, fontsize=7.5)
        row_of_axes[0].tick_params(axis="y", length=0)
    return Strips(
        figure=figure,
        axes=axes,
        rows=tuple(rows),
        panels={(k, place): axes[i][j] for i, k in enumerate(ks) for j, place in enumerate(places)},
        heights={k: {line: y for y, line in enumerate(found)} for k, found in lines.items()},
    )


def _title(k: int, words: str) -> str:
    """K with the words of a place, below each other where they are long."""
    words = "\n".join(textwrap.wrap(words, _TITLE))
    between = "\n" if len(words) > _TITLE - 6 else ", "
    return f"K = {k}{between}{words}" if words else f"K = {k}"


def place_of(row: GradientRow) -> Place:
    """The place of a row: what is not its method, n or K."""
    return row.key.environment, row.key.setting, row.key.stage


def line_of(row: GradientRow) -> Line:
    """The line of a row: its method."""
    return row.key.estimator, row.key.baseline


def line_names(rows: Sequence[GradientRow]) -> dict[Line, str]:
    """The name of every method of these rows, those that were derived biased marked, in order.

    It is that of the baseline, with its estimator where several take one, else the estimator.
    """
    several = len({row.key.estimator for row in rows if row.key.method.takes_baseline}) > 1
    ordered = sorted(rows, key=method_order)
    biased = {line_of(row) for row in rows if not row.catalogued_unbiased}
    return {
        line_of(row): (
            f"{row.key.estimator} {method(row)}"
            if several and row.key.method.takes_baseline
            else method(row)
        )
        + (" (biased)" if line_of(row) in biased else "")
        for row in ordered
    }


def place_words(place: Place, rows: Sequence[GradientRow]) -> str:
    """`after 200 steps`: the place in so many words as tell it from those of the others."""
    places = {place_of(row) for row in rows}
    environments, settings, stages = zip(*places, strict=True)
    plain = {row.key.environment: row.key.plain or row.key.environment for row in rows}
    environment, setting, stage = place
    return ", ".join(
        filter(
            None,
            [
                plain[environment] if len(set(environments)) > 1 else "",
                plain_setting(setting) if len(set(settings)) > 1 else "",
                stage_words(stage) if len(set(stages)) > 1 else "",
            ],
        )
    )


def stage_words(stage: int) -> str:
    """`after 200 steps`: when in its training the policy was measured."""
    return "before training" if stage == 0 else f"after {stage} steps"


def subject(rows: Sequence[GradientRow]) -> str:
    """`TSP with 20 cities, after 200 steps`: all that the places of the rows share, in words."""
    first = rows[0].key
    places = [place_of(row) for row in rows]
    environments, settings, stages = (set(found) for found in zip(*places, strict=True))
    parts = [
        (first.plain or first.environment) if len(environments) == 1 else "",
        plain_setting(first.setting) if len(settings) == 1 else "",
        stage_words(first.stage) if len(stages) == 1 and first.stage else "",
    ]
    return ", ".join(filter(None, parts)) or "several environments"


def shown_sizes(rows: Sequence[GradientRow]) -> list[int]:
    """The values of n that have marks, the least and the largest among them."""
    sizes = sorted({row.key.n for row in rows})
    if len(sizes) <= SIZES:
        return sizes
    return sorted({sizes[round(i * (len(sizes) - 1) / (SIZES - 1))] for i in range(SIZES)})


def offsets(count: int) -> list[float]:
    """The heights of so many marks about that of their line, from above."""
    return [0.0] if count == 1 else [0.56 * (i / (count - 1) - 0.5) for i in range(count)]


def _of_k(rows: Sequence[GradientRow], k: int) -> set[Line]:
    return {line_of(row) for row in rows if row.key.k == k}
