"""Every figure of a report, drawn where it has something to show."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from maxk_lab.report.drawing import STYLE, save, unused
from maxk_lab.report.model import Summary, SummaryRow
from maxk_lab.report.naming import setting_words
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.figures.anatomy import anatomy_figure, anatomy_parts
from maxk_lab.studies.gradient.figures.heat_map import has_heat_map, heat_map_figure
from maxk_lab.studies.gradient.figures.lines import declared_figure
from maxk_lab.studies.gradient.figures.variance import forest_figure, variance_figure
from maxk_lab.studies.gradient.order import family, sorted_rows, table, who
from maxk_lab.studies.objective.figures import objective_figure
from maxk_lab.studies.training.figures.curves import curves_figure
from maxk_lab.studies.training.figures.final import (
    difference_figure,
    final_figure,
    gap_figure,
    gaps,
)
from maxk_lab.studies.training.figures.log import log_figure, shown_metrics
from maxk_lab.studies.training.rows.model import TrainingRow
from maxk_lab.studies.training.rows.names import place_setting, place_words
from maxk_lab.studies.weights.figures import weights_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = TypeVar("Row")


def figures(summary: Summary, out: Path) -> list[Path]:
    """Draw every figure that has something to show into `out`, each as PNG and SVG; returns the files."""
    import matplotlib as mpl

    drawn: list[Path] = []
    with mpl.rc_context(STYLE):
        for draw in (_objective_figures, _weights_figures, _gradient_figures, _training_figures):
            for name, figure in draw(summary):
                drawn += save(figure, out, unused(name, drawn))
    return drawn


def _gradient_figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    """What the sweep file declares, then what every study has, and the anatomy where it was enumerated.

    A sweep that varies settings and says how to show them has no other lines: those of each setting would bury its own.
    """
    declared = list(_declared_figures(summary))
    yield from declared
    if not declared or len({row.key.setting for row in summary.rows}) == 1:
        yield from _automatic_figures(summary)
    for found in _grouped(
        sorted_rows(summary.rows), lambda r: (r.key.environment, r.key.stage, r.key.k)
    ):
        for part in anatomy_parts(found):
            key = part[0].key
            title = f"Variance anatomy, stage {key.stage}, K = {key.k}: {key.environment}"
            yield f"anatomy-stage{key.stage}-k{key.k}", anatomy_figure(part, title)


def _declared_figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    for declared in summary.figures:
        for found in _grouped(sorted_rows(summary.rows), lambda row: row.key.environment):
            environment = found[0].key.environment
            against = declared.against.rpartition(".")[2]
            title = f"{declared.title or f'{MEASURES.get(declared.metric).heading} against {against}'}: {environment}"
            figure = declared_figure(found, declared, title, summary.level)
            if figure is not None:
                yield declared.name, figure


def _automatic_figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    rows = [row for row in sorted_rows(summary.rows) if row.units is not None]
    families = {(row.key.environment, family(row)) for row in rows}
    varied = len({row.key.setting for row in summary.rows}) > 1

    def named(name: str, row: SummaryRow, *, of_family: bool = True) -> str:
        words = [family(row).replace(" ", "-")] if of_family and len(families) > 1 else []
        words += [setting_words(row.key.setting).replace(", ", "-")] if varied else []
        return "-".join([name, *words])

    def environment(row: SummaryRow) -> str:
        return ", ".join(filter(None, (row.key.environment, setting_words(row.key.setting))))

    for found in _grouped(rows, lambda row: (row.key.environment, row.key.setting, family(row))):
        if any(row.intervals["variance"].known for row in found):
            title = f"Gradient variance, {who(found[0])}: {environment(found[0])}"
            yield named("variance", found[0]), variance_figure(found, title, summary.level)
    for found in _grouped(rows, lambda row: (table(row), row.key.setting)):
        if any(row.intervals["scale"].known for row in found):
            stage = found[0].key.stage
            title = f"Bias along ∇J, stage {stage}, {who(found[0])}: {environment(found[0])}"
            yield named(f"bias-stage{stage}", found[0]), forest_figure(found, title, summary.level)
    # With the rows that have no result: an empty cell would say that it was not asked for.
    for found in _grouped(
        sorted_rows(summary.rows), lambda row: (row.key.environment, row.key.stage, row.key.setting)
    ):
        stage = found[0].key.stage
        if has_heat_map(found):
            title = f"Relative variance, stage {stage}: {environment(found[0])}"
            yield (
                named(f"heat-map-stage{stage}", found[0], of_family=False),
                heat_map_figure(found, title),
            )


def _objective_figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    rows = [row for row in summary.objectives if row.curves]
    for found in _grouped(rows, lambda row: (row.key.environment, row.parameter)):
        title = f"Objectives along {found[0].parameter}: {found[0].key.environment}"
        yield "objective", objective_figure(found, title)


def _weights_figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    rows = [row for row in summary.weights if row.by_seed]
    places = {(row.key.environment, row.key.setting, row.key.n) for row in rows}
    for found in _grouped(rows, lambda row: (row.key.environment, row.key.setting, row.key.n)):
        key = found[0].key
        setting = setting_words(key.setting)
        words = (
            [f"n{key.n}", *filter(None, [setting.replace(", ", "-")])] if len(places) > 1 else []
        )
        title = f"Effective rewards: {', '.join(filter(None, (key.environment, setting)))}"
        yield "-".join(["effective-rewards", *words]), weights_figure(found, title)


def _training_figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    """Of each environment and n what was trained, on the way and at the end."""
    rows = [row for row in summary.training if row.curve]
    groups = _grouped(
        rows, lambda row: (row.key.environment, place_setting(row.key.setting), row.key.n)
    )
    places = {place_words(row.key.environment, row.key.setting) for row in rows}
    for found in groups:
        key = found[0].key
        where = place_words(key.environment, key.setting)
        # The parameters of an environment that are no setting are the same in all of them.
        place = where.replace(key.environment, key.environment.partition("(")[0]).replace(", ", "-")
        words = [place] * (len(places) > 1) + [f"n{key.n}"] * (len(groups) > len(places))
        for name, what, draw in _of_training(found):
            yield (
                "-".join([name, *words]),
                draw(found, f"{what}, n = {key.n}: {where}", summary.level),
            )


def _of_training(rows: Sequence[TrainingRow]) -> Iterator[tuple[str, str, Callable[..., Figure]]]:
    """(name, what it shows, how it is drawn) of each figure for which these rows have something to show."""
    curves = "training", "Max@K during training", curves_figure
    # The curves at the end first, which are what a study of these measures asks for.
    measured = any(row.measures for row in rows)
    if not measured:
        yield curves
    yield "max-at-k", "Max@K after training", final_figure
    if measured and any(found.known for row in rows for found in row.differences.values()):
        yield "max-at-k-difference", "Difference of Max@K after training", difference_figure
    if any(gap.known for row in rows for gap in gaps(row).values()):
        yield "gap", "Optimality gap after training", gap_figure
    if measured:
        yield curves
    if shown_metrics(rows):
        yield "training-log", "Training log", log_figure


def _grouped(rows: Sequence[Row], key: Callable[[Row], Hashable]) -> list[list[Row]]:
    """The rows with the same key together, in the order in which the keys come first."""
    found: dict[Hashable, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return list(found.values())
