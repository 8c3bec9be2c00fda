"""Every figure of a report, drawn where it has something to show."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from maxk_lab.report.document import has_interval
from maxk_lab.report.drawing import STYLE, save, unused
from maxk_lab.report.gradient_figures import forest_figure, variance_figure
from maxk_lab.report.heat_map import has_heat_map, heat_map_figure
from maxk_lab.report.model import Summary, SummaryRow, TrainingRow
from maxk_lab.report.order import family, sorted_rows, table, who
from maxk_lab.report.training_figures import curves_figure, final_figure
from maxk_lab.report.training_log import log_figure, shown_metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = TypeVar("Row", SummaryRow, TrainingRow)


def figures(summary: Summary, out: Path) -> list[Path]:
    """Draw every figure that has something to show into `out`, each as PNG and SVG; returns the files."""
    import matplotlib as mpl

    drawn: list[Path] = []
    with mpl.rc_context(STYLE):
        for name, figure in (*_gradient_figures(summary), *_training_figures(summary)):
            drawn += save(figure, out, unused(name, drawn))
    return drawn


def _gradient_figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    rows = [row for row in sorted_rows(summary.rows) if row.units is not None]
    families = {(row.key.environment, family(row)) for row in rows}

    def named(name: str, row: SummaryRow) -> str:
        return f"{name}-{family(row).replace(' ', '-')}" if len(families) > 1 else name

    for found in _grouped(rows, lambda row: (row.key.environment, family(row))):
        if any(has_interval(row.intervals["variance"]) for row in found):
            title = f"Gradient variance, {who(found[0])}: {found[0].key.environment}"
            yield named("variance", found[0]), variance_figure(found, title, summary.level)
    for found in _grouped(rows, table):
        if any(has_interval(row.intervals["scale"]) for row in found):
            key = found[0].key
            title = f"Bias along ∇J, stage {key.stage}, {who(found[0])}: {key.environment}"
            name = named(f"bias-stage{key.stage}", found[0])
            yield name, forest_figure(found, title, summary.level)
    # With the rows that have no result: an empty cell would say that it was not asked for.
    for found in _grouped(sorted_rows(summary.rows), lambda row: (row.key.environment, row.key.stage)):
        key = found[0].key
        if has_heat_map(found):
            title = f"Relative variance, stage {key.stage}: {key.environment}"
            yield f"heat-map-stage{key.stage}", heat_map_figure(found, title)


def _training_figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    rows = [row for row in summary.training if row.curve]
    sizes = {(row.key.environment, row.key.n) for row in rows}
    for found in _grouped(rows, lambda row: (row.key.environment, row.key.n)):
        key = found[0].key
        end = f"-n{key.n}" if len(sizes) > 1 else ""
        yield (
            f"training{end}",
            curves_figure(found, f"Max@K during training, n = {key.n}: {key.environment}", summary.level),
        )
        yield (
            f"max-at-k{end}",
            final_figure(found, f"Max@K after training, n = {key.n}: {key.environment}", summary.level),
        )
        if shown_metrics(found):
            title = f"Training log, n = {key.n}: {key.environment}"
            yield f"training-log{end}", log_figure(found, title, summary.level)


def _grouped(rows: Sequence[Row], key: Callable[[Row], Hashable]) -> list[list[Row]]:
    """The rows with the same key together, in the order in which the keys come first."""
    found: dict[Hashable, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return list(found.values())
