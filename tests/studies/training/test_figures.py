"""Figures with a row that diverged: the others are told apart, it is named with its range."""

import re

import numpy as np
import pytest

from maxk_lab.report.drawing.ranges import limits, outside, where
from maxk_lab.report.figures import figures
from maxk_lab.studies.training.figures.curves import curves_figure, row_looks
from maxk_lab.studies.training.figures.final import difference_figure, final_figure, gap_figure
from maxk_lab.studies.training.figures.log import log_figure


@pytest.fixture(scope="module")
def drawn(study, tmp_path_factory):
    """The texts of every figure of the study, by its name."""
    out = tmp_path_factory.mktemp("figures")
    paths = [path for path in figures(study, out) if path.suffix == ".svg"]
    return {path.stem: re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text()) for path in paths}


def legend(figure):
    """Its labels."""
    (found,) = figure.legends
    return [text.get_text() for text in found.get_texts()]


@pytest.mark.slow
def test_there_are_the_curves_their_differences_and_their_gaps(drawn):
    assert list(drawn) == ["max-at-k", "max-at-k-difference", "gap", "training", "training-log"]
    title = " ".join(drawn["max-at-k-difference"])
    assert "minus POMO (reinforce group_mean), K = 1 (biased), paired by seed" in title
    assert "optimum by a mixed-integer program (exact)" in " ".join(drawn["gap"])
    assert "(minus cost: higher is better)" in " ".join(drawn["max-at-k"])
    assert "POMO (reinforce group_mean), K = 1, start=multistart" in drawn["max-at-k"]


@pytest.mark.parametrize("draw", [final_figure, difference_figure, gap_figure])
def test_a_row_that_diverged_is_named_and_flattens_nothing(study, draw):
    figure = draw(study.studies["training"].rows, "a title", 0.95)
    low, high = figure.axes[0].get_ylim()
    near = [line for line in figure.axes[0].lines if "axis" not in str(line.get_label())]
    values = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in near])
    assert low < values.min()
    assert values.max() < high
    assert np.ptp(values) > 0.3 * (high - low)
    said = [label for label in legend(figure) if " the axis, " in label]
    assert [label.split(",")[0] for label in said] == ["maxk sample_loo"] * 2
    assert all(
        re.search(r"(below|above) the axis, -?[0-9.]+ to -?[0-9.]+$", label) for label in said
    )


def test_differences_cross_zero_where_the_curves_cross(study, tsp):
    figure = difference_figure(study.studies["training"].rows, "a title", 0.95)
    line = next(line for line in figure.axes[0].lines if line.get_label() == "maxk subloo, K = 8")
    row = tsp.row_of(study, "maxk", "subloo", 8)
    assert line.get_xdata().tolist() == list(tsp.ks)
    assert line.get_ydata().tolist() == [row.differences[k].value for k in tsp.ks]
    assert line.get_ydata()[0] < 0 < line.get_ydata()[-1]
    # The reference is the zero line, and none of the others.
    assert len(legend(figure)) == len(study.studies["training"].rows) - 1


def test_rows_look_the_same_in_all_figures(study):
    looks = dict(
        zip(
            (row.key for row in study.studies["training"].rows),
            row_looks(study.studies["training"].rows),
            strict=True,
        )
    )
    assert len({(look["color"], look["marker"]) for look in looks.values()}) == len(looks)
    figures_of = [final_figure, difference_figure, gap_figure]
    found = [draw(study.studies["training"].rows, "", 0.95).axes[0].lines for draw in figures_of]
    colours = [
        {str(line.get_label()).partition(", b")[0]: line.get_color() for line in lines}
        for lines in found
    ]
    shared = set(colours[0]) & set(colours[1])
    assert len(shared) > 5
    assert all(colours[0][label] == colours[1][label] for label in shared)


@pytest.mark.slow
def test_learning_curves_show_the_second_half_and_say_so(study):
    figure = curves_figure(study.studies["training"].rows, "a title", 0.95)
    assert [panel.get_title() for panel in figure.axes[:4]] == [
        "mean reward (Max@1)",
        "Max@4",
        "Max@8",
        "Max@64",
    ]
    low, high = figure.axes[3].get_ylim()
    assert -4.3 < low < -3.95 < -3.88 < high < -3.7
    assert "axes: what most rows reach in the second half" in figure.get_suptitle().replace(
        "\n", " "
    )
    assert sum("outside: -" in label for label in legend(figure)) == 2


@pytest.mark.slow
def test_where_none_diverged_axes_have_everything(tsp):
    points = [point for point in tsp.points if point[1] != "sample_loo"]
    rows = tsp.report(tsp.cells(points=points)).studies["training"].rows
    figure = final_figure(rows, "a title", 0.95)
    low, high = figure.axes[0].get_ylim()
    values = [value.value for row in rows for value in row.curve]
    assert low < min(values)
    assert max(values) < high
    assert not [label for label in legend(figure) if "the axis" in label]


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


def test_bands_are_drawn_where_the_rows_are_few(study):
    few, many = (
        final_figure(rows, "", 0.95)
        for rows in (study.studies["training"].rows[:3], study.studies["training"].rows)
    )
    assert "bands: 95% intervals over 5 seeds" in few.get_suptitle()
    assert "too many lines for bands" in many.get_suptitle().replace("\n", " ")
    assert all(np.isfinite(band.get_paths()[0].vertices).all() for band in few.axes[0].collections)
    assert not any(
        path.vertices.size for band in many.axes[0].collections for path in band.get_paths()
    )


@pytest.mark.slow
def test_a_gradient_norm_over_decades_has_a_logarithmic_axis(study, tsp):
    def change(found, cell):
        if cell["baseline"] == "sample_loo":
            found["log"]["grad_norm"] = [1000 * value for value in found["log"]["grad_norm"]]

    for summary, scale in ((study, "linear"), (tsp.report(tsp.cells(seeds=(0, 1)), change), "log")):
        panels = log_figure(summary.studies["training"].rows, "", 0.95).axes
        (panel,) = [panel for panel in panels if panel.get_title().startswith("grad_norm")]
        assert (panel.get_yscale(), "log scale" in panel.get_title()) == (scale, scale == "log")


def test_bands_take_half_as_much_again_at_most():
    low, high = limits([[0.0, 1.0]], [[-9.0, 0.1], [0.9, 1.2]])
    assert low == pytest.approx(-0.55)
    assert high == pytest.approx(1.25)
    assert where([2.0, 3.0], (low, high)) == "above the axis, 2.00 to 3.00"
    assert where([-3.0, 0.5], (low, high)) == "beyond the axis, -3.00 to 0.500"


@pytest.mark.slow
def test_several_environments_have_figures_of_their_own(tsp, tmp_path, unsaved):
    cells = []
    for name in ("cvrp", "op"):
        made = tsp.cells(
            points=tsp.points[:3:2], environment={"name": name, "num_loc": 20}, setting=False
        )
        cells += [cell | {"setting": {"environment.name": name}} for cell in made]
    names = {path.stem for path in figures(tsp.report(cells), tmp_path)}
    assert {
        "max-at-k-cvrp",
        "max-at-k-op",
        "max-at-k-difference-op",
        "gap-cvrp",
        "training-log-op",
    } <= names
    assert "training-2" not in names


def test_a_reference_of_another_start_stands_beside_its_rows(tsp):
    points = [("reinforce", "group_mean", 16, 1, start) for start in ("iid", "multistart")]
    points += [("maxk", "centred", 16, 8, "iid"), ("maxk", "subloo", 16, 8, "multistart")]
    rows = tsp.report(tsp.cells(points=points, seeds=(0, 1))).studies["training"].rows
    figure = difference_figure(rows, "a title", 0.95)
    assert (
        "minus POMO (reinforce group_mean), K = 1 (biased), paired"
        in figure.get_suptitle().replace("\n", " ")
    )
    assert legend(figure) == [
        "POMO (reinforce group_mean), K = 1, start=multistart",
        "maxk centred, K = 8",
        "maxk subloo, K = 8, start=multistart, minus POMO (reinforce group_mean), K = 1, "
        "start=multistart",
    ]
