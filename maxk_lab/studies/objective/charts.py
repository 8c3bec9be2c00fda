"""The chart of an objective study: each objective along the parameter, its maximum marked."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import altair as alt

from maxk_lab.reports import charts as draw
from maxk_lab.reports.charts import Figure, Table
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.studies.objective.pool import ObjectiveRow

# Lines of one panel, beyond which each estimator has its own.
LINES = 6


def charts(
    found: Pooled[ObjectiveRow], origin: Origin, more: Collection[str] = ()
) -> Iterator[Figure]:
    """A chart for each environment and parameter."""
    table: Table = draw.table_of(_estimates(found))
    if not table.empty:
        for _, part in table.groupby(["environment", "parameter"], sort=False):
            yield objective(part)


def _estimates(found: Pooled[ObjectiveRow]) -> Iterator[dict[str, Any]]:
    """A line for every point of every curve; exact, so without an interval."""
    for row in found.rows:
        for number, curve in enumerate(row.distinct):
            optimum = f"{curve.best[0]:.4g}" if len(row.distinct) == 1 else ""
            same = {
                "environment": row.key.words or row.key.environment,
                "parameter": row.key.parameter,
                "estimator": row.key.estimator,
                "k": row.key.k,
                "objective": row.key.objective,
                "optimum": "" if curve.reason else optimum,
                "line": f"{row.key.path} {number}",
                "low": math.nan,
                "high": math.nan,
            }
            points = [*zip(curve.points, curve.values, strict=True), curve.best]
            for place, (x, value) in enumerate(points):
                if value is not None and math.isfinite(value):
                    yield same | {"x": x, "value": value, "marked": place == len(curve.points)}


def objective(table: Table) -> Figure:
    """One line per objective, and a mark where it is largest; by estimator where these are many."""
    along = table.parameter.iloc[0].rpartition(".")[2].replace("_", " ")
    one = table.estimator.nunique() == 1
    table = table.assign(look="K = " + table.k.astype(str) if one else table.objective)
    best = table.optimum.map(lambda value: f": {along} {value}" if value else "")
    table["told"] = table["look"] = table["look"] + best
    table["panel"] = table.estimator if table.line.nunique() > LINES and not one else ""
    data, domain = draw.bounded(table, least=0.0)
    data = data.assign(solid=True, broken=False).sort_values(["line", "x"], kind="stable")
    names = list(dict.fromkeys(table["look"]))
    color, shape = draw.looks(names, draw.ordered(len(names)) if one else draw.COLOURS)
    x = alt.X("x:Q", title=along).axis(grid=False).scale(nice=False)
    y = alt.Y("value:Q", title="exact objective").scale(domain=domain, nice=False)
    layers = draw.curves(x, y, color, shape)
    columns = 1 if table.panel.nunique() == 1 else draw.COLUMNS
    chart = draw.panels(
        data,
        lambda part, last: layers,
        height=230 if columns == 1 else 150,
        width=420 if columns == 1 else draw.WIDTH,
        columns=columns,
    )
    title = f"Exact objectives along the {along}: {table.environment.iloc[0]}"
    caption = (
        f"Each objective as the {along} of the policy changes, computed exactly and so without "
        "intervals; a mark: its maximum."
    )
    return Figure("objective", title, caption, draw.finished(chart, title))
