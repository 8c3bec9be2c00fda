"""Line figures that a sweep file declares: one measure against one thing that it varies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from maxk_lab.errors import shown
from maxk_lab.fields import Model, OneOrMore, one_of
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.sweep_file.claims import AXES, settings_of
from maxk_lab.sweep_file.fields import AnyStudy, GradientMeasure, matching
from maxk_lab.sweep_file.source import Source, TreePath

_FILE_NAME = matching(
    "[A-Za-z0-9][A-Za-z0-9_-]{0,99}",
    "names the figure's file: at most 100 letters, digits, '_' and '-', beginning with a letter "
    "or digit",
)


class Figure(Model):
    """A figure of `metric` against `against`, with a line for each combination of `lines`.

    There is a panel for each value of `panels`. `against`, `lines` and `panels` name axes of the
    grid (estimator, baseline, n, k, stage), keys of `vary`, or behaviour.distance; all else must
    have one value. `scale` is that of the metric's axis.
    """

    name: Annotated[str, _FILE_NAME]
    title: str = ""
    metric: GradientMeasure
    against: str
    lines: OneOrMore[str] = ("estimator", "baseline")
    panels: str | None = None
    scale: Literal["linear", "log"] = "linear"


def check_figures(
    figures: Iterable[Figure],
    points: Mapping[str, Sequence[Mapping[str, Any]]],
    studies: Mapping[str, AnyStudy],
    source: Source,
) -> None:
    """Note figures of equal names, and of a study or a measure that the sweep has not.

    Their parts must name something and leave no two points in one place. `points` holds the points
    that each of `studies` measures, with their stage and setting.
    """
    names: set[str] = set()
    for number, figure in enumerate(figures):
        path: TreePath = ("figures", str(number))
        if figure.name in names:
            source.add((*path, "name"), f"two figures are named {shown(figure.name)}")
        names.add(figure.name)
        study = MEASURES.get(figure.metric).study
        if study not in points:
            source.add(path, f"a figure shows a {study} study, and this sweep has none")
            continue
        # The distinct values that grid points take of every axis and setting.
        values: dict[str, dict[Any, None]] = {axis: {} for axis in AXES}
        for point in points[study]:
            for axis, value in {**point, **settings_of(point)}.items():
                if axis != "setting":
                    values.setdefault(axis, {})[value] = None
        _check_parts(figure, values, path, source)
        if (reason := studies[study].lacks(figure.metric, ())) is not None:
            source.add((*path, "metric"), reason)


def _check_parts(
    figure: Figure, values: Mapping[str, Iterable[Any]], path: TreePath, source: Source
) -> None:
    listed = isinstance(source.tree["figures"][int(path[1])].get("lines"), list)
    parts: dict[TreePath, str] = {("against",): figure.against}
    for i, axis in enumerate(figure.lines):
        parts["lines", str(i) if listed else ""] = axis
    if figure.panels is not None:
        parts["panels",] = figure.panels
    for part, axis in parts.items():
        if axis not in values:
            source.add((*path, *filter(None, part)), one_of(axis, values))
    named = [figure.against, *figure.lines, *([] if figure.panels is None else [figure.panels])]
    twice = sorted({axis for axis in named if named.count(axis) > 1})
    if twice:
        what = f"must name different things, got {', '.join(twice)} twice"
        source.add(path, f"against, lines and panels {what}")
    along = values.get(figure.against, ())
    if figure.against in ("estimator", "baseline") or any(isinstance(v, str | bool) for v in along):
        source.add((*path, "against"), f"must have numbers for values, got {figure.against}")
    loose = [axis for axis in values if axis not in named and len([*values[axis]]) > 1]
    if loose:
        source.add(path, f"{', '.join(loose)} takes several values: name it in lines or panels")
