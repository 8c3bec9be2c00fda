"""The charts of a gradient study, each a function of one table of estimates."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np

from maxk_lab.reports import charts as draw
from maxk_lab.reports.charts import Figure, Table
from maxk_lab.reports.naming import Setting, plain_setting
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import FIXED, NEW
from maxk_lab.studies.gradient.pool import (
    DISTANCE,
    FOUND_BIASED,
    GradientRow,
    method,
    method_order,
)

# Settings and values of n beyond these are in the tables alone.
PLACES, SIZES = 6, 5
# The measures of the chart of bias, with what their axes say.
_OF_BIAS = {"scale": "length (1: right)", "cosine": "cosine (1: right direction)"}


def charts(
    found: Pooled[GradientRow], origin: Origin, more: Collection[str] = ()
) -> Iterator[Figure]:
    """Yield the charts of every study, and the charts on request that `more` names."""
    table = estimates(found.rows)
    if table.empty:
        return
    places = list(dict.fromkeys(table.place))
    shown = table[table.place.isin(places[:PLACES])]
    rest = f" The first {PLACES} of {len(places)} settings." if len(places) > PLACES else ""
    for make in (variance, bias, snr, *([heat_map] if heat_map.__name__ in more else [])):
        if (figure := make(shown)) is not None:
            yield replace(figure, caption=figure.caption + rest)


def estimates(rows: Sequence[GradientRow]) -> Table:
    """One line per row and measure that has a value, in the order of the catalogue.

    `over_lowest` is the paired ratio to the lowest variance of an unbiased baseline at the same
    estimator, n and K: 1 for that itself, which is `best` where it is significantly lower than all
    others.
    """
    several = len({row.key.estimator for row in rows if row.key.method.takes_baseline}) > 1
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    groups = {row.key.group for row in rows if row.over_least is not None}

    def order(row: GradientRow) -> tuple[Any, ...]:
        key = row.key
        places = (key.environment, key.stage, settings.index(key.setting))
        return (*places, key.k, key.n, method_order(row))

    ordered = sorted(rows, key=order)
    places, subject = _places(ordered)
    lines = []
    for row in ordered:
        key, name, place = row.key, method(row), places[_place(row)]
        if several and key.method.takes_baseline:
            name = f"{key.estimator} {name}"
        if key.method.is_derived and not row.catalogued_unbiased:
            name += " (biased)"
        panel = ", ".join(filter(None, [f"K = {key.k}", place]))
        same = {
            "row": key.path,
            "environment": key.words or key.environment,
            "stage": key.stage,
            "estimator": key.estimator,
            "baseline": key.baseline,
            "n": key.n,
            "k": key.k,
            DISTANCE: 0.0,
            **dict(key.setting),
            "setting": plain_setting(key.setting),
            "place": place,
            "subject": subject,
            "panel": panel,
            "method": name,
            "unbiased": row.catalogued_unbiased,
            "enumerated": row.enumerated,
            "takes_baseline": key.method.takes_baseline,
            "bias": row.bias.verdict,
            "best": row.best,
            "oracle": key.method.fit == "oracle",
            "told": ", ".join(filter(None, [name, f"n = {key.n}", panel])),
        }
        measures: dict[str, Interval] = dict(row.intervals)
        if row.over_least is not None or key.group in groups:
            itself = Interval(1.0, 1.0, 1.0, 0.95)
            measures["over_lowest"] = itself if row.over_least is None else row.over_least.mean
        for measure, one in measures.items() if row.units is not None else ():
            if math.isfinite(one.value):
                ends = {"low": one.low, "high": one.high, "level": one.level}
                number = {"measure": measure, "value": one.value, **ends, "about": one.question}
                lines.append(same | number)
    return draw.table_of(lines)


def _place(row: GradientRow) -> Any:
    return row.key.words or row.key.environment, row.key.setting, row.key.stage


def _trained(stage: int, setting: Setting) -> str:
    """How far a policy was trained; of one from a checkpoint, which the setting names, nothing."""
    if stage:
        return f"after {stage} steps"
    return "" if "policy.checkpoint" in dict(setting) else "before training"


def _places(rows: Sequence[GradientRow]) -> tuple[dict[Any, str], str]:
    """The words that tell a place from the others, and those for what all of them share."""
    parts = {
        (environment, setting, stage): (
            environment,
            plain_setting(setting),
            _trained(stage, setting),
        )
        for environment, setting, stage in map(_place, rows)
    }
    differ = [len(set(part)) > 1 for part in zip(*parts.values(), strict=True)]

    def words(part: Sequence[str], of: bool) -> str:
        chosen = (word for word, so in zip(part, differ, strict=True) if so == of)
        return ", ".join(filter(None, chosen))

    named = {place: words(part, True) for place, part in parts.items()}
    return named, next((words(part, False) for part in parts.values()), "")


def variance(table: Table) -> Figure | None:
    """The variance of each method relative to the lowest; where there is none, to its mean²."""
    ratios = table[table.measure == "over_lowest"]
    title = f"Gradient variance: {table.subject.iloc[0]}"
    if ratios.empty:
        rows = table[table.measure == "relative_variance"]
        caption = (
            "The variance of an estimate over the squared length of its mean; lower is better. "
            "Hollow: biased or not derived, or without an interval."
        )
        return _strips(rows, "variance", title, "relative variance", caption)
    caption = (
        "The variance of each method relative to the lowest of an unbiased baseline of the same "
        "estimator, n and K, paired by instance. Hollow: biased (an estimate of another gradient) "
        "or not derived, or without an interval. Star: significantly lower than all others, "
        "adjusted for all comparisons."
    )
    return _strips(ratios, "variance", title, "× the lowest variance", caption, reference=1.0)


def snr(table: Table) -> Figure | None:
    """The signal-to-noise ratio of one estimate."""
    rows, title = table[table.measure == "snr"], f"Signal-to-noise ratio: {table.subject.iloc[0]}"
    caption = (
        "The length of the mean estimate over the standard deviation of one estimate: further "
        "right is better. Hollow: biased or not derived, or without an interval."
    )
    return _strips(rows, "snr", title, "signal-to-noise ratio", caption)


def _strips(
    rows: Table, name: str, title: str, axis: str, caption: str, *, reference: float = 0.0
) -> Figure | None:
    """Marks on a logarithmic axis: a line per method, best first and biased last, a look per n."""
    data, domain = draw.bounded(_few_sizes(rows), log=True, least=reference or None)
    if data.empty:
        return None
    data["solid"] = data.unbiased & data.low.notna()
    color, shape, sizes = _by_size(data)
    offset = alt.YOffset("look:N", sort=sizes).scale(paddingOuter=0.6)
    ticks = alt.Axis(format="~g", values=draw.decades(domain), grid=True)

    def layers(part: Table, last: bool) -> list[Any]:
        x = alt.X("value:Q", axis=ticks, title=axis if last else None)
        x = x.scale(alt.Scale(type="log", domain=domain, nice=False))
        y = alt.Y("method:N", sort=_order(part, name == "snr"), title=None).axis(ticks=False)
        marks = draw.intervals(x, domain, color, shape, y=y, yOffset=offset)
        if not reference:
            return marks
        star = alt.Chart().mark_text(text="★", dx=11, fontSize=12, color="#D55E00")
        star = star.encode(x=x, y=y, yOffset=offset).transform_filter("datum.best")
        return [draw.reference(x=reference), *marks, star]

    star = "; star: significantly lowest" if reference and data.best.any() else ""
    subtitle = f"Bars: {data.level.iloc[0]:.0%} intervals; hollow: biased or not derived{star}"
    chart = draw.finished(draw.panels(data, layers, "k"), title, subtitle)
    return Figure(name, title, f"{caption} {_bars(data)}", chart)


def _bars(data: Table) -> str:
    """The meaning of the bars: which instances their intervals are about."""
    about = {FIXED: "these fixed instances", NEW: "new instances"}
    found = [about[each] for each in data.about.unique() if each in about]
    both = "new instances, or these fixed ones where too few carry the mean"
    words = both if len(found) > 1 else "".join(found)
    return f"Bars: {data.level.iloc[0]:.0%} intervals{words and f' about {words}'}."


def _order(part: Table, largest: bool) -> list[str]:
    sizes = part.assign(size=np.log(part.value)).groupby(["method", "unbiased"])["size"].mean()
    ordered = sizes.reset_index().sort_values(["unbiased", "size"], ascending=[False, not largest])
    return list(ordered.method)


def _few_sizes(rows: Table) -> Table:
    """The rows by K, of a few n, the least and the largest among them."""
    sizes = sorted(rows.n.unique())
    few = {sizes[round(i * (len(sizes) - 1) / (SIZES - 1))] for i in range(SIZES) if sizes}
    rows = rows.sort_values("k", kind="stable")
    return rows[rows.n.isin(few)] if len(sizes) > SIZES else rows


def _by_size(data: Table) -> tuple[Any, Any, list[str]]:
    data["look"] = "n = " + data.n.astype(str)
    names = [f"n = {n}" for n in sorted(data.n.unique())]
    return *draw.looks(names, draw.ordered(len(names))), names


def bias(table: Table) -> Figure | None:
    """Length and direction of the mean estimate of the methods that are biased."""
    wrong = table[~table.unbiased | table.bias.isin([*FOUND_BIASED, "alarm"])]
    rows = table[table.row.isin(wrong.row) & table.bias.ne("reference")]
    rows = _few_sizes(rows[rows.measure.isin(["scale", "cosine"])])
    if rows.empty:
        return None
    names = rows.method.str.removesuffix(" (biased)")
    rows = rows.assign(line=names + ", K = " + rows.k.astype(str))
    lines = []
    for place, here in rows.groupby("place", sort=False):
        parts, order = [], list(dict.fromkeys(here.sort_values(["method", "k"]).line))
        for measure, axis in _OF_BIAS.items():
            data, domain = draw.bounded(here[here.measure == measure], least=1.0)
            data["solid"] = data.bias.isin(FOUND_BIASED)
            color, shape, sizes = _by_size(data)
            x = alt.X("value:Q", title=axis).scale(domain=domain, nice=False).axis(grid=True)
            y = alt.Y("line:N", sort=order, title=None).scale(domain=order)
            y = y.axis(ticks=False, labels=measure == "scale")
            offset = alt.YOffset("look:N", sort=sizes).scale(paddingOuter=0.6)
            marks = draw.intervals(x, domain, color, shape, y=y, yOffset=offset)
            parts.append(
                alt.layer(draw.reference(x=1.0), *marks, data=data).properties(
                    width=draw.WIDTH, height=draw.LINE
                )
            )
        lines.append(
            alt.hconcat(*parts, spacing=12, title=alt.Title(str(place), fontSize=11, offset=4))
        )
    title, count = f"Bias: {table.subject.iloc[0]}", table.row.nunique() - rows.row.nunique()
    caption = (
        "The mean estimate along the true gradient: its length (0.5: half as long) and the cosine "
        "of its angle to it (below 1: another direction). Filled: significantly biased, adjusted "
        f"for all rows. Not shown: {count} rows of methods that are unbiased by derivation, of "
        "which none was found biased."
    )
    subtitle = f"Bars: {rows.level.iloc[0]:.0%} intervals; filled: significant"
    chart = draw.finished(alt.vconcat(*lines), title, subtitle)
    return Figure("bias", title, f"{caption} {_bars(rows)}", chart)


def heat_map(table: Table) -> Figure | None:
    """The variance of each method relative to the lowest at every n and K, as coloured cells."""
    data, domain = draw.bounded(table[table.measure == "over_lowest"], log=True, least=1.0)
    if data.empty:
        return None
    data["text"] = data.value.map(draw.number)
    title = f"Gradient variance relative to the lowest: {table.subject.iloc[0]}"
    scale = alt.Scale(
        type="log", domain=[1.0, max(2.0, domain[1])], scheme="viridis", reverse=True, clamp=True
    )
    legend = alt.Legend(
        title="× the lowest variance", format="~g", values=draw.decades([1.0, domain[1]])
    )
    color = alt.condition(
        "datum.unbiased", alt.Color("value:Q", scale=scale, legend=legend), alt.value("#dddddd")
    )
    x = alt.X("n:O").axis(labelAngle=0, ticks=False)
    light = f"!datum.unbiased || datum.value < {domain[1] ** 0.45:.6g}"

    def layers(part: Table, last: bool) -> list[Any]:
        y = alt.Y("method:N", sort=_order(part, False), title=None).axis(ticks=False)
        return draw.heat(x, y, color, light=light)

    chart = draw.finished(draw.panels(data, layers, "k", width=draw.CELL), title, "Grey: biased")
    caption = (
        "Number and colour: the variance of each method relative to the lowest of an unbiased "
        "baseline of the same estimator, n and K. Grey: biased, an estimate of another gradient."
    )
    return Figure("heat_map", title, caption, chart)
