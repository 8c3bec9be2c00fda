"""Charts of an exact study: effective rewards of samples, and objectives along a parameter.

Values are exact, so they have no intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from maxk_lab.errors import count
from maxk_lab.reports import charts as draw
from maxk_lab.reports.charts import Figure, Panel, Table
from maxk_lab.reports.naming import UNBIASED, plain_setting
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.studies.exact.table import Row

# Groups of rewards that are drawn for each method.
GROUPS = 20
# With more lines each estimator has a panel.
LINES = 6


def charts(pooled: Pooled[Row], origin: Origin) -> Iterator[Figure]:
    """Yield a chart for each environment, setting and n of weights, or for each parameter."""
    along = bool(pooled.rows) and bool(pooled.rows[0].key.parameter)
    table = draw.chart_table((_points if along else _samples)(pooled.rows))
    if table.empty:
        return
    columns = ["environment", "parameter"] if along else ["where"]
    for _, rows in table.groupby(columns, sort=False):
        yield objective(rows) if along else effective_rewards(rows)


def _samples(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield a line for each sample of each group, without an interval: values are exact."""
    for row in rows:
        words = (row.key.words or row.key.environment, plain_setting(row.key.setting))
        state = row.key.bias_state
        about_row = {
            "where": ", ".join([*filter(None, words), f"n = {row.key.n}"]),
            "k": row.key.k,
            "series": row.key.pair + ("" if state == UNBIASED else f" ({state})"),
            "style": draw.STYLES[state],
            "without": row.key.baseline == "none",
            "low": math.nan,
            "high": math.nan,
        }
        for number, (rewards, weights) in enumerate(row.groups[:GROUPS]):
            for x, weight in zip(rewards, weights, strict=True):
                yield about_row | {"group": number, "x": x, "value": len(rewards) * weight}


def effective_rewards(table: Table) -> Figure:
    """Return n times the weight of each sample against its reward, in panels by K.

    The first group is a line, the others are faint. Effective rewards without a baseline are about
    K times as large, and have separate panels. Columns: where, k, series, style, without (a
    baseline), group, x, value.
    """
    kinds = table.without.map({True: "no baseline", False: "with a baseline"})
    several = table.without.nunique() > 1
    table = table.assign(
        panel="K = " + table.k.astype(str) + (", " + kinds if several else ""),
        name=table.series,
        line=table.series + " " + table.group.astype(str),
        marked=table.group == 0,
    )
    table = table.sort_values(["without", "k", "series", "group", "x"], kind="stable")
    legend = draw.legend_of(sorted(table.series.unique()))
    color, shape = draw.series(legend)
    ends = [float(table.x.min()), float(table.x.max())]
    x = alt.X("x:Q", title="raw reward").axis(grid=False, tickCount=5).scale(domain=ends)
    panels = []
    for _, rows in table.groupby("without", sort=False):
        domain = draw.axis_domain(rows)
        scale = alt.Scale(domain=domain, nice=False)
        y = alt.Y("value:Q", title="effective reward", scale=scale).axis(grid=True, tickCount=5)
        line, marks = draw.curve_marks(x, y, color, shape)[1:]
        faint = alt.Chart().mark_point(filled=True, size=7, opacity=0.2)
        faint = faint.encode(x=x, y=y, color=color).transform_filter("datum.group > 0")
        layers = [faint, line.transform_filter("datum.group === 0"), marks]
        for panel, samples in rows.groupby("panel", sort=False):
            data = draw.on_axis(samples, domain)[["group", *draw.CURVE_COLUMNS]]
            chart = alt.layer(*layers, data=data).properties(height=200)
            panels.append(Panel(str(panel), chart))
    title = f"Effective rewards: {table['where'].iloc[0]}"
    formula = (
        "n times the score weight of a sample: what a method puts in place of the reward. A sample "
        "with a negative effective reward becomes less likely. Computed exactly."
    )
    dashed = " Dashed: biased." if (table["style"] == "hollow").any() else ""
    more = int(table.group.max())
    faint_groups = f"Faint: {count(more, 'more group')} of rewards." if more else ""
    marks = f"{faint_groups}{dashed}".strip()
    columns = 2 if table.k.nunique() % 2 == 0 else 3
    return Figure("effective_rewards", title, formula, marks, tuple(panels), legend, columns)


def _points(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield a line for each point of each curve, without an interval: values are exact."""
    for row in rows:
        for number, curve in enumerate(row.distinct):
            optimum = f"{curve.best[0]:.4g}" if len(row.distinct) == 1 else ""
            about_curve = {
                "environment": row.key.words or row.key.environment,
                "parameter": row.key.parameter,
                "estimator": row.key.estimator,
                "k": row.key.k,
                "objective": row.key.objective,
                "optimum": "" if curve.reason() else optimum,
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
    """Return one line for each objective, with a mark at its maximum.

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
