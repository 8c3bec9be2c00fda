"""The charts of a gradient study, from a table with one line for each row and measure.

Columns of the table: `measure`, `value`, `low`, `high`, `level`, `about` (fixed or new instances);
`method` (label), `order` (the same in all charts), `state` (of its bias), `verdict` (of the test of
bias), `best` (significantly lowest); `n`, `k`, `place` (environment, setting and stage, if they
differ), `subject` (what all rows share), `row` (its path).
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np

from maxk_lab.reports import charts as draw
from maxk_lab.reports.charts import Figure, Panel, Table
from maxk_lab.reports.naming import BIASED, UNBIASED, Setting, plain_setting
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import FIXED, NEW
from maxk_lab.studies.gradient.row import FOUND_BIASED, GradientRow, method, method_order

# Further settings and values of n are in the tables only.
PLACES, SIZES = 6, 5
# The letters of one line of a label; in pixels, the height of a line and of the marks of one n.
_LETTERS, _LINE, _MARK = 24, 16, 9
# A sign between spaces without line break.
_EQUALS = "\u00a0=\u00a0"
# Measure → its word.
_BIAS = {"scale": "length", "cosine": "cosine"}


def charts(pooled: Pooled[GradientRow], origin: Origin) -> Iterator[Figure]:
    """Yield the charts of a gradient study."""
    table = estimates(pooled.rows)
    if table.empty:
        return
    places = list(dict.fromkeys(table.place))
    shown = table[table.place.isin(places[:PLACES])]
    rest = f" The first {PLACES} of {len(places)} settings." if len(places) > PLACES else ""
    for make in (variance, bias, snr):
        if (figure := make(shown)) is not None:
            yield replace(figure, formula=figure.formula + rest)


def estimates(rows: Sequence[GradientRow]) -> Table:
    """Return a table with the columns above, in the order of the charts.

    The measure `over_lowest` is the paired ratio to the lowest variance of an unbiased baseline at
    the same estimator, n and K; the lowest itself has 1. Rows that were not compared lack it.
    """
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    partners = {
        (row.key.group, row.over_least.line.partner) for row in rows if row.over_least is not None
    }

    def order(row: GradientRow) -> tuple[Any, ...]:
        key = row.key
        return key.k, key.environment, key.stage, settings.index(key.setting), key.n

    ordered = sorted(rows, key=order)
    places, subject = _places(ordered)
    labels = _labels(ordered)
    lines = []
    for row in ordered:
        key, place = row.key, places[_place(row)]
        about_row = {
            "row": key.path,
            "n": key.n,
            "k": key.k,
            "place": place,
            "subject": subject,
            "method": labels[key.estimator, key.baseline, row.bias_state],
            "state": row.bias_state,
            "style": draw.STYLES[row.bias_state],
            "verdict": row.bias.verdict,
            "best": row.best,
        }
        measures: dict[str, Interval] = dict(row.intervals)
        if row.over_least is not None or (key.group, key.path) in partners:
            lowest = Interval(1.0, 1.0, 1.0, row.intervals["variance"].level)
            measures["over_lowest"] = lowest if row.over_least is None else row.over_least.mean
        for measure, interval in measures.items() if row.units is not None else ():
            if math.isfinite(interval.value):
                ends = {"low": interval.low, "high": interval.high, "level": interval.level}
                value = {"measure": measure, "value": interval.value, "about": interval.question}
                lines.append(about_row | value | ends)
    table = draw.chart_table(lines)
    return table if table.empty else table.assign(order=table.method.map(_orders(table)))


def _labels(rows: Sequence[GradientRow]) -> Mapping[Any, str]:
    """Return the label of each method, with its estimator if several take a baseline."""
    several = len({row.key.estimator for row in rows if row.key.method.takes_baseline}) > 1
    labels = {}
    for row in sorted(rows, key=method_order):
        key, state = row.key, row.bias_state
        estimator = f"{key.estimator} " if several and key.method.takes_baseline else ""
        words = "" if state == UNBIASED else f" ({state})"
        labels[key.estimator, key.baseline, state] = f"{estimator}{method(row)}{words}"
    return labels


def _orders(table: Table) -> Mapping[str, int]:
    """Return the place of each method: lowest variance first, biased methods last."""
    lowest = "over_lowest" if (table.measure == "over_lowest").any() else "relative_variance"
    numbers = draw.drawable(table[table.measure == lowest], log=True)
    sizes = np.log(numbers.value).groupby(numbers.method).mean()
    methods = table.drop_duplicates("method").set_index("method")
    keys = methods.assign(size=sizes, biased=methods.state == BIASED)
    ordered = keys.sort_values(["biased", "size"], kind="stable").index
    return {name: place for place, name in enumerate(ordered)}


def _place(row: GradientRow) -> Any:
    return row.key.words or row.key.environment, row.key.setting, row.key.stage


def _trained(stage: int, setting: Setting) -> str:
    """Return how long a policy was trained; empty if the setting names its checkpoint."""
    if stage:
        return f"after {stage} steps"
    return "" if "policy.checkpoint" in dict(setting) else "before training"


def _places(rows: Sequence[GradientRow]) -> tuple[dict[Any, str], str]:
    """Return the words in which places differ, and the words that all places share."""
    words = {
        (environment, setting, stage): (
            environment,
            plain_setting(setting),
            _trained(stage, setting),
        )
        for environment, setting, stage in map(_place, rows)
    }
    differ = [len(set(column)) > 1 for column in zip(*words.values(), strict=True)]

    def joined(parts: Sequence[str], differing: bool) -> str:
        chosen = (text for text, so in zip(parts, differ, strict=True) if so == differing)
        return ", ".join(filter(None, chosen))

    names = {place: joined(parts, True) for place, parts in words.items()}
    return names, next((joined(parts, False) for parts in words.values()), "")


def variance(table: Table) -> Figure | None:
    """Return the variance over the lowest of its group; without a lowest, over the squared mean.

    Columns: method, order, state, n, k, place, value, low, high, best.
    """
    ratios = table[table.measure == "over_lowest"]
    if ratios.empty:
        rows = table[table.measure == "relative_variance"]
        formula = "tr Cov ĝ / ‖E ĝ‖²: lower is better."
        return _strips(rows, "variance", "Gradient variance", "variance / squared mean", formula)
    formula = (
        "tr Cov ĝ divided by the lowest tr Cov ĝ of an unbiased baseline with the same estimator, "
        "n and K, paired by instance: lower is better."
    )
    return _strips(
        ratios, "variance", "Gradient variance", "variance / lowest variance", formula, line=1.0
    )


def snr(table: Table) -> Figure | None:
    """Return the signal-to-noise ratio of one estimate. Columns: as for `variance`."""
    rows = table[table.measure == "snr"]
    formula = "‖E ĝ‖² / tr Cov ĝ of one estimate: higher is better."
    return _strips(rows, "snr", "Signal-to-noise ratio", "signal-to-noise ratio", formula)


def _strips(
    rows: Table, name: str, title: str, axis: str, formula: str, *, line: float | None = None
) -> Figure | None:
    """Return panels by K and place with logarithmic axes, all with the same ends."""
    rows = draw.drawable(_few_sizes(rows), log=True)
    if rows.empty:
        return None
    domain = draw.axis_domain(rows, log=True, include=[] if line is None else [line])
    values = draw.log_ticks(domain)
    form = "~s" if values and values[0] >= 1 else "~g"
    ticks = alt.Axis(format=form, values=values, grid=True)
    scale = alt.Scale(type="log", domain=domain, nice=False)
    x = alt.X("value:Q", title=axis, axis=ticks, scale=scale)
    legend = _legend(rows)
    panels = tuple(
        _panel(panel, x, domain, line, legend, ", ".join(filter(None, [f"K = {k}", place])))
        for (k, place), panel in rows.groupby(["k", "place"], sort=False)
    )
    several = rows.place.nunique() if rows.place.nunique() > 1 else rows.k.nunique()
    columns = 4 if len(panels) > 8 and several == 4 else 2 if several == 4 else min(several, 3)
    stars = line is not None and rows.best.any()
    star = " Star: significantly lower than all others at this n and K." if stars else ""
    title, marks = (
        f"{title}: {rows.subject.iloc[0]}{_only_n(legend)}",
        f"{_bars(rows)} {draw.fills(rows['style'])}{star}",
    )
    shown = legend if len(legend) > 1 else {}
    return Figure(name, title, formula, marks, panels, shown, columns)


def _panel(
    rows: Table,
    x: Any,
    domain: Sequence[float],
    line: float | None,
    legend: Mapping[str, tuple[str, str]],
    title: str,
) -> Panel:
    """Return a line for each method with a mark for each n; stars are right of the axis.

    Columns: method, order, state, n, value, low, high, best.
    """
    data = draw.on_axis(rows.sort_values("order", kind="stable"), domain)
    data["series"] = "n = " + data.n.astype(str)
    data["name"] = data.method + ", " + data.series + f", {title}"
    data["label"] = [textwrap.fill(name.replace(" = ", _EQUALS), _LETTERS) for name in data.method]
    sizes = [f"n = {n}" for n in sorted(data.n.unique())]
    color, shape = draw.series(legend)
    labels = alt.Axis(ticks=False, labelExpr="split(datum.label, '\\n')")
    domain_of_y = alt.Scale(domain=list(dict.fromkeys(data.label)))
    y = alt.Y("label:N", title=None, axis=labels, scale=domain_of_y)
    offset = alt.YOffset("series:N", sort=sizes).scale(paddingOuter=0.5)
    layers = draw.interval_marks(x, domain, color, shape, y=y, yOffset=offset)
    if line is not None:
        layers.insert(0, draw.reference_line(x=line))
        star = alt.Chart().mark_text(text="★", dx=9, fontSize=13)
        # All panels get an (invisible) star, so that their plots have equal widths.
        seen = alt.condition("datum.best", alt.value(1), alt.value(0))
        place = {"x": alt.value("width"), "y": y, "yOffset": offset}
        layers.append(star.encode(**place, color=color, opacity=seen))
    lines = 1 + max(name.count("\n") for name in data.label)
    step = max(_LINE * lines + 4, _MARK * len(sizes) + 6)
    columns = ["label", "series", "name", "style", "best", "value", "low", "high", "lo", "hi"]
    chart = alt.layer(*layers, data=data[[*columns, "open"]])
    return Panel(title, chart.properties(height=step * data.label.nunique()))


def _legend(rows: Table) -> dict[str, tuple[str, str]]:
    """Return the colour and shape of each n, from small to large."""
    names = [f"n = {n}" for n in sorted(rows.n.unique())]
    return draw.legend_of(names, draw.ordered(len(names)))


def _only_n(legend: Mapping[str, tuple[str, str]]) -> str:
    """Return the n of all rows in words if they share it; a legend then has nothing to tell."""
    return f", {next(iter(legend))}" if len(legend) == 1 else ""


def _bars(rows: Table) -> str:
    """Return the meaning of the bars: the instances that their intervals are about."""
    words = {FIXED: "the fixed instances", NEW: "new instances"}
    about = [words[question] for question in rows.about.unique() if question in words]
    both = "new instances, or the fixed instances where too few carry the mean"
    instances = both if len(about) > 1 else "".join(about)
    return f"Bars: {rows.level.iloc[0]:.0%} intervals{instances and f' for {instances}'}."


def _few_sizes(rows: Table) -> Table:
    """Return the rows of at most five n, the smallest and the largest included."""
    sizes = sorted(rows.n.unique())
    few = {sizes[round(i * (len(sizes) - 1) / (SIZES - 1))] for i in range(SIZES) if sizes}
    return rows[rows.n.isin(few)] if len(sizes) > SIZES else rows


def bias(table: Table) -> Figure | None:
    """Length and direction of the mean estimate of methods that are biased in direction.

    Columns: method, order, state, verdict, n, k, place, measure, value, low, high.
    """
    suspects = table[(table.state == BIASED) | table.verdict.isin([*FOUND_BIASED, "alarm"])]
    rows = suspects[suspects.measure.isin(_BIAS) & suspects.verdict.ne("reference")]
    rows = draw.drawable(_few_sizes(rows))
    if rows.empty or not rows.verdict.isin(["biased", "alarm"]).any():
        return None
    names = rows.method.str.removesuffix(" (biased)") + ", K = " + rows.k.astype(str)
    rows = rows.assign(method=names, best=False).sort_values(["order", "k"], kind="stable")
    places = {name: number for number, name in enumerate(dict.fromkeys(rows.method))}
    rows["order"] = rows.method.map(places)
    rows["style"] = np.where(rows.verdict.isin([*FOUND_BIASED, "alarm"]), "solid", "hollow")
    axes, legend = {}, _legend(rows)
    for measure, axis in _BIAS.items():
        domain = draw.axis_domain(rows[rows.measure == measure], include=[1.0])
        scale = alt.Scale(domain=domain, nice=False)
        axes[measure] = (
            alt.X("value:Q", title=axis, scale=scale).axis(
                grid=True, tickCount=5, labelFlush=False
            ),
            domain,
        )
    panels = tuple(
        _panel(panel, *axes[measure], 1.0, legend, f"{_BIAS[measure]}{place and f', {place}'}")
        for place in dict.fromkeys(rows.place)
        for measure in _BIAS
        if not (panel := rows[(rows.place == place) & (rows.measure == measure)]).empty
    )
    count = table.row.nunique() - rows.row.nunique()
    formula = (
        "Length: ⟨E ĝ, ∇J⟩ / ‖∇J‖². Cosine: ⟨E ĝ, ∇J⟩ / (‖E ĝ‖ ‖∇J‖). Both are 1 without bias. "
        f"Not shown: {count} rows that are unbiased by proof, or not proved and without a "
        "significant bias."
    )
    marks = f"{_bars(rows)} Filled: significant bias, corrected for all rows; hollow: not."
    title = f"Bias: {table.subject.iloc[0]}{_only_n(legend)}"
    shown = legend if len(legend) > 1 else {}
    return Figure("bias", title, formula, marks, panels, shown, columns=2)
