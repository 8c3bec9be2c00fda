"""Declared figures: points at their values, a line per combination, biased ones marked."""

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from maxk_lab.report.document import compact
from maxk_lab.report.drawing.axes import is_geometric
from maxk_lab.report.summarise import summarise_records
from maxk_lab.statistics.errors import LIKE_THESE, THESE
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.gradient.figures.captions import declared
from maxk_lab.studies.gradient.figures.lines import declared_figure
from maxk_lab.sweeps.spec.figures import Figure


@pytest.fixture(scope="module")
def rows(lab):
    """Rows of two settings."""
    cells = lab.vary(
        lab.cells(baselines=("none", "centred", "group_mean"), ns=(8, 16, 32), ks=(2, 4)),
        "environment.arms",
        (4, 9),
    )
    return (
        summarise_records(cells, [lab.record(cell) for cell in cells], name="it")
        .studies["gradient"]
        .rows
    )


def draw(rows, **declared):
    """The axes of a figure, those that are shown, and its legend's texts."""
    figure = declared_figure(rows, Figure(name="it", **declared), "a title", 0.95)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    return [axes for axes in figure.axes if axes.axison], [
        text.get_text() for text in legend.get_texts()
    ]


def lines_of(axes):
    """Label → (x, y) of every line with error bars."""
    return {bars.get_label(): bars.lines[0].get_data() for bars in axes.containers}


@pytest.mark.slow
def test_a_panel_per_value_and_a_line_per_combination(rows):
    axes, labels = draw(
        rows,
        metric="variance",
        against="n",
        lines=("baseline", "environment.arms"),
        panels="k",
        scale="log",
    )
    assert [panel.get_title() for panel in axes] == ["K = 2", "K = 4"]
    assert set(labels) == {
        f"{baseline}, arms = {arms}{' (biased)' if baseline == 'group_mean' else ''}"
        for baseline in ("none", "centred", "group_mean")
        for arms in (4, 9)
    }
    for panel, k in zip(axes, (2, 4), strict=True):
        assert (panel.get_yscale(), panel.get_xscale()) == ("log", "log")
        drawn = lines_of(panel)
        for (baseline, arms), label in (
            ((b, a), n)
            for b in ("none", "centred")
            for a in (4, 9)
            for n in drawn
            if n == f"{b}, arms = {a}"
        ):
            wanted = {
                row.key.n: row.intervals["variance"].value
                for row in rows
                if (row.key.baseline, row.key.k, row.key.setting[0][1]) == (baseline, k, arms)
            }
            xs, ys = drawn[label]
            assert np.allclose(xs, sorted(wanted), rtol=0.05)
            assert list(ys) == [wanted[n] for n in sorted(wanted)]


def test_against_a_setting(rows):
    axes, _ = draw(
        [row for row in rows if row.key.n == 8],
        metric="snr",
        against="environment.arms",
        lines=("baseline",),
        panels="k",
    )
    xs, _ = lines_of(axes[0])["centred"]
    assert np.allclose(xs, [4, 9], atol=0.5)
    assert axes[0].get_xlabel() == "arms"


def test_biased_lines_are_dashed_and_say_so(rows):
    axes, _ = draw(
        [row for row in rows if row.key.k == 2 and row.key.setting[0][1] == 4],
        metric="snr",
        against="n",
    )
    styles = {bars.get_label(): bars.lines[0].get_linestyle() for bars in axes[0].containers}
    assert styles == {"none": "-", "centred": "-", "group_mean (biased)": "--"}


def test_of_many_lines_a_few_are_coloured_in_each_panel_and_the_others_are_behind(rows):
    found = [row for row in rows if row.key.setting[0][1] == 4]
    axes, labels = draw(found, metric="variance", against="n", lines=("baseline", "k", "stage"))
    assert len(axes) == 1, "six lines are few enough"
    axes, labels = draw(
        rows, metric="variance", against="n", lines=("baseline", "environment.arms", "k")
    )
    assert [panel.get_title() for panel in axes] == ["arms = 4", "arms = 9"]
    assert set(labels) == {
        f"{baseline}, K = {k}{' (biased)' if baseline == 'group_mean' else ''}"
        for baseline in ("none", "centred", "group_mean")
        for k in (2, 4)
    } | {"those of the other panels"}
    for panel in axes:
        looks = [
            (line.get_color(), line.get_marker(), str(line.get_markerfacecolor()))
            for line in (bars.lines[0] for bars in panel.containers)
        ]
        assert len(looks) == len(set(looks)) == 6
        behind = [line for line in panel.lines if line.get_label() == "those of the other panels"]
        assert len(behind) == 6
        assert not {line.get_color() for line in behind} & {colour for colour, *_ in looks}


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ((LIKE_THESE, LIKE_THESE), "intervals about instances like these"),
        ((THESE, THESE), "intervals about these instances"),
        (
            (LIKE_THESE, THESE),
            "intervals about instances like these, or where too few of these carry the mean about "
            "these alone",
        ),
    ],
)
def test_the_caption_says_what_its_bars_are_about(rows, questions, words):
    two = [
        replace(
            row,
            intervals={
                **row.intervals,
                "variance": replace(row.intervals["variance"], question=question),
            },
        )
        for row, question in zip(rows, questions)
    ]
    said = declared(two, Figure(name="it", metric="variance", against="n"))
    (sentence,) = re.findall(r"Bars are 95% (intervals [^.]*)\.", said)
    assert sentence == words


def test_the_caption_says_the_ends_at_the_last_place(rows):
    found = [row for row in rows if row.key.k == 2 and row.key.setting[0][1] == 4]
    said = declared(found, Figure(name="it", metric="variance", against="n"))
    # Without the biased, whose lesser variance is that of another gradient.
    ends = sorted(
        (row.intervals["variance"] for row in found if row.key.n == 32 and row.catalogued_unbiased),
        key=lambda one: one.value,
    )
    low, high = map(re.escape, map(compact, (ends[0], ends[-1])))
    assert re.search(rf"that of the unbiased ones is from {low} \(\w+\) to {high} ", said)


def test_nothing_written_covers_anything(lab):
    cells = [
        cell | {"behaviour": {"distance": distance}, "id": f"{distance}-{cell['id']}"}
        for distance in (0.5, 1.0)
        for cell in lab.cells(baselines=("none", "centred"), ns=(8, 16), ks=(2, 4), seeds=(0,))
    ]
    rows = (
        summarise_records(cells, [lab.record(c, make=lab.measured) for c in cells], name="off")
        .studies["gradient"]
        .rows
    )
    declared = {"against": "behaviour.distance", "lines": ("baseline", "n"), "panels": "k"}
    axes, _ = draw(rows, metric="variance", **declared)
    figure = axes[0].figure
    words = [figure._suptitle, *figure.legends[0].texts]
    words += [
        word for panel in axes for word in (panel.title, panel.xaxis.label, panel.yaxis.label)
    ]
    boxes = [word.get_window_extent() for word in words if word.get_text()]
    assert len(boxes) >= 10
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    for one in boxes:
        assert not any(one.overlaps(panel.get_window_extent()) for panel in axes)
        assert 0 <= one.x0 < one.x1 <= figure.bbox.width


def test_bars_are_the_intervals(rows):
    row = next(row for row in rows if row.key.baseline == "none")
    axes, _ = draw([row], metric="variance", against="n")
    (segment,) = axes[0].containers[0].lines[2][0].get_segments()
    found = row.intervals["variance"]
    assert segment[:, 1] == pytest.approx([found.low, found.high])


def test_an_endless_interval_does_not_squeeze_the_rest(rows):
    row = next(row for row in rows if row.key.baseline == "none")
    endless = replace(
        row,
        intervals={**row.intervals, "relative_variance": Interval(4.0, 2.0, float("inf"), 0.95)},
    )
    for scale in ("linear", "log"):
        axes, _ = draw([endless], metric="relative_variance", against="n", scale=scale)
        assert axes[0].get_ylim()[1] < 20


def test_a_bias_that_is_proven_to_be_none_stands_at_the_lower_edge(lab):
    """Its value is rounding, twenty powers of ten below the others."""
    cells = lab.cells(baselines=("centred", "group_mean"), ns=(8, 16), ks=(2,))
    how = {"centred": {"off": 1e-14}, "group_mean": {"off": 0.5}}
    records = [lab.record(cell, make=lab.exact, **how[cell["baseline"]]) for cell in cells]
    rows = summarise_records(cells, records, name="it").studies["gradient"].rows
    axes, _ = draw(rows, metric="squared_bias", against="n", scale="log")
    _, ys = lines_of(axes[0])["centred"]
    assert ys == pytest.approx(0.025, rel=0.1)


def test_the_ratios_of_two_policies_are_the_same_for_every_estimator(lab):
    cells = [
        cell | {"behaviour": {"distance": distance}, "id": f"{distance}-{cell['id']}"}
        for distance in (0.5, 1.0)
        for cell in lab.cells(baselines=("none", "centred"), ns=(8, 16), ks=(2,))
    ]
    rows = (
        summarise_records(cells, [lab.record(c, make=lab.measured) for c in cells], name="off")
        .studies["gradient"]
        .rows
    )
    _, labels = draw(
        rows, metric="kl", against="behaviour.distance", lines=("estimator", "baseline", "n")
    )
    assert labels == ["n = 8", "n = 16"]


def test_what_no_row_measured_has_no_figure(rows):
    assert (
        declared_figure(rows, Figure(name="it", metric="kl", against="n"), "a title", 0.95) is None
    )


@pytest.mark.parametrize(
    ("values", "geometric"),
    [
        ((4, 8, 16, 32), True),
        ((4, 8, 12, 16), False),
        ((0.0, 0.25, 1.0), False),
        ((4, 256), True),
        ((8, 16), False),
    ],
)
def test_axes_are_as_the_values_were_chosen(values, geometric):
    assert is_geometric(values) == geometric
