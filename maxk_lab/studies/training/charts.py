"""The charts of a training study, from a table with a line for each row, measure, K and step.

Columns of the table: `measure` (`max`; its `difference` to a reference, paired by seed; `gap` to
the optimum in per cent), `value`, `low`, `high`, `level`; `at_k` (K at evaluation), `step`,
`rollouts` (both NaN at the end of training); `row` (its path), `method`, `named` (with its K),
`k_train`, `estimator`, `style` (from its bias), `passes` (rewards are 0 or 1), `seeds`; `place`
(environment and policy), `reference` (whether the row is a reference), `against` (the reference of
its place), `minus` (its own reference, if it is another).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from maxk_lab.reports import charts as draw
from maxk_lab.reports.charts import Figure, Panel, Table
from maxk_lab.reports.naming import BIASED
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds import seed_mean
from maxk_lab.studies.training.differences import why_not_paired
from maxk_lab.studies.training.row import TrainingRow
from maxk_lab.studies.training.table import places_of

# With more lines a chart has a panel for each K that methods are trained for.
LINES = 7
_HEIGHT = 210
# A space without line break.
_SPACE = "\u00a0"
_TRAINED = "trained for"


def charts(pooled: Pooled[TrainingRow], origin: Origin) -> Iterator[Figure]:
    """Yield the charts of a training study, for all places together or for each place."""
    table = estimates(pooled.rows, origin.level)
    if table.empty:
        return
    places = [rows for _, rows in table.groupby("place", sort=False)]
    if len(places) > 1 and all(rows.row.nunique() <= LINES for rows in places):
        boards = [table.assign(panel=table.place, series=table.named, subject="")]
    else:
        boards = [_board(rows) for rows in places]
    for number, board in enumerate(boards, start=1):
        suffix = f"-{number}" if len(boards) > 1 else ""
        for make in (difference, gap, max_at_k, during):
            if (figure := make(board)) is not None:
                yield replace(figure, name=figure.name + suffix)


def estimates(rows: Sequence[TrainingRow], level: float) -> Table:
    """Return a table with the columns above, in the order of the report."""
    lines = []
    for place in places_of(rows, 1 - level):
        reference = place.reference
        several = len({row.key.n for row in place.rows}) > 1
        for row in place.measured:
            size = f" at n = {row.key.n}" if several else ""
            paired = next((r for r in place.rows if r.key.path == row.compared_with), None)
            has_own_reference = paired not in (None, reference)
            about_row = {
                "place": place.where,
                "row": row.key.path,
                "reference": row is reference,
                "against": "" if reference is None else place.names[reference.key.path],
                "minus": place.names[row.compared_with] if has_own_reference else "",
                "method": row.method + size,
                "k_train": row.key.k,
                "named": row.method_for_k + size,
                "estimator": row.key.estimator,
                "style": _style(row),
                "passes": row.passes,
                "seeds": len(row.cells),
            }
            for name, interval, where in (*_final(row), *_during(row, paired, level)):
                if math.isfinite(interval.value):
                    ends = {"low": interval.low, "high": interval.high, "level": level}
                    number = {"measure": name, "value": interval.value, **where, **ends}
                    lines.append(about_row | number)
    return draw.chart_table(lines)


def _style(row: TrainingRow) -> str:
    """Return the style of a line: dashed if it is biased, or trained for another objective."""
    return draw.STYLES.get(row.bias_state, draw.STYLES[BIASED])


_Line = tuple[str, Interval, dict[str, Any]]


def _final(row: TrainingRow) -> Iterator[_Line]:
    """Yield the values at the end of training by K."""
    curve = dict(enumerate(row.curve, start=1))
    measures = {"max": curve, "difference": row.differences, "gap": row.sampled.gaps}
    for name, by_k in measures.items():
        for k, interval in by_k.items():
            yield name, interval, {"at_k": k, "step": math.nan, "rollouts": math.nan}


def _during(row: TrainingRow, paired: TrainingRow | None, level: float) -> Iterator[_Line]:
    """Yield the differences to a row during training."""
    for number, evaluation in enumerate(row.evaluations):
        when = {"step": evaluation.step, "rollouts": evaluation.rollouts}
        if paired is not None:
            for k in evaluation.values:
                yield "difference", _difference(row, paired, number, k, level), {"at_k": k, **when}


def _difference(
    row: TrainingRow, paired: TrainingRow, number: int, k: int, level: float
) -> Interval:
    """Return the difference at one evaluation, paired by seed; NaN without pairs."""
    rollouts = [[evaluation.rollouts for evaluation in each.evaluations] for each in (row, paired)]
    means = (
        [each.evaluations[number].means.get(k) for each in (row, paired)]
        if rollouts[0] == rollouts[1] and not why_not_paired(row, paired, k)
        else [None]
    )
    if any(mean is None for mean in means):
        return Interval(math.nan, math.nan, math.nan, level)
    values = np.subtract(*means).tolist()
    if len(values) == 1:
        return Interval(values[0], math.nan, math.nan, level)
    return seed_mean(values, level, row.within.differences)


def _board(place: Table) -> Table:
    """Return the lines of a place with their panel and series; the reference is in all panels."""
    place = place.assign(panel="", series=place.named, subject=place.place)
    if place.row.nunique() <= LINES:
        return place
    several = place.k_train.nunique() > 1
    panels = f"{_TRAINED} K = " + place.k_train.astype(str) if several else place.estimator
    series = place.method.where(~place.reference, place.named) if several else place.named
    place = place.assign(panel=panels, series=series)
    reference = place[place.reference]
    copies = [reference.assign(panel=panel) for panel in panels.unique()]
    return pd.concat([place[~place.reference], *copies], ignore_index=True)


def difference(board: Table) -> Figure | None:
    """Return the final Max@K minus Max@K of the reference.

    Columns: measure (`difference`), step (NaN at the end), at_k, value, low, high, level, row,
    series, style, panel, place, subject, seeds, passes, against, minus, named, reference.
    """
    rows = board[(board.measure == "difference") & board.step.isna()]
    value, against = _objective(board), _against(board)
    formula = (
        f"{value} after training minus {value} of {against} on the same held-out instances, "
        f"paired by seed (with one seed, by instance): above 0 is better.{_minus(rows)}"
    )
    title = f"{value} after training, minus {against}"
    return _plot_by_k(rows, "difference", title, f"difference of {value}", formula, zero=True)


def gap(board: Table) -> Figure | None:
    """Return the gap of the best of K samples to the optimum.

    Columns: measure (`gap`), at_k, value, low, high, level, row, series, style, panel, place,
    subject, seeds, reference.
    """
    rows = board[board.measure == "gap"]
    title = "Gap of the best of K samples to the optimum"
    formula = "Mean gap to the optimum after training on held-out instances: lower is better."
    log = bool((rows.value > 0).all())
    return _plot_by_k(rows, "gap", title, "gap in %", formula, better=-1, log=log)


def max_at_k(board: Table) -> Figure | None:
    """Return the final Max@K if no optimum is known; otherwise `gap` shows the same data.

    Columns: measure (`max`), step (NaN at the end), at_k, value, low, high, level, row, series,
    style, panel, place, subject, seeds, passes, reference.
    """
    if (board.measure == "gap").any():
        return None
    rows, value = board[(board.measure == "max") & board.step.isna()], _objective(board)
    formula = f"{value} after training on held-out instances: higher is better."
    return _plot_by_k(rows, "max_at_k", f"{value} after training", value, formula)


def during(board: Table) -> Figure | None:
    """Return the difference to the reference during training, at the trained K and the largest K.

    Columns: measure (`difference`), step, rollouts, at_k, k_train, value, low, high, level, row,
    series, style, panel, place, subject, seeds, passes, against, minus, named, reference.
    """
    rows = board[(board.measure == "difference") & board.step.notna()]
    if rows.empty:
        return None
    value, against, top = _objective(board), _against(board), rows.at_k.max()
    # A panel for a trained K shows this K; without such panels the chart shows the largest K.
    by_k = board.panel.str.startswith(_TRAINED).any()
    trained = rows.k_train if by_k else rows.k_train[rows.k_train < top].max()
    levels = [rows[(rows.at_k == trained) & (rows.at_k < top)], rows[rows.at_k == top]]
    x = alt.X("x:Q", title="thousand rollouts").axis(grid=False, tickCount=4)
    x = x.scale(nice=False)
    panels: list[Panel] = []
    for level in (level for level in levels if not level.empty):
        last = level.rollouts == level.groupby("row").rollouts.transform("max")
        level = level.assign(x=level.rollouts / 1000, marked=last)
        level["words"] = value.removesuffix("K") + level.at_k.astype(int).astype(str)
        panels += _panels(level, x, "difference", _legend(rows), zero=True)
    formula = (
        f"{value} on held-out instances minus {value} of {against} at the same step, paired by "
        f"seed: above 0 is better.{_minus(rows)}"
    )
    return _figure(rows, "during", f"{value} during training, minus {against}", formula, panels)


def _plot_by_k(
    rows: Table, name: str, title: str, axis: str, formula: str, **settings: Any
) -> Figure | None:
    """Return a figure with K at evaluation on a logarithmic axis, and marks at powers of two."""
    if rows.empty:
        return None
    powers = [2**power for power in range(int(rows.at_k.max()).bit_length())]
    rows = rows.assign(x=rows.at_k, marked=rows.at_k.isin(powers), words="")
    x = alt.X("x:Q", title="K at evaluation").scale(alt.Scale(type="log", base=2, nice=False))
    x = x.axis(values=powers[:: 1 if len(powers) <= 5 else 2], grid=False, labelFlush=False)
    return _figure(rows, name, title, formula, _panels(rows, x, axis, _legend(rows), **settings))


def _figure(board: Table, name: str, title: str, formula: str, panels: Sequence[Panel]) -> Figure:
    subject = board.subject.iloc[0]
    seeds = int(board.seeds.max())
    over = f"{seeds} seeds" if seeds > 1 else "the held-out instances of one seed"
    bands = f"Bands: {board.level.iloc[0]:.0%} intervals over {over}"
    if board.low.isna().all():
        bands = "No bands: one seed has no interval at a step"
    dashes = {
        "hollow": " Dashed: biased or another objective.",
        "pale": " Dotted: not proved.",
    }
    styles = "".join(words for style, words in dashes.items() if (board["style"] == style).any())
    columns = board.panel.nunique() if board.panel.nunique() > 1 else len(panels)
    return Figure(
        name,
        f"{title}: {subject}" if subject else title,
        formula,
        f"{bands}.{styles}",
        tuple(panels),
        _legend(board),
        min(columns, 2 if columns == 4 else 3),
    )


def _legend(board: Table) -> dict[str, tuple[str, str]]:
    reference = board.series[board.reference].unique()
    return draw.legend_of(list(dict.fromkeys(board.series)), reference="".join(reference[:1]))


def _panels(
    rows: Table,
    x: Any,
    axis: str,
    legend: Mapping[str, tuple[str, str]],
    *,
    zero: bool = False,
    better: int = 1,
    log: bool = False,
) -> list[Panel]:
    """Return a panel for each `panel`, all with one y axis; each place has its own axis.

    Columns: x, value, low, high, row, series, style, marked, words (of the title), panel.
    """
    rows = draw.drawable(rows.assign(line=rows.row + rows.panel), log=log)
    every = [panel for _, panel in rows.groupby("panel", sort=False)]
    groups = [[panel] for panel in every] if rows.place.nunique() > 1 else [every]
    color, shape = draw.series(legend)
    panels = []
    for group in groups:
        data = pd.concat(group)
        near = data[~data.line.isin(_far_lines(data, zero=zero, better=better))]
        domain = draw.axis_domain(near, log=log, include=[0.0] if zero else [])
        scale = alt.Scale(domain=domain, nice=False, type="log" if log else "linear")
        ticks = {"values": draw.log_ticks(domain), "format": "~g"} if log else {"tickCount": 5}
        y = alt.Y("value:Q", title=axis, scale=scale, axis=alt.Axis(grid=True, **ticks))
        layers = draw.curve_marks(x, y, color, shape)
        layers = [draw.reference_line(y=0.0), *layers] if zero else layers
        for panel in group:
            title = ", ".join(filter(None, [panel.words.iloc[0], panel.panel.iloc[0]]))
            names = panel.series + (f", {title}" if title else "")
            on_axis = panel.value.between(*domain)
            # A band without its line would cover all other lines.
            drawn = on_axis.groupby(panel.line).transform("any")
            ends = {end: panel[end].where(drawn) for end in ("low", "high")}
            shown = draw.on_axis(panel.assign(**ends), domain).assign(name=names)
            shown["marked"] &= on_axis
            chart = alt.layer(*layers, data=shown[draw.CURVE_COLUMNS]).properties(height=_HEIGHT)
            panels.append(Panel(title, chart, _beyond(panel, domain)))
    return panels


def _far_lines(rows: Table, *, zero: bool, better: int) -> list[str]:
    """Return the lines that would flatten all other lines on one axis.

    Their distance from 0, or from the median at each x, is more than three times that of half of
    the lines, and not on the `better` side (1: above).
    """
    centre = 0.0 if zero else rows.groupby("x").value.transform("median")
    worse = (-better * (rows.value - centre)).groupby(rows.line, sort=False).max()
    distances = (rows.value - centre).abs().groupby(rows.line, sort=False).max()
    limit = 3 * distances.median()
    return list(distances.index[(worse >= distances) & (distances > limit) & (limit > 0)])


def _beyond(panel: Table, domain: Sequence[float]) -> str:
    """Return the note on the lines that leave the axis of a panel."""
    ranges = panel.groupby(["line", "series"], sort=False).value.agg(["min", "max"])
    ranges = ranges.reset_index()
    gone = ranges[(ranges["min"] < domain[0]) | (ranges["max"] > domain[1])]
    words = [
        f"{line.series} "
        + f"{draw.number(line.min)} to {draw.number(line.max)}".replace(" ", _SPACE)
        for line in gone.itertuples()
    ]
    return f"Beyond the axis: {'; '.join(words)}" if words else ""


def _objective(board: Table) -> str:
    return "pass@K" if board.passes.all() else "Max@K"


def _against(board: Table) -> str:
    return " or ".join(dict.fromkeys(filter(None, board.against)))


def _minus(rows: Table) -> str:
    """Return the sentences on lines with another reference than the title's."""
    lines = rows[rows.minus != ""].groupby("minus", sort=False)["named"].unique()
    return "".join(f" {', '.join(names)}: minus {reference}." for reference, names in lines.items())
