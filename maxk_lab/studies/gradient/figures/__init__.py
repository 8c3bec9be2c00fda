"""The figures of a gradient study, each drawn where it has something to show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.model import Summary
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.figures import captions
from maxk_lab.studies.gradient.figures.anatomy import anatomy_figure, anatomy_rows
from maxk_lab.studies.gradient.figures.bias import bias_figure
from maxk_lab.studies.gradient.figures.heat_map import heat_map_figure, heat_map_pages
from maxk_lab.studies.gradient.figures.lines import declared_figure
from maxk_lab.studies.gradient.figures.strips import pages, subject
from maxk_lab.studies.gradient.figures.variance import (
    OVER_LEAST,
    RELATIVE,
    over_least,
    relative,
    variance_figure,
)
from maxk_lab.studies.gradient.pool import GradientRow, GradientRows, sorted_rows


def figures(found: GradientRows, summary: Summary) -> Iterator[Picture]:
    """Every figure: the declared ones, those of every study, then the anatomy.

    A sweep that varies settings and declares figures has no others of these lines: those of each
    setting would bury its own.
    """
    rows = sorted_rows(found.rows)
    declared = list(_declared(rows, summary))
    yield from declared
    if not declared or len({row.key.setting for row in rows}) == 1:
        yield from _variances(rows, summary.level)
        yield from _biases(rows, summary.level)
        yield from _heat_maps(rows)
    shown = anatomy_rows(rows)
    for page in pages(shown):
        title = f"What the gradient variance is made of: {subject(page)}"
        yield Picture("anatomy", anatomy_figure(page, title), title, captions.anatomy(page, shown))


def _declared(rows: list[GradientRow], summary: Summary) -> Iterator[Picture]:
    for declared in summary.figures:
        for members in grouped(rows, lambda row: row.key.environment).values():
            against = declared.against.rpartition(".")[2].replace("_", " ")
            what = declared.title or f"{MEASURES.get(declared.metric).heading} against {against}"
            title = f"{what}: {members[0].key.plain or members[0].key.environment}"
            figure = declared_figure(members, declared, title, summary.level)
            if figure is not None:
                caption = captions.declared(members, declared)
                yield Picture(declared.name, figure, title, caption)


def _variances(rows: Sequence[GradientRow], level: float) -> Iterator[Picture]:
    """Those with a least to compare with; where no row has one, all by their relative variance."""
    values = over_least(rows)
    axis = OVER_LEAST if values else RELATIVE
    estimators = {row.key.estimator for row in rows if row.key in values}
    shown = [row for row in rows if row.key.estimator in estimators]
    if not values:
        values, shown = relative(rows), list(rows)
    for page in pages(shown) if values else ():
        if not any(row.key in values for row in page):
            continue
        over = "Gradient variance over the least" if axis == OVER_LEAST else "Relative variance"
        title = f"{over}: {subject(page)}"
        figure = variance_figure(page, values, title, axis, level)
        said = captions.over_least if axis == OVER_LEAST else captions.relative
        yield Picture("variance", figure, title, said(page, shown, values))


def _biases(rows: Sequence[GradientRow], level: float) -> Iterator[Picture]:
    shown = [row for row in rows if row.units is not None]
    for page in pages(shown):
        if any(row.intervals["scale"].known for row in page):
            title = f"Bias of the gradient estimates: {subject(page)}"
            yield Picture(
                "bias", bias_figure(page, title, level), title, captions.bias(page, shown)
            )


def _heat_maps(rows: Sequence[GradientRow]) -> Iterator[Picture]:
    # With the rows that have no result: an empty cell would say that it was not asked for.
    for page in heat_map_pages(rows):
        title = f"Relative variance of each method: {subject(page)}"
        stages = {row.key.stage for row in page}
        several = len({row.key.stage for row in rows}) > 1
        name = f"heat-map-stage{stages.pop()}" if several and len(stages) == 1 else "heat-map"
        yield Picture(name, heat_map_figure(page, title), title, captions.heat_map(page))
