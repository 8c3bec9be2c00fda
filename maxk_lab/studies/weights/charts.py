"""The chart of a weights study: the effective reward of each sample against its raw reward."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import altair as alt

from maxk_lab.reports import charts as draw
from maxk_lab.reports.charts import Figure, Table
from maxk_lab.reports.naming import plain_setting
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.studies.weights.pool import WeightsRow

# Groups of rewards that are shown of each method.
GROUPS = 20


def charts(
    found: Pooled[WeightsRow], origin: Origin, more: Collection[str] = ()
) -> Iterator[Figure]:
    """A chart for each environment, setting and n."""
    table: Table = draw.table_of(_estimates(found))
    if not table.empty:
        for _, part in table.groupby("where", sort=False):
            yield effective_rewards(part)


def _estimates(found: Pooled[WeightsRow]) -> Iterator[dict[str, Any]]:
    """A line for every sample of every group; exact, so without an interval."""
    for row in found.rows:
        words = (row.key.words or row.key.environment, plain_setting(row.key.setting))
        unbiased = row.key.method.is_unbiased
        same = {
            "where": ", ".join([*filter(None, words), f"n = {row.key.n}"]),
            "k": row.key.k,
            "look": row.key.pair + ("" if unbiased else " (biased)"),
            "broken": not unbiased,
            "plain": row.key.baseline == "none",
            "low": math.nan,
            "high": math.nan,
        }
        for number, (rewards, weights) in enumerate(row.groups[:GROUPS]):
            for x, weight in zip(rewards, weights, strict=True):
                yield same | {"group": number, "x": x, "value": len(rewards) * weight}


def effective_rewards(table: Table) -> Figure:
    """n times the weight of each sample against its reward: panels by K, and without a baseline.

    The first group is a line, the others are faint. Without a baseline weights are as large as the
    rewards times K: they have panels of their own.
    """
    kind = table.plain.map({True: "no baseline", False: "with a baseline"})
    several = table.plain.nunique() > 1
    table = table.assign(panel="K = " + table.k.astype(str) + (", " + kind if several else ""))
    table["told"], table["line"] = table["look"], table["look"] + " " + table.group.astype(str)
    table = table.sort_values(["k", "plain", "look", "group", "x"], kind="stable")
    color, shape = draw.looks(sorted(table["look"].unique()))
    ends = [float(table.x.min()), float(table.x.max())]
    x = alt.X("x:Q", title="raw reward").axis(grid=False).scale(domain=ends)
    parts = [_panels(part, x, color, shape) for _, part in table.groupby("plain", sort=False)]
    title = f"Effective rewards: {table['where'].iloc[0]}"
    caption = (
        "The effective reward of a sample is n times its score weight: what a method puts in place "
        "of its reward. Where it is negative the sample is made less likely. Computed exactly; "
        "faint: more groups of rewards. Broken lines: biased."
    )
    return Figure("effective_rewards", title, caption, draw.finished(alt.vconcat(*parts), title))


def _panels(table: Table, x: Any, color: Any, shape: Any) -> Any:
    data, domain = draw.bounded(table)
    data = data.assign(solid=True, marked=data.group == 0)
    y = alt.Y("value:Q", title="effective reward n·w").scale(domain=domain, nice=False)
    line, *marks = draw.curves(x, y, color, shape)[1:]
    faint = alt.Chart().mark_point(filled=True, size=7, opacity=0.2)
    faint = faint.encode(x=x, y=y, color=color).transform_filter("datum.group > 0")
    layers = [faint, line.transform_filter("datum.group === 0"), *marks]
    return draw.panels(data, lambda part, last: layers, height=170)
