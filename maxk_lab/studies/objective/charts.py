"""The chart of an objective study: each objective along one parameter, with its maximum marked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import altair as alt

from maxk_lab.reports import charts as draw
from maxk_lab.reports.charts import Figure, Panel, Table
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.studies.objective.pool import ObjectiveRow

# With more lines each estimator has a panel.
LINES = 6


def charts(pooled: Pooled[ObjectiveRow], origin: Origin) -> Iterator[Figure]:
    """Yield a chart for each environment and parameter."""
    table = draw.chart_table(_estimates(pooled))
    if not table.empty:
        for _, rows in table.groupby(["environment", "parameter"], sort=False):
            yield objective(rows)


def _estimates(pooled: Pooled[ObjectiveRow]) -> Iterator[dict[str, Any]]:
    """Yield a line for each point of each curve, without an interval: values are exact."""
    for row in pooled.rows:
        for number, curve in enumerate(row.distinct):
            optimum = f"{curve.best[0]:.4g}" if len(row.distinct) == 1 else ""
            about_curve = {
                "environment": row.key.words or row.key.environment,
                "parameter": row.key.parameter,
                "estimator": row.key.estimator,
                "k": row.key.k,
                "objective": row.key.objective,
                "optimum": "" if curve.reason else optimum,
                "line": f"{row.key.path} {number}",
                "style": "solid",
                "low": math.nan,
                "high": math.nan,
            }
            points = [*zip(curve.points, curve.values, strict=True), curve.best]
            for place, (x, value) in enumerate(points):
                if value is not None and math.isfinite(value):
                    marked = place == len(curve.points)
                    yield about_curve | {"x": x, "value": value, "marked": marked}


def objective(table: Table) -> Figure:
    """One line for each objective, with a mark at its maximum.

    Columns: environment, parameter, estimator, k, objective, optimum (the x of the mark), line, x,
    value, marked, style.
    """
    parameter = table.parameter.iloc[0].rpartition(".")[2].replace("_", " ")
    by_k = table.estimator.nunique() == 1
    best = table.optimum.map(lambda value: f": {parameter} {value}" if value else "")
    names = ("K = " + table.k.astype(str) if by_k else table.objective) + best
    split = table.line.nunique() > LINES and not by_k
    table = table.assign(series=names, name=names, panel=table.estimator if split else "")
    domain = draw.axis_domain(table, include=[0.0])
    series = list(dict.fromkeys(names))
    legend = draw.legend_of(series, draw.ordered(len(series)) if by_k else draw.COLOURS)
    x = alt.X("x:Q", title=parameter).axis(grid=False, tickCount=5).scale(nice=False)
    scale = alt.Scale(domain=domain, nice=False)
    y = alt.Y("value:Q", title="exact objective", scale=scale).axis(grid=True, tickCount=5)
    layers = draw.curve_marks(x, y, *draw.series(legend))
    panels = []
    for panel, rows in table.groupby("panel", sort=False):
        data = draw.on_axis(rows.sort_values(["line", "x"], kind="stable"), domain)
        chart = alt.layer(*layers, data=data[draw.CURVE_COLUMNS])
        panels.append(Panel(str(panel), chart.properties(height=200 if split else 300)))
    title = f"Exact objectives along the {parameter}: {table.environment.iloc[0]}"
    formula = f"Each objective as the {parameter} of the policy changes, computed exactly."
    return Figure("objective", title, formula, "Mark: the maximum.", tuple(panels), legend)
