"""The figures of a training study, each drawn where it has something to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.model import Summary
from maxk_lab.report.rows import Rows, grouped
from maxk_lab.studies.training.figures.curves import curves_figure
from maxk_lab.studies.training.figures.final import (
    difference_figure,
    final_figure,
    gap_figure,
    gaps,
)
from maxk_lab.studies.training.figures.log import log_figure, shown_measures
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.row.settings import place_setting, place_words
from maxk_lab.studies.training.told import has_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures(found: Rows[TrainingRow], summary: Summary) -> Iterator[Picture]:
    """The figures of each environment and n, with their names."""
    rows = [row for row in found.rows if row.curve]
    groups = grouped(
        rows, lambda row: (row.key.environment, place_setting(row.key.setting), row.key.n)
    ).values()
    places = {place_words(row.key.environment, row.key.setting) for row in rows}
    for members in groups:
        key = members[0].key
        where = place_words(key.environment, key.setting)
        # The parameters of an environment that are no setting are the same in all of them.
        place = where.replace(key.environment, key.environment.partition("(")[0]).replace(", ", "-")
        words = [place] * (len(places) > 1) + [f"n{key.n}"] * (len(groups) > len(places))
        for name, title, draw in _shown(members):
            title = f"{title}, n = {key.n}: {where}"
            yield Picture("-".join([name, *words]), draw(members, title, summary.level), title)


def _shown(rows: Sequence[TrainingRow]) -> Iterator[tuple[str, str, Callable[..., Figure]]]:
    """(name, title, function) of each figure for which these rows have something to show."""
    yield "max-at-k", "Max@K after training", final_figure
    if any(has_value(found) for row in rows for found in row.differences.values()):
        yield "max-at-k-difference", "Difference of Max@K after training", difference_figure
    if any(has_value(gap) for row in rows for gap in gaps(row).values()):
        yield "gap", "Optimality gap after training", gap_figure
    yield "training", "Max@K during training", curves_figure
    if shown_measures(rows):
        yield "training-log", "Training log", log_figure
