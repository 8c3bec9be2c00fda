"""The figures of a gradient study, each drawn where it has something to show."""

from __future__ import annotations

from collections.abc import Iterator

from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.model import Summary
from maxk_lab.report.naming import setting_words
from maxk_lab.report.rows import grouped
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.figures.anatomy import anatomy_figure, anatomy_parts
from maxk_lab.studies.gradient.figures.heat_map import has_heat_map, heat_map_figure
from maxk_lab.studies.gradient.figures.lines import declared_figure
from maxk_lab.studies.gradient.figures.variance import forest_figure, variance_figure
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.row.order import shared_estimator, sorted_rows, table, who
from maxk_lab.studies.gradient.rows import GradientRows


def figures(found: GradientRows, summary: Summary) -> Iterator[Picture]:
    """Every figure with its name: the declared ones, those of every study, then the anatomy.

    A sweep that varies settings and declares figures has no others of these lines: those of each
    setting would bury its own.
    """
    rows = sorted_rows(found.rows)
    declared = list(_declared_figures(rows, summary))
    yield from declared
    if not declared or len({row.key.setting for row in rows}) == 1:
        yield from _automatic_figures(rows, summary.level)
    for (environment, stage, k), members in grouped(
        rows, lambda row: (row.key.environment, row.key.stage, row.key.k)
    ).items():
        for part in anatomy_parts(members):
            title = f"Variance anatomy, stage {stage}, K = {k}: {environment}"
            yield Picture(f"anatomy-stage{stage}-k{k}", anatomy_figure(part, title), title)


def _declared_figures(rows: list[GradientRow], summary: Summary) -> Iterator[Picture]:
    for declared in summary.figures:
        for environment, members in grouped(rows, lambda row: row.key.environment).items():
            against = declared.against.rpartition(".")[2]
            what = declared.title or f"{MEASURES.get(declared.metric).heading} against {against}"
            title = f"{what}: {environment}"
            figure = declared_figure(members, declared, title, summary.level)
            if figure is not None:
                yield Picture(declared.name, figure, title)


def _automatic_figures(rows: list[GradientRow], level: float) -> Iterator[Picture]:
    measured = [row for row in rows if row.units is not None]
    tables = {(row.key.environment, shared_estimator(row)) for row in measured}
    varied = len({row.key.setting for row in rows}) > 1

    def named(name: str, row: GradientRow, *, by_estimator: bool = True) -> str:
        words = (
            [shared_estimator(row).replace(" ", "-")] if by_estimator and len(tables) > 1 else []
        )
        words += [setting_words(row.key.setting).replace(", ", "-")] if varied else []
        return "-".join([name, *words])

    for members in grouped(
        measured, lambda row: (row.key.environment, row.key.setting, shared_estimator(row))
    ).values():
        first = members[0]
        if any(row.intervals["variance"].known for row in members):
            title = f"Gradient variance, {who(first)}: {_environment(first)}"
            yield Picture(named("variance", first), variance_figure(members, title, level), title)
    for members in grouped(measured, lambda row: (table(row), row.key.setting)).values():
        first = members[0]
        if any(row.intervals["scale"].known for row in members):
            stage = first.key.stage
            title = f"Bias along ∇J, stage {stage}, {who(first)}: {_environment(first)}"
            name = named(f"bias-stage{stage}", first)
            yield Picture(name, forest_figure(members, title, level), title)
    # With the rows that have no result: an empty cell would say that it was not asked for.
    for members in grouped(
        rows, lambda row: (row.key.environment, row.key.stage, row.key.setting)
    ).values():
        first = members[0]
        if has_heat_map(members):
            name = named(f"heat-map-stage{first.key.stage}", first, by_estimator=False)
            title = f"Relative variance, stage {first.key.stage}: {_environment(first)}"
            yield Picture(name, heat_map_figure(members, title), title)


def _environment(row: GradientRow) -> str:
    return ", ".join(filter(None, (row.key.environment, setting_words(row.key.setting))))
