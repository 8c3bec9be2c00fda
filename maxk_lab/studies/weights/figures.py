"""The figure of a weights study: the effective reward of each sample against its raw reward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.drawing.style import finish, look, panels
from maxk_lab.report.model import Summary
from maxk_lab.report.naming import setting_words
from maxk_lab.report.rows import Rows, grouped
from maxk_lab.studies.weights.rows import WeightsRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The style of the groups after the first: faint, so that the first stays readable.
_FAINT: dict[str, Any] = {"linestyle": "", "markersize": 2.5, "alpha": 0.22, "markeredgewidth": 0}


def figures(found: Rows[WeightsRow], summary: Summary) -> Iterator[Picture]:
    """A figure for each environment, setting and n, with its name."""
    rows = [row for row in found.rows if row.by_seed]
    places = grouped(rows, lambda row: (row.key.environment, row.key.setting, row.key.n))
    for (environment, setting, n), members in places.items():
        words = setting_words(setting)
        name = ["effective-rewards"]
        if len(places) > 1:
            name += [f"n{n}", *filter(None, [words.replace(", ", "-")])]
        title = f"Effective rewards: {', '.join(filter(None, (environment, words)))}"
        yield Picture("-".join(name), weights_figure(members, title), title)


def weights_figure(rows: Sequence[WeightsRow], title: str) -> Figure:
    """n times the weight of each sample against its reward: a panel per K, a line per method.

    Without a baseline the weights are as large as the rewards times K: they have panels of their
    own, above. The dotted line is the raw reward itself. All rows have one environment, setting and
    n; groups after the first are faint.
    """
    ks = sorted({row.key.k for row in rows})
    plain = [row for row in rows if row.key.baseline == "none"]
    others = [row for row in rows if row.key.baseline != "none"]
    lines = [line for line in (plain, others) if line]
    methods = list(dict.fromkeys(row.key.pair for row in rows))
    figure, axes = panels(
        len(lines), len(ks), (max(5.6, 1.0 + 2.0 * len(ks)), 1.1 + 2.2 * len(lines)), sharey="row"
    )
    for line_of_axes, members in zip(axes, lines, strict=True):
        for panel, k in zip(line_of_axes, ks, strict=True):
            ends = _ends(rows)
            panel.plot(
                ends,
                ends,
                color="#888888",
                linewidth=0.9,
                linestyle=":",
                label="raw reward",
                zorder=1,
            )
            for row in (row for row in members if row.key.k == k):
                _draw(panel, row, methods.index(row.key.pair))
        line_of_axes[0].set_ylabel("effective reward n·w")
    for panel, k in zip(axes[0], ks, strict=True):
        panel.set_title(f"K = {k}")
    for panel in axes[-1]:
        panel.set_xlabel("raw reward")
    more = max(len(row.groups) for row in rows) - 1
    said = f"one group of n = {rows[0].key.n} rewards" + (f", {more} more faint" if more else "")
    finish(figure, axes, f"{title}\n{said}")
    return figure


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
