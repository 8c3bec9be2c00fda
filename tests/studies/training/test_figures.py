"""Figures of trainings: small multiples, what leaves an axis, one look for a method in all."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest

from maxk_lab.report.drawing.ranges import limits, outside, where
from maxk_lab.report.drawing.style import own_style
from maxk_lab.report.figures import figures, pictures
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.training.figures.board import MOST_LINES, boards
from maxk_lab.studies.training.figures.captions import highest
from maxk_lab.studies.training.figures.curves import against_rollouts, off_the_axes
from maxk_lab.studies.training.figures.final import (
    AgainstK,
    against_k,
    difference_curve,
    final_curve,
    gap_curve,
    off_the_axis,
)
from maxk_lab.studies.training.figures.layout import leaving
from maxk_lab.studies.training.figures.lines import OTHERS, as_seen
from maxk_lab.studies.training.figures.log import log_figure
from maxk_lab.studies.training.section.answer.place import places_of

CURVES = (final_curve, difference_curve, gap_curve)


def board_of(summary):
    """The board of the one environment."""
    (found,) = boards(places_of(summary.studies["training"].rows, 0.95))
    return found


def drawn(board, curve):
    """The figure of a curve against K, and the coloured lines of each panel by name."""
    figure = against_k(board, AgainstK(curve, "it"), "a title")
    return figure, [coloured(panel) for panel in figure.axes if panel.lines]


def coloured(panel):
    """The lines of a panel by name, but the grey ones and those without a name."""
    named = {str(line.get_label()): line for line in panel.lines}
    return {name: line for name, line in named.items() if name != OTHERS and name[:1] != "_"}


def legend(figure):
    """Its labels."""
    (found,) = figure.legends
    return [text.get_text() for text in found.get_texts()]


def few(tsp, *points, **how):
    """The board of these rows alone."""
    return board_of(tsp.report(tsp.cells(points=points, **how)))


def test_pictures_have_plain_titles_and_captions(study):
    found = {picture.name: picture for picture in pictures(study)}
    assert list(found) == [
        "max-at-k-difference",
        "max-at-k",
        "gap",
        "training",
        "training-time",
        "training-log",
    ]
    for picture in found.values():
        assert picture.title.endswith(": TSP with 20 cities")
        assert "num_loc" not in picture.title + picture.caption
        assert picture.figure.get_suptitle().replace("\n", " ") == picture.title
    difference = found["max-at-k-difference"]
    assert difference.title.startswith("Best of K samples after training, minus that after POMO's")
    assert "95% intervals over 5 seeds" in difference.caption
    (place,) = places_of(study.studies["training"].rows, 0.95)
    counts = [len(place.told_to_be(sign, k)) for k in (64, 1) for sign in (1, -1)]
    assert difference.caption.endswith(
        "Here: of 11 methods {} are told to be better and {} to be worse at Max@64; in the mean {} "
        "and {}.".format(*counts)
    )
    assert "Optimum by a mixed-integer program (exact)." in found["gap"].caption
    assert "Rewards are minus costs, so higher is better." in found["max-at-k"].caption


def test_one_seed_has_a_caption_that_says_so(tsp):
    (first, *_) = pictures(tsp.report(tsp.cells(points=tsp.points[:3], seeds=(0,))))
    assert "paired by instance" in first.caption
    assert "over held-out instances of one seed" in first.caption


def test_a_panel_has_few_lines_and_the_others_grey_behind(study):
    board = board_of(study)
    assert [panel.title for panel in board.panels] == [
        "trained for K = 1",
        "trained for K = 4",
        "trained for K = 8",
    ]
    _, panels = drawn(board, final_curve)
    assert sum(map(len, panels)) == len(board.rows) == 12
    for panel, own in zip(board.panels, panels, strict=True):
        assert len(own) == len(panel.rows) <= MOST_LINES
        assert len(panel.behind) == 12 - len(own)


@pytest.mark.parametrize("curve", CURVES)
def test_a_row_that_diverged_is_named_and_flattens_nothing(study, curve):
    board = board_of(study)
    figure, panels = drawn(board, curve)
    gone = off_the_axis(board, AgainstK(curve, "it"))
    assert {key.baseline for key in gone} >= {"sample_loo"}
    low, high = figure.axes[0].get_ylim()
    for panel, axes in zip(board.panels, figure.axes, strict=False):
        own = [row for row in panel.rows if row.key in gone and curve(row)]
        for row in own:
            assert board.looks.label(row) in axes.get_title().replace("\n", " ")
            values = [value.value for value in curve(row).values()]
            assert gone[row.key] == pytest.approx((min(values), max(values)))
        # The band of a line that cannot be seen is not drawn: nobody could tell whose it is.
        lines = [[value.value for value in curve(row).values()] for row in panel.rows]
        seen = [values for values in lines if any(low <= value <= high for value in values)]
        assert len(axes.collections) == len(seen)
    inside = [
        value.value for row in board.rows if row.key not in gone for value in curve(row).values()
    ]
    assert low < min(inside)
    assert max(inside) < high
    assert np.ptp(inside) > 0.3 * (high - low)
    assert len(panels) == 3


def test_a_line_that_leaves_the_axes_keeps_its_band_while_it_is_seen():
    values = [Interval(value, value - 1, value + 1, 0.95) for value in (0.5, 3.0)]
    assert as_seen(values, (0.0, 1.0)) == as_seen(values, None) == values
    assert all(math.isnan(value.low) for value in as_seen(values, (5.0, 6.0)))


def test_a_method_without_a_line_is_not_in_the_legend(study, tsp):
    board = board_of(study)
    for figure in (drawn(board, final_curve)[0], against_rollouts(board, [64], "a title")):
        listed = legend(figure)
        assert "maxk centred" in listed
        assert "maxk sample_loo" not in listed
    points = [p for p in tsp.points if p[0] == "maxk" and p[1] in ("sample_loo", "centred")]
    assert "maxk sample_loo" in legend(drawn(few(tsp, *points), final_curve)[0])


def test_captions_name_those_that_are_not_told_apart_from_the_first(study, tsp):
    said = {picture.name: picture.caption for picture in pictures(study)}
    assert "; not told apart from it: maxk subloo for K = " in said["max-at-k"]
    assert "; by their rewards not told apart from it: maxk subloo for K = " in said["gap"]
    only = tsp.report(tsp.cells(points=[("maxk", "centred", 16, 8, "iid")]))
    (place,) = places_of(only.studies["training"].rows, 0.95)
    assert highest([place]).endswith("]."), "there is nothing that it could be told apart from"


def test_differences_cross_zero_where_the_curves_cross(study, tsp):
    figure, panels = drawn(board_of(study), difference_curve)
    row, line = tsp.row_of(study, "maxk", "subloo", 8), panels[2]["maxk subloo"]
    assert line.get_xdata().tolist() == list(tsp.ks)
    assert line.get_ydata().tolist() == [row.differences[k].value for k in tsp.ks]
    assert line.get_ydata()[0] < 0 < line.get_ydata()[-1]
    # The reference is the zero line, and none of the others.
    assert "POMO's loss" not in legend(figure)


def test_a_method_looks_the_same_in_all_figures(study):
    board = board_of(study)
    found = [drawn(board, curve)[1] for curve in CURVES]
    found.append([coloured(panel) for panel in against_rollouts(board, [1, 8, 64], "it").axes])
    found.append([coloured(panel) for panel in log_figure(board, "it").axes])
    looks = {}
    for panels in found:
        for panel in panels:
            of_panel = {name: (line.get_color(), line.get_marker()) for name, line in panel.items()}
            assert len(set(of_panel.values())) == len(of_panel)
            for name, look in of_panel.items():
                assert looks.setdefault(name, look) == look
    assert len(set(looks.values())) == len(looks) == 8
    assert looks["POMO's loss"][0] == "#000000"


def test_learning_curves_show_the_second_half_and_say_so(study):
    board = board_of(study)
    figure = against_rollouts(board, [1, 8, 64], "a title")
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["mean (Max@1)", "Max@8", "Max@64", *[""] * 6]
    low, high = figure.axes[2].get_ylim()
    assert -4.3 < low < -3.95 < -3.88 < high < -3.7
    gone = {row.key.baseline for row in off_the_axes(board, [1, 8, 64])}
    assert "sample_loo" in gone
    (caption,) = [each.caption for each in pictures(study) if each.name == "training"]
    assert "leave out maxk sample_loo for K = 4" in caption


def test_where_none_diverged_axes_have_everything(tsp):
    points = [point for point in tsp.points if point[1] not in ("sample_loo", "pkpo_sloo")]
    board = few(tsp, *points, seeds=(0, 1))
    figure, panels = drawn(board, final_curve)
    low, high = figure.axes[0].get_ylim()
    values = [value.value for row in board.rows for value in row.curve]
    assert low < min(values)
    assert max(values) < high
    assert not [panel for panel in figure.axes if "beyond" in panel.get_title()]
    assert len(panels) == 3


@pytest.mark.parametrize(
    ("lines", "out"),
    [
        ([[1, 2], [1.1, 2.1], [9, 9.5]], [False, False, True]),
        ([[1, 2], [9, 10]], [False, False]),  # which of two has diverged?
        ([[0, 0.1]] * 5 + [[0, 1]] * 4, [False] * 9),  # two groups, none of which is few
        ([[0, 0.1]] * 8 + [[0, 5]], [False] * 8 + [True]),
        ([[0, 1], [0, 1.1], [0, float("nan")]], [False] * 3),
        ([], []),
    ],
)
def test_a_line_is_outside_where_it_is_far_from_most(lines, out):
    assert outside(lines) == out


@pytest.mark.parametrize(
    ("lines", "out"),
    [
        # One that diverged hides another that flattens the rest.
        ([[0, 0.1]] * 8 + [[-0.4, 0], [-9, -8]], [False] * 8 + [True, True]),
        # Of three, the one that is not beside the two others is no reason to leave it out.
        ([[0, 0.1], [0, 0.11], [-0.3, -0.2]], [False] * 3),
        ([[0, 0.1], [0, 0.11], [-4, -3]], [False, False, True]),
        ([[0, 0.1], []], [False, False]),
    ],
)
def test_lines_leave_an_axis_that_they_would_flatten(lines, out):
    assert leaving(lines) == out


def test_bands_are_drawn_of_every_line_that_stays(study):
    figure, panels = drawn(board_of(study), difference_curve)
    assert [len(panel.collections) for panel in figure.axes] == [2, 3, 4]
    for panel in figure.axes:
        for band in panel.collections:
            assert np.isfinite(band.get_paths()[0].vertices).all()
    assert len(panels) == 3


@pytest.mark.slow
def test_a_gradient_norm_over_decades_has_a_logarithmic_axis(study, tsp):
    def change(found, cell):
        if cell["baseline"] == "sample_loo":
            found["log"]["grad_norm"] = [1000 * value for value in found["log"]["grad_norm"]]

    for summary, scale in ((study, "linear"), (tsp.report(tsp.cells(seeds=(0, 1)), change), "log")):
        panels = log_figure(board_of(summary), "").axes
        (panel,) = [panel for panel in panels if "the gradient" in panel.get_ylabel()]
        assert (panel.get_yscale(), "log" in panel.get_ylabel()) == (scale, scale == "log")


def test_bands_take_half_as_much_again_at_most():
    low, high = limits([[0.0, 1.0]], [[-9.0, 0.1], [0.9, 1.2]])
    assert low == pytest.approx(-0.55)
    assert high == pytest.approx(1.25)
    assert where([2.0, 3.0], (low, high)) == "above the axis, 2.00 to 3.00"
    assert where([-3.0, 0.5], (low, high)) == "beyond the axis, -3.00 to 0.500"


def several(tsp, *names, points):
    """The summary of these environments."""
    cells = []
    for name in names:
        made = tsp.cells(points=points, environment={"name": name, "num_loc": 20}, setting=False)
        cells += [cell | {"setting": {"environment.name": name}} for cell in made]
    return tsp.report(cells)


@pytest.mark.slow
def test_several_environments_are_panels_of_one_figure(tsp, tmp_path, unsaved):
    summary = several(tsp, "cvrp", "op", points=tsp.points[:3:2])
    names = [path.stem for path in figures(summary, tmp_path)]
    assert names[:4] == ["max-at-k-difference", "max-at-k", "gap", "training"]
    assert len(names) == len(set(names)) == 6
    board = board_of(summary)
    figure, panels = drawn(board, final_curve)
    assert [panel.get_title().replace("\n", " ") for panel in figure.axes] == [
        "capacitated vehicle routing with 20 customers",
        "orienteering with 20 places",
    ]
    assert [list(panel) for panel in panels] == [["POMO's loss", "reinforce centred"]] * 2


def test_environments_with_many_rows_have_figures_of_their_own(tsp):
    summary = several(tsp, "cvrp", "op", points=tsp.points)
    found = list(boards(places_of(summary.studies["training"].rows, 0.95)))
    assert [board.suffix for board in found] == ["-1", "-2"]
    assert [board.where for board in found] == [
        "capacitated vehicle routing with 20 customers",
        "orienteering with 20 places",
    ]


def test_texts_above_panels_do_not_run_into_each_other(study):
    with own_style():
        figure, _ = drawn(board_of(study), difference_curve)
        figure.draw_without_rendering()
    boxes = [panel.title.get_window_extent() for panel in figure.axes]
    for left, right in pairwise(boxes):
        assert left.x1 <= right.x0 + 1
    (found,) = figure.legends
    assert not any(found.get_window_extent().overlaps(panel.bbox) for panel in figure.axes)
    assert re.search(r"beyond the axis:\smaxk", figure.axes[1].get_title())
