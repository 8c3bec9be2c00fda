"""The charts that a sweep file declares: one measure against one thing that it varies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from maxk_lab.reports import charts as draw
from maxk_lab.reports.charts import Figure, Table
from maxk_lab.reports.naming import spelled
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.pool import DISTANCE, OF_RATIOS

if TYPE_CHECKING:
    from maxk_lab.sweep_file.figures import Figure as Declared

# Lines of one panel.
LINES = 8
_WORDS = {
    "n": "samples n",
    "k": "K",
    "stage": "steps of training",
    DISTANCE: "distance of the sampling policy",
}


def declared_chart(table: Table, declared: Declared) -> Figure | None:
    """A line for each method or setting, in panels; None where nothing can be drawn.

    Of more than `LINES` lines those of one value of an axis have panels of their own. A bias that
    is proven to be none is rounding: on a logarithmic axis it stands hollow at the lower edge.
    """
    log = declared.scale == "log"
    rows = _with_floor(table[table.measure == declared.metric], log=log)
    rows, parts = _placed(rows[rows[declared.against].notna()], declared)
    data, domain = draw.bounded(rows, log=log)
    if data.empty:
        return None
    data = data.drop_duplicates(["panel", "line", declared.against])
    data = data.assign(x=data[declared.against], marked=True, solid=~data.floor)
    of_ratios = declared.metric in OF_RATIOS
    data["broken"] = False if of_ratios else ~data.groupby("line").unbiased.transform("all")
    color, shape = draw.looks(list(dict.fromkeys(data["look"])))
    heading = MEASURES.get(declared.metric).heading
    ticks = alt.Axis(format="~g", values=draw.decades(domain) if log else alt.Undefined)
    scale = alt.Scale(type="log" if log else "linear", domain=domain, nice=False)
    y = alt.Y("value:Q", title=heading, axis=ticks, scale=scale)
    layers = draw.curves(_along(data, declared.against), y, color, shape, bars=True)
    columns = data[declared.panels].nunique() if len(parts) > 1 else draw.COLUMNS
    columns = min(columns, draw.COLUMNS)
    chart = draw.panels(data, lambda part, last: layers, height=170, columns=columns)
    title = f"{declared.title or heading}: {table.environment.iloc[0]}"
    level = f"{data.level.iloc[0]:.0%}"
    caption = f"Bars: {level} intervals; an exact number has none. Broken lines: biased methods."
    caption += " Hollow, at the lower edge: proven to have no bias." * bool(data.floor.any())
    chart = draw.finished(chart, title, f"Bars: {level} intervals; broken: biased")
    return Figure(declared.name, title, caption, chart)


def _with_floor(rows: Table, *, log: bool) -> Table:
    """The rows with a bias that is proven to be none at the lower edge, a tenth of the others."""
    zero = (rows.bias == "unbiased") & (rows.measure == "squared_bias") & log
    floor = rows.value[~zero & (rows.value > 0)].min() / 10
    floor = floor if floor > 0 else 1.0
    ends = {name: rows[name].mask(zero, floor) for name in ("value", "low", "high")}
    return rows.assign(**ends, floor=zero)


def _placed(rows: Table, declared: Declared) -> tuple[Table, list[str]]:
    """The rows with their line, look and panel, in the order of panels, and the axes of these."""
    own = declared.metric in OF_RATIOS
    axes = [axis for axis in declared.lines if not (own and axis in ("estimator", "baseline"))]
    divided = _divided(rows, [axis for axis in axes if rows[axis].nunique() > 1])
    parts = [axis for axis in (divided, declared.panels) if axis]
    for axis in reversed(parts):
        ranks = {value: rank for rank, value in enumerate(rows[axis].unique())}
        rows = rows.assign(rank=rows[axis].map(ranks)).sort_values("rank", kind="stable")
    said = [[_told(axis, value) for value in rows[axis]] for axis in parts]
    return rows.assign(
        line=_labels(rows, axes),
        look=_labels(rows, [axis for axis in axes if axis != divided] or axes),
        panel=[", ".join(words) for words in zip(*said, strict=True)] if said else "",
    ), parts


def _along(data: Table, axis: str) -> Any:
    """The x axis, logarithmic where its values are positive and far apart."""
    positions = sorted(data.x.unique())
    even = len(positions) > 2 and positions[0] > 0 and positions[-1] >= 8 * positions[0]
    scale = alt.Scale(type="log" if even else "linear", nice=False, base=2 if even else 10)
    few = positions[:: -(-len(positions) // 7)]
    x = alt.X("x:Q", title=_WORDS.get(axis, _word(axis)), scale=scale)
    return x.axis(values=few, format=",~g", grid=False)


def _word(axis: str) -> str:
    return axis.rpartition(".")[2].replace("_", " ")


def _told(axis: str, value: Any) -> str:
    if axis in ("estimator", "baseline"):
        return str(value)
    return f"{'K' if axis == 'k' else _word(axis)} = {spelled(value)}"


def _divided(rows: Table, varying: Sequence[str]) -> str | None:
    """The axis whose values have panels of their own, where one panel would have too many lines."""
    places = rows[list(varying)].drop_duplicates()
    if len(places) <= LINES or len(varying) < 2:
        return None
    sizes = {axis: int(places.groupby(axis).size().max()) for axis in varying}
    fitting = [axis for axis in varying if sizes[axis] <= LINES] or [
        min(sizes, key=sizes.__getitem__)
    ]
    return min(fitting, key=lambda axis: places[axis].nunique())


def _labels(rows: Table, axes: Sequence[str]) -> list[str]:
    """The values that tell a line from others; no baseline of an estimator that takes none."""
    varying = [axis for axis in axes if rows[axis].nunique() > 1] or list(axes)
    return [
        ", ".join(
            _told(axis, row[axis])
            for axis in varying
            if axis != "baseline" or row["takes_baseline"] or len(varying) == 1
        )
        for row in rows[[*varying, "takes_baseline"]].to_dict("records")
    ]
