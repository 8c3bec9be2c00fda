"""The figure of a weights study: the effective reward of each sample against its raw reward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.report.document import exact
from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.drawing.style import finish, look, panels
from maxk_lab.report.model import Summary
from maxk_lab.report.naming import plain_setting
from maxk_lab.report.tables import Pooled, grouped
from maxk_lab.studies.weights.pool import WeightsRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Methods of one panel.
MOST = 6
# The style of the groups after the first: faint, so that the first stays readable.
_FAINT: dict[str, Any] = {"linestyle": "", "markersize": 2.5, "alpha": 0.22, "markeredgewidth": 0}


def figures(found: Pooled[WeightsRow], summary: Summary) -> Iterator[Picture]:
    """A figure for each environment, setting and n."""
    rows = [row for row in found.rows if row.by_seed]
    places = grouped(rows, lambda row: (row.key.environment, row.key.setting, row.key.n))
    for number, ((environment, setting, n), members) in enumerate(places.items(), 1):
        where = (members[0].key.plain or environment, plain_setting(setting))
        title = f"Effective rewards: {', '.join(filter(None, where))}, n = {n}"
        name = "effective-rewards" + (f"-{number}" if number > 1 else "")
        yield Picture(name, weights_figure(members, title), title, _caption(members))


def weights_figure(rows: Sequence[WeightsRow], title: str) -> Figure:
    """n times the weight of each sample against its reward: a line of panels per K.

    Without a baseline the weights are as large as the rewards times K: they have panels of their
    own, at the left, and of many methods a few share a panel. The dotted line is the raw reward
    itself. All rows have one environment, setting and n; groups after the first are faint.
    """
    ks = sorted({row.key.k for row in rows})
    methods = list(dict.fromkeys(row.key.pair for row in rows))
    parts = _parts(rows)
    size = (max(4.6, 0.8 + 2.1 * len(parts)), 1.1 + 1.75 * len(ks))
    figure, axes = panels(len(ks), len(parts), size, sharey="col")
    ends = _ends(rows)
    for k, line_of_axes in zip(ks, axes, strict=True):
        for panel, part in zip(line_of_axes, parts, strict=True):
            panel.plot(
                ends,
                ends,
                color="#888888",
                linewidth=0.9,
                linestyle=":",
                label="raw reward",
                zorder=1,
            )
            for row in (row for row in rows if row.key.k == k and row.key.pair in part):
                _draw(panel, row, methods.index(row.key.pair))
            panel.set_title(f"K = {k}")
            # The panels of one column alone have an axis in common.
            panel.tick_params(labelleft=True)
        line_of_axes[0].set_ylabel("effective reward n·w")
    for panel in axes[-1]:
        panel.set_xlabel("raw reward")
    more = max(len(row.groups) for row in rows) - 1
    said = "one group of rewards" + (f", {more} more faint" if more else "")
    finish(figure, axes, f"{title}\n{said}")
    return figure


def _parts(rows: Sequence[WeightsRow]) -> list[list[str]]:
    """The methods of each column of panels."""
    plain = list(dict.fromkeys(row.key.pair for row in rows if row.key.baseline == "none"))
    others = list(dict.fromkeys(row.key.pair for row in rows if row.key.baseline != "none"))
    return [found[i : i + MOST] for found in (plain, others) for i in range(0, len(found), MOST)]


def _caption(rows: Sequence[WeightsRow]) -> str:
    """The caption: what is shown, and which method pushes hardest against a sample."""
    k = max(row.key.k for row in rows)
    lowest = min(
        (row for row in rows if row.key.k == k), key=lambda row: min(row.groups[0][1], default=0.0)
    )
    rewards, weights = lowest.groups[0]
    more = max(len(row.groups) for row in rows) - 1
    groups = "one more group" if more == 1 else f"{more} more groups"
    faint = f"; faint: {groups} of rewards" if more else ""
    return (
        "The effective reward of a sample is n times its score weight: what a method puts in place "
        "of its reward. Where it is negative, the sample is made less likely. It is computed from "
        f"the rewards, and so without intervals{faint}. Here, at K = {k}, the lowest is "
        f"{exact(len(rewards) * min(weights))}, of {lowest.key.pair}."
    )


def _draw(panel: Axes, row: WeightsRow, index: int) -> None:
    label = row.key.pair if row.catalogued_unbiased else f"{row.key.pair} (biased)"
    first: dict[str, Any] = {
        "linestyle": "-" if row.catalogued_unbiased else "--",
        "markersize": 3.5,
    }
    for number, (rewards, weights) in enumerate(row.groups):
        order = sorted(range(len(rewards)), key=lambda i: rewards[i])
        panel.plot(
            [rewards[i] for i in order],
            [len(rewards) * weights[i] for i in order],
            **look(index),
            **(_FAINT if number else first),
            linewidth=1.0,
            label=None if number else label,
        )


def _ends(rows: Sequence[WeightsRow]) -> tuple[float, float]:
    rewards = [reward for row in rows for group, _ in row.groups for reward in group]
    return min(rewards), max(rewards)
