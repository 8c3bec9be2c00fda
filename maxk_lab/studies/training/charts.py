"""The charts of a training study, each a function of one table of estimates."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from maxk_lab.reports import charts as draw
from maxk_lab.reports.charts import Figure, Table
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.seeds import seed_mean
from maxk_lab.studies.training.compare import places_of
from maxk_lab.studies.training.row import UNBIASED, TrainingRow

LOG = "log/"
# Lines of one panel, beyond which methods have panels by the K that they are trained for.
LINES = 7
# What the training batches report, in words, where it changes during a training and is no rarity.
LOGGED = {
    "reward/mean": "mean reward of a batch",
    "entropy": "entropy of the policy",
    "grad_norm": "norm of the gradient",
    "kl/token": "KL to the anchor policy",
    "clip_ratio/high": "share of ratios clipped above",
    "frac_truncated": "share of cut samples",
    "frac_reward_zero_std": "share of groups of equal rewards",
    "length/mean": "mean length of a sample",
    "k": "K that a step trains for",
}


def charts(
    found: Pooled[TrainingRow], origin: Origin, more: Collection[str] = ()
) -> Iterator[Figure]:
    """The charts of every study, then those that are asked for; one of all places, or of each."""
    table = estimates(found.rows, origin.level)
    if table.empty:
        return
    places = [part for _, part in table.groupby("place", sort=False)]
    if len(places) > 1 and all(part.row.nunique() <= LINES for part in places):
        table = table.assign(panel=table.place, look=table.named, where="")
        boards = [table]
    else:
        boards = [_families(part) for part in places]
    for number, board in enumerate(boards, start=1):
        suffix = f"-{number}" if len(boards) > 1 else ""
        asked = [make for make in (max_at_k, time, log) if make.__name__ in more]
        for make in (difference, gap, during, *asked):
            if (figure := make(board)) is not None:
                yield replace(figure, name=figure.name + suffix)


def estimates(rows: Sequence[TrainingRow], level: float) -> Table:
    """One line per row, measure, K and step that has a value, in the order of the report.

    The measures are `max` and `gap` (in per cent) at the end of training, `difference` of `max` to
    the reference, paired by seed, and all of them by K; with a step `max` and `difference` during
    training; and those of the training batches by their names below `log/`.
    """
    lines = []
    for place in places_of(rows, level):
        reference = place.reference
        for row in place.known:
            same = {
                "place": place.where,
                "row": row.key.path,
                "reference": row is reference,
                "against": "" if reference is None else place.names[reference.key.path],
                "minus": "",
                "method": row.method,
                "k_train": row.key.k,
                "named": row.method_for_k,
                "estimator": row.key.estimator,
                "broken": row.derived != UNBIASED,
                "passes": row.passes,
                "costs": all(value.value < 0 for value in row.curve),
                "seeds": len(row.cells),
            }
            other = next((one for one in place.rows if one.key.path == row.compared_with), None)
            if other not in (None, reference):
                same["minus"] = place.names[row.compared_with]
            for name, one, where in (*_at_the_end(row), *_during(row, other, level)):
                if math.isfinite(one.value):
                    ends = {"value": one.value, "low": one.low, "high": one.high, "level": level}
                    lines.append({**same, "measure": name, **where, **ends})
    return draw.table_of(lines)


_Line = tuple[str, Interval, dict[str, Any]]


def _at_the_end(row: TrainingRow) -> Iterator[_Line]:
    ends = {"max": dict(enumerate(row.curve, start=1)), "difference": row.differences}
    for name, by_k in (ends | {"gap": row.sampled.gaps}).items():
        for k, found in by_k.items():
            yield name, found, {"at_k": k}


def _during(row: TrainingRow, other: TrainingRow | None, level: float) -> Iterator[_Line]:
    for number, evaluation in enumerate(row.evaluations):
        when = {name: getattr(evaluation, name) for name in ("step", "rollouts", "seconds")}
        for k, found in evaluation.values.items():
            yield "max", found, {"at_k": k, **when}
            if other is not None:
                yield "difference", _apart(row, other, number, k, level), {"at_k": k, **when}
    for name, by_rollouts in row.log.items():
        for rollouts, found in by_rollouts.items():
            yield LOG + name, found, {"rollouts": rollouts}


def _apart(row: TrainingRow, other: TrainingRow, number: int, k: int, level: float) -> Interval:
    """The difference during training, paired by seed; without an interval where there is one."""
    nothing = Interval(math.nan, math.nan, math.nan, level)
    rollouts = [[evaluation.rollouts for evaluation in each.evaluations] for each in (row, other)]
    if rollouts[0] != rollouts[1] or row.finished != other.finished:
        return nothing
    mine, theirs = (each.evaluations[number].means.get(k) for each in (row, other))
    if mine is None or theirs is None:
        return nothing
    values = np.subtract(mine, theirs).tolist()
    if len(values) == 1:
        return Interval(values[0], math.nan, math.nan, level)
    return seed_mean(values, level, row.within.of_differences)


def _families(place: Table) -> Table:
    """The lines of a place in panels by the K that is trained for, or by estimator, if many.

    The reference stands in every panel.
    """
    place = place.assign(panel="", look=place.named, where=place.place)
    if place.row.nunique() <= LINES:
        return place
    several = place.k_train.nunique() > 1
    words = "trained for K = " + place.k_train.astype(str) if several else place.estimator
    # With its K, as it stands among others of its method.
    looks = place.method.where(~place.reference, place.named) if several else place.named
    place = place.assign(panel=words, look=looks)
    reference = place[place.reference]
    others = [reference.assign(panel=panel) for panel in words.unique()]
    return pd.concat([place[~place.reference], *others], ignore_index=True)


def difference(board: Table) -> Figure | None:
    """The final Max@K minus that of the reference, by K."""
    rows = board[(board.measure == "difference") & board.step.isna()]
    title, value = f"Best of K samples against {_against(board)}", _at(board)
    caption = (
        f"{value} after training minus that of {_against(board)}, paired by seed (of one seed, by "
        f"instance): above 0 is better. {_bands(board)}{_minus(rows)}"
    )
    return _by_k(rows, "difference", title, f"difference of {value}", caption, zero=True)


def gap(board: Table) -> Figure | None:
    """The gap to the optimum of the best of K samples."""
    rows = board[board.measure == "gap"]
    title = "Gap to the optimum of the best of K samples"
    caption = f"How far it is from the optimum, in per cent: lower is better. {_bands(board)}"
    return _by_k(rows, "gap", title, "gap in %", caption, better=-1)


def max_at_k(board: Table) -> Figure | None:
    """The final Max@K."""
    rows, value = board[(board.measure == "max") & board.step.isna()], _at(board)
    caption = f"{value} on held-out instances after training: higher is better. {_bands(board)}"
    return _by_k(rows, "max_at_k", f"{value} after training", value, caption)


def _by_k(
    rows: Table,
    name: str,
    title: str,
    axis: str,
    caption: str,
    *,
    zero: bool = False,
    better: int = 1,
) -> Figure | None:
    if rows.empty:
        return None
    rows = rows.assign(x=rows.at_k, marked=rows.at_k.map(lambda k: int(k) & (int(k) - 1) == 0))
    ticks = [2**power for power in range(int(rows.x.max()).bit_length())]
    x = alt.X("x:Q", title="K").scale(alt.Scale(type="log", base=2, nice=False))
    x = x.axis(values=ticks[:: 1 if len(ticks) <= 5 else 2], grid=False)
    return _figure(rows, name, title, caption, _lines(rows, x, axis, zero=zero, better=better))


def during(board: Table) -> Figure | None:
    """The difference to the reference during training, at a few K."""
    rows = board[(board.measure == "difference") & board.step.notna()]
    caption = (
        f"{_at(board)} on held-out instances minus that of {_against(board)} at the same step, "
        f"paired by seed: above 0 is better. {_bands(board)}{_minus(rows)}"
    )
    title = f"Difference to {_against(board)} during training"
    return _rollouts(rows, "during", title, "difference", caption, zero=True)


def time(board: Table) -> Figure | None:
    """Max@K of all samples against the time of training."""
    rows = board[(board.measure == "max") & board.seconds.notna()]
    if rows.empty:
        return None
    rows = rows[rows.at_k == rows.at_k.max()]
    rows = rows.assign(marked=True, x=rows.seconds)
    x = alt.X("x:Q", title="seconds of training").axis(grid=False, tickCount=4)
    value = f"{_at(board).partition('@')[0]}@{rows.at_k.iloc[0]:.0f}"
    caption = f"Seconds of training without evaluations, mean over seeds. {_bands(board)}"
    title = f"{value} against the time of training"
    return _figure(rows, "time", title, caption, _lines(rows, x, value))


def log(board: Table) -> Figure | None:
    """The measures of the training batches themselves."""
    rows = board[board.measure.isin([LOG + name for name in LOGGED])]
    steps = rows.groupby(["measure", "row"]).value
    changing = (steps.transform("max") > steps.transform("min")) & (
        steps.transform("mean").abs() > 0.01
    )
    rows = rows[changing.groupby(rows.measure).transform("any")]
    if rows.empty:
        return None
    words = rows.measure.str.removeprefix(LOG).map(LOGGED)
    rows = rows.assign(of=words).sort_values(
        "of", key=lambda of: of.map([*LOGGED.values()].index), kind="stable"
    )
    caption = f"Measures of the training batches themselves. {_bands(board)}"
    return _rollouts(rows, "log", "What the training batches report", "", caption, of="of")


def _rollouts(
    rows: Table,
    name: str,
    title: str,
    axis: str,
    caption: str,
    *,
    of: str = "",
    zero: bool = False,
) -> Figure | None:
    """Lines against rollouts, a line of panels for each of a few K, or for each value of `of`."""
    if rows.empty:
        return None
    if not of:
        trained = [k for k in rows.k_train if k in set(rows.at_k)]
        ks = {rows.at_k.min(), max(trained, default=rows.at_k.max()), rows.at_k.max()}
        rows = rows[rows.at_k.isin(ks)].sort_values("at_k", kind="stable")
        rows = rows.assign(of=_at(rows).partition("@")[0] + "@" + rows.at_k.astype(int).astype(str))
    rows = rows.assign(x=rows.rollouts / 1000)
    rows["marked"] = rows.x == rows.groupby(["row", "of"]).x.transform("max")
    x = alt.X("x:Q", title="thousand rollouts").axis(grid=False, tickCount=4)
    parts = [part for _, part in rows.groupby("of", sort=False)]
    words = [f"{axis} of {part.of.iloc[0]}" if axis else part.of.iloc[0] for part in parts]
    better = 0 if of else 1
    lines = [
        _lines(part, x, word, zero=zero, better=better)
        for part, word in zip(parts, words, strict=True)
    ]
    return _figure(rows, name, title, caption, alt.vconcat(*lines))


def _figure(rows: Table, name: str, title: str, caption: str, chart: Any) -> Figure:
    where = rows["where"].iloc[0]
    title = f"{title}: {where}" if where else title
    return Figure(name, title, caption, draw.finished(chart, title))


def _lines(rows: Table, x: Any, axis: str, *, zero: bool = False, better: int = 1) -> Any:
    """Panels of lines with their bands; what would flatten the others is a note at the edge."""
    rows = rows.assign(line=rows.row + rows.panel, solid=True, note=None)
    apart = rows["where"].iloc[0] == "" and rows.panel.nunique() > 1
    groups = [part for _, part in rows.groupby("panel", sort=False)] if apart else [rows]
    fitted = [_fitted(part, zero=zero, better=better) for part in groups]
    reference = rows[rows.reference]["look"]
    names = list(dict.fromkeys(rows["look"]))
    color, shape = draw.looks(names, reference="" if reference.empty else reference.iloc[0])
    scale = {"zero": False} if apart else {"zero": False, "domain": fitted[0][1], "nice": False}
    y = alt.Y("value:Q", title=axis).scale(alt.Scale(**scale)).axis(tickCount=5)
    layers = draw.curves(x, y, color, shape)
    notes = alt.Chart().mark_text(align="right", fontSize=9.5, baseline="bottom")
    layers.append(
        notes.encode(x=x, y=y, text="note:N", color=color).transform_filter("datum.note !== null")
    )
    if zero:
        layers.insert(0, draw.reference(y=0.0))
    data = pd.concat([part for part, _ in fitted])
    chart = draw.panels(data, lambda part, last: layers, height=170)
    return chart.resolve_scale(y="independent") if apart else chart


def _fitted(rows: Table, *, zero: bool, better: int) -> tuple[Table, list[float]]:
    """The lines of an axis with notes on those that leave it, and its ends."""
    kept, gone = draw.off_axis(rows, "x", zero=zero, better=better)
    data, domain = draw.bounded(kept, least=0.0 if zero else None)
    data["told"] = [
        ", ".join(filter(None, one)) for one in zip(data["look"], data.panel, strict=True)
    ]
    if gone.empty:
        return data, domain
    step = 0.075 * (domain[1] - domain[0])
    above = domain[1] - step * (gone["rank"] + 1)
    gone["value"] = above.where(gone.above, domain[0] + step * gone["rank"])
    gone["note"] = gone.above.map({True: "▲ ", False: "▼ "}) + gone.text
    gone["line"] = "note " + gone.line
    notes = gone.assign(x=rows.x.max(), marked=False, solid=True, broken=False, lo=None)
    return pd.concat([data, notes[[*set(notes) & set(data)]]]), domain


def _at(board: Table) -> str:
    return "pass@K" if board.passes.all() else "Max@K"


def _against(board: Table) -> str:
    return " or ".join(dict.fromkeys(filter(None, board.against)))


def _minus(board: Table) -> str:
    """The words for lines that are differences to another one than the title says."""
    lines = board[board.minus != ""].groupby("minus", sort=False)["named"].unique()
    return "".join(f" Minus {other} are {', '.join(of)}." for other, of in lines.items())


def _bands(board: Table) -> str:
    seeds = int(board.seeds.max())
    over = f"{seeds} seeds" if seeds > 1 else "the held-out instances of one seed"
    broken = " Broken lines: biased, or of another objective." if board.broken.any() else ""
    return f"Bands: {board.level.iloc[0]:.0%} intervals over {over}.{broken}"
