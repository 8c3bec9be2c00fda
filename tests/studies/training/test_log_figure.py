"""The training log: pooled over seeds, and a panel for each metric that has something to tell."""

import re
from itertools import pairwise

import numpy as np
import pytest

from maxk_lab.report.drawing.style import own_style
from maxk_lab.report.figures import figures, pictures
from maxk_lab.report.summarise import summarise_records
from maxk_lab.statistics.seeds.over_seeds import over_seeds
from maxk_lab.studies.training.figures.board import boards
from maxk_lab.studies.training.figures.lines import OTHERS
from maxk_lab.studies.training.figures.log import log_figure, shown_measures
from maxk_lab.studies.training.section.answer.place import places_of

pytestmark = pytest.mark.slow

MANY = [
    *(
        ("reinforce", name, 8, 1)
        for name in ("none", "centred", "rloo", "opo", "opo_loo", "otb_loo", "eob", "eob_loo")
    ),
    *(
        ("maxk", name, 8, k)
        for name in ("centred", "subloo", "optimal[length]", "optimal[logit_proxy]")
        for k in (2, 4)
    ),
]


def made(lab, change=lambda log, cell: None, **which):
    """Records of training cells whose logs were changed."""
    cells = lab.training_cells(**which)
    records = [lab.training_record(cell) for cell in cells]
    for record in records:
        change(record.metrics["log"], record.cell)
    return cells, records


def rows(lab, change=lambda log, cell: None, **which):
    """The rows of these records."""
    return summarise_records(*made(lab, change, **which), name="logged").studies["training"].rows


def board(found):
    """The board of these rows."""
    (one,) = boards(places_of(found, 0.95))
    return one


def svg(lab, out, change=lambda log, cell: None, **which):
    """The texts of the figure of these records."""
    paths = figures(summarise_records(*made(lab, change, **which), name="logged"), out)
    text = next(path for path in paths if path.name == "training-log.svg").read_text()
    return re.findall(r"<text[^>]*>([^<]*)</text>", text)


def test_each_step_is_the_mean_over_seeds_with_their_interval(lab):
    cells, records = made(lab)
    row = summarise_records(cells, records, name="logged").studies["training"].rows[-1]
    own = [record.metrics["log"] for record in records if record.cell["id"] in row.cells.values()]
    assert len(own) == 3
    found = row.log["reward/mean"]
    for i, step in enumerate(own[0]["step"]):
        wanted = over_seeds([log["reward/mean"][i] for log in own], 0.95)
        # 64 rollouts per step, and those of the step itself come after.
        assert found.rollouts[i] == 64 * step
        assert (found.values[i], found.low[i], found.high[i]) == pytest.approx(
            (wanted.value, wanted.low, wanted.high)
        )


def test_one_seed_has_values_and_no_intervals(lab):
    row = rows(lab, seeds=(4,))[0]
    found = row.log["entropy"]
    assert not np.isnan(found.values).any()
    assert np.isnan([*found.low, *found.high]).all()


def test_a_value_that_one_seed_lacks_is_undefined_there(lab):
    def change(log, cell):
        if cell["seed"] == 1:
            log["reward/mean"][3] = None

    found = rows(lab, change)[0].log["reward/mean"]
    assert np.flatnonzero(np.isnan(found.values)).tolist() == [3]
    assert np.flatnonzero(np.isnan(found.low)).tolist() == [3]


def test_seeds_are_pooled_by_step_not_by_position(lab):
    """Logs may be thinned differently: only what was logged at the same step is averaged."""

    def change(log, cell):
        log["reward/mean"] = [float(step) for step in log["step"]]
        if cell["seed"] == 1:
            for name, values in log.items():
                log[name] = values[::2]

    found = rows(lab, change)[0].log["reward/mean"]
    assert found.rollouts == tuple(64 * step for step in range(0, 100, 10))
    assert found.values == tuple(float(step) for step in range(0, 100, 10))


def test_a_row_without_all_its_seeds_has_no_log(lab):
    cells = lab.training_cells()
    records = [
        lab.training_record(cell, status="failed" if cell["seed"] == 2 else "done")
        for cell in cells
    ]
    assert all(
        row.log == {}
        for row in summarise_records(cells, records, name="young").studies["training"].rows
    )


def test_a_record_without_a_log_has_no_figure_of_it(lab, tmp_path):
    cells, records = made(lab)
    for record in records:
        del record.metrics["log"]
    summary = summarise_records(cells, records, name="old")
    assert summary.studies["training"].rows[0].curve
    assert summary.studies["training"].rows[0].log == {}
    names = {"training", "training-time", "max-at-k", "max-at-k-difference"}
    assert {path.stem for path in figures(summary, tmp_path)} == names


def test_metrics_that_are_undefined_or_never_vary_have_no_panel(lab, tmp_path):
    assert shown_measures(rows(lab)) == ["reward/mean", "entropy", "grad_norm", "frac_truncated"]
    texts = svg(lab, tmp_path)
    assert {"mean reward", "entropy of", "norm of", "cut samples", "rollouts"} <= set(texts)
    assert not {"KL to the", "clipped above", "mean length", "loss"} & set(texts)


def test_one_row_that_varies_is_enough_for_a_panel(lab, tmp_path):
    def change(log, cell):
        if cell["baseline"] == "subloo":
            log["kl/token"][-1] = 0.5
            log["kl/token"][0] = 0.25
            log["length/mean"][2] = 3.0

    assert {"kl/token", "length/mean"} <= set(shown_measures(rows(lab, change)))
    texts = svg(lab, tmp_path, change)
    assert {"KL to the", "mean length"} <= set(texts)
    assert "clipped above" not in texts


def test_what_is_one_number_in_every_training_has_no_panel(lab):
    def change(log, cell):
        log["length/mean"] = [20.0 - (cell["baseline"] == "subloo")] * len(log["step"])

    assert "length/mean" not in shown_measures(rows(lab, change))


def test_what_every_training_has_is_shown_even_where_it_is_constant(lab):
    def change(log, cell):
        log["grad_norm"] = [1.0] * len(log["step"])
        log["entropy"] = [None] * len(log["step"])

    assert shown_measures(rows(lab, change)) == ["reward/mean", "grad_norm", "frac_truncated"]


def test_the_figure_says_what_its_bands_are(lab, tmp_path):
    def caption(**which):
        summary = summarise_records(*made(lab, **which), name="logged")
        return next(each.caption for each in pictures(summary) if each.name == "training-log")

    assert "Bands: 95% intervals over 3 seeds" in caption()
    assert "One seed: no bands." in caption(seeds=(0,))
    assert "Bands" not in caption(seeds=(0,))


def test_bands_are_drawn_where_the_caption_says_so(lab):
    def bands(**which):
        figure = log_figure(board(rows(lab, **which)), "a title")
        return [len(panel.collections) for panel in figure.axes]

    # Shares that are the same in all seeds have no interval.
    assert bands() == [3, 3, 3, 0]
    assert bands(seeds=(0,)) == [0] * 4


def test_a_wide_band_does_not_squeeze_the_lines(lab):
    def change(log, cell):
        log["grad_norm"] = [
            1.0 + 50 * (cell["seed"] == 1) * (i == 0) for i in range(len(log["step"]))
        ]

    found = rows(lab, change, seeds=(0, 1))
    values = [value for row in found for value in row.log["grad_norm"].values]
    ends = [end for row in found for end in row.log["grad_norm"].high]
    panel = next(
        axes for axes in log_figure(board(found), "").axes if axes.get_ylabel().startswith("norm")
    )
    low, high = panel.get_ylim()
    assert low < min(values) < max(values) < high
    assert high - low < 2.2 * (max(values) - min(values)) < max(ends) - min(values)


def test_sixteen_lines_are_told_apart_and_fit(lab):
    def change(log, cell):
        for name in ("kl/token", "clip_ratio/high", "frac_reward_zero_std", "length/mean"):
            log[name] = [float(step) for step in log["step"]]

    found = board(rows(lab, change, points=MANY))
    with own_style():
        figure = log_figure(found, "a title")
    figure.draw_without_rendering()
    # Eight measures of four families: two halves of those for K = 1, and those for 2 and 4.
    assert len(figure.axes) == 8 * 4
    for panel in figure.axes:
        named = [line for line in panel.lines if line.get_label() != OTHERS]
        looks = {(line.get_color(), line.get_marker()) for line in named}
        assert len(looks) == len(named) == 4
        assert len(panel.lines) == 16
    (legend,) = figure.legends
    extent = legend.get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= figure.bbox.width
    # The lowest panel of every column says what its axis is.
    labels = [panel.xaxis.get_tick_params()["labelbottom"] for panel in figure.axes]
    assert labels == [False] * 28 + [True] * 4
    heights = [panel.get_window_extent().height / figure.dpi for panel in figure.axes]
    assert min(heights) > 0.9
    boxes = [panel.title.get_window_extent() for panel in figure.axes[:4]]
    assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))
