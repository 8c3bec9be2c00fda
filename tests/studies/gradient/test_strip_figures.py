"""Figures with a line for each method: a panel per K and place, nothing twice, nothing over it."""

import re
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from maxk_lab.report.document import compact
from maxk_lab.report.drawing.style import own_style
from maxk_lab.report.summarise import summarise_records
from maxk_lab.studies.gradient.figures import figures
from maxk_lab.studies.gradient.figures.bias import bias_figure
from maxk_lab.studies.gradient.figures.captions import bias
from maxk_lab.studies.gradient.figures.captions import over_least as over_least_caption
from maxk_lab.studies.gradient.figures.heat_map import relative_to_best
from maxk_lab.studies.gradient.figures.strips import pages, shown_sizes
from maxk_lab.studies.gradient.figures.variance import OVER_LEAST, over_least, variance_figure
from maxk_lab.studies.gradient.pool import sorted_rows

BASELINES = ("none", "group_mean", "centred", "sample_loo", "pkpo_sloo", "subloo")
NOISE = {"none": 30.0, "group_mean": 1.0, "sample_loo": 3000.0, "pkpo_sloo": 9.0}


@pytest.fixture(scope="module")
def summary(lab):
    """Six baselines at two n, two K and two stages; one of them lost a seed at n = 16, K = 4."""
    cells = lab.cells(baselines=BASELINES, ns=(8, 16), ks=(2, 4), stages=(0, 200))
    lost = {
        cell["id"]
        for cell in cells
        if (cell["baseline"], cell["n"], cell["k"], cell["seed"]) == ("pkpo_sloo", 16, 4, 1)
    }
    records = [
        lab.record(
            cell,
            noise=NOISE.get(cell["baseline"], 2.0 + (cell["baseline"] == "subloo")),
            status="failed" if cell["id"] in lost else "done",
        )
        for cell in cells
    ]
    return summarise_records(cells, records, name="it")


@pytest.fixture(scope="module")
def rows(summary):
    return sorted_rows(summary.studies["gradient"].rows)


@pytest.fixture(scope="module")
def drawn(summary):
    """Every figure by its name, with its layout."""
    with own_style():
        found = {one.name: one for one in figures(summary.studies["gradient"], summary)}
        for one in found.values():
            one.figure.draw_without_rendering()
    return found


def panels(figure):
    return [axes for axes in figure.axes if axes.get_title()]


def marks(panel):
    """Label → (xs, ys) of what stands in a panel, with error bars or without."""
    found = {bars.get_label(): bars.lines[0].get_data() for bars in panel.containers}
    rings = [line for line in panel.lines if line.get_label() == "told apart as the least"]
    return found | {line.get_label(): line.get_data() for line in rings}


def test_stages_and_k_are_panels_of_one_figure_and_n_are_its_marks(drawn, rows):
    assert set(drawn) == {"variance", "bias", "heat-map"}
    for name in ("variance", "bias"):
        assert [panel.get_title() for panel in panels(drawn[name].figure)] == [
            f"K = {k}, {stage}" for k in (2, 4) for stage in ("before training", "after 200 steps")
        ]
    values = over_least(rows)
    for panel, (k, stage) in zip(
        panels(drawn["variance"].figure), [(2, 0), (2, 200), (4, 0), (4, 200)], strict=True
    ):
        for n in (8, 16):
            wanted = [
                values[row.key].value
                for row in rows
                if (row.key.k, row.key.stage, row.key.n) == (k, stage, n) and row.key in values
            ]
            # A least among baselines of which one is unfinished is not known.
            assert bool(wanted) == ((n, k) != (16, 4))
            if not wanted:
                assert f"n = {n}" not in marks(panel)
                continue
            xs, ys = marks(panel)[f"n = {n}"]
            assert sorted(xs) == sorted(wanted)
            assert len(set(ys)) == len(ys), "a line for each method"
            assert min(wanted) < 1, "a biased one may have less"
            assert Counter(wanted)[1.0] == 1, "the least of the unbiased"


def test_what_has_no_value_has_a_dash_that_says_where(drawn):
    for panel in panels(drawn["variance"].figure):
        dashes = [text.get_text() for text in panel.texts]
        assert dashes == (["— n = 16"] * len(BASELINES) if "K = 4" in panel.get_title() else [])
    cells = [text.get_text() for text in drawn["heat-map"].figure.axes[0].texts]
    assert cells.count("—") == 1


def test_a_ring_is_what_is_surely_the_least_and_nothing_else(drawn, rows):
    ringed = sum(
        len(marks(panel).get("told apart as the least", [[]])[0])
        for panel in panels(drawn["variance"].figure)
    )
    assert ringed == sum(row.best for row in rows) > 0
    none = [replace(row, best=False) for row in rows]
    figure = variance_figure(none, over_least(none), "", OVER_LEAST, 0.95)
    assert "told apart as the least" not in [
        text.get_text() for text in figure.legends[0].get_texts()
    ]
    assert "ring" not in over_least_caption(none, none, over_least(none))
    assert "told apart from all others in none" in over_least_caption(none, none, over_least(none))


@pytest.mark.parametrize("name", ["variance", "bias"])
def test_no_two_series_of_a_panel_look_the_same_and_each_has_a_label(drawn, name):
    for panel in panels(drawn[name].figure):
        lines = [bars.lines[0] for bars in panel.containers]
        looks = [(line.get_color(), line.get_marker()) for line in lines]
        assert len(set(looks)) == len(looks) <= 6
        assert all(not str(bars.get_label()).startswith("_") for bars in panel.containers)


@pytest.mark.parametrize("name", ["variance", "bias", "heat-map"])
def test_nothing_written_covers_anything(drawn, name):
    figure = drawn[name].figure
    boxes = [panel.get_window_extent() for panel in panels(figure) or figure.axes]
    words = [axes.title for axes in figure.axes if axes.get_title()]
    words += [label for axes in figure.axes for label in (axes.xaxis.label, axes.yaxis.label)]
    names = [label for label in figure.axes[0].get_yticklabels() if label.get_text()]
    words += [*names, figure._suptitle, *(text for one in figure.legends for text in one.texts)]
    told = [word.get_window_extent() for word in words if word.get_text() and word.get_visible()]
    assert len(names) == 6
    for one, other in combinations(told, 2):
        assert not one.overlaps(other)
    for one in told:
        assert not any(one.shrunk(0.98, 0.98).overlaps(box) for box in boxes)
        assert 0 <= one.x0 < one.x1 <= figure.bbox.width
        assert 0 <= one.y0 < one.y1 <= figure.bbox.height


def test_titles_are_words_and_captions_say_numbers_that_are_in_the_rows(drawn, rows):
    values = over_least(rows)
    known = {compact(value) for value in values.values()}
    known |= {compact(found) for row in rows for found in row.intervals.values()}
    for one in drawn.values():
        assert one.title.endswith(": TSP with 20 cities")
        assert not re.search(r"[=_(]", one.title)
        told = re.findall(r"-?[\d.e+-]+ \[[^]]*\]", one.caption)
        assert told or one is drawn["heat-map"]
        assert set(told) <= known
    unbiased = {row.key: values[row.key] for row in rows if row.key in values}
    for row in rows:
        if not row.catalogued_unbiased:
            unbiased.pop(row.key, None)
    largest = max(unbiased, key=lambda key: unbiased[key].value)
    said = drawn["variance"].caption
    assert compact(unbiased[largest]) in said
    assert f"of sample_loo at K = {largest.k}, n = {largest.n}," in said
    assert f"told apart from all others in {sum(row.best for row in rows)};" in said
    assert "—: no such ratio, of all n or of those beside it" in said
    assert "surely" not in said
    assert "a bias was found for group_mean:" in drawn["bias"].caption


def test_biased_cells_have_no_colour_and_no_part_in_what_is_said_of_the_least(drawn, rows):
    shown = relative_to_best(rows)
    assert {row.key for row in rows if not row.catalogued_unbiased}.isdisjoint(shown)
    assert set(shown) == {
        row.key for row in rows if row.catalogued_unbiased and row.units is not None
    }
    said = drawn["heat-map"].caption
    assert "Biased ones are grey" in said
    told = re.search(r"Here the least measured of its column is (.*) of (\d+); which", said)
    counts = [int(count) for count in re.findall(r"in (\d+)", told.group(1))]
    assert sum(counts) == int(told.group(2)) > 0
    assert "group_mean" not in told.group(1)


def test_a_caption_says_that_no_bias_was_found(rows):
    none = [replace(row, bias=replace(row.bias, verdict="no bias seen")) for row in rows]
    assert "no bias was found" in bias(none, none)


def test_of_many_n_the_least_and_the_largest_are_among_those_shown(rows):
    row = rows[0]
    many = [replace(row, key=replace(row.key, n=n)) for n in range(4, 40, 4)]
    assert shown_sizes(many) == [4, 12, 20, 28, 36]
    figure = bias_figure(many, "", 0.95)
    assert len(marks(figure.axes[0])[row.bias.verdict][0]) == 5
    assert "Of 9 values of n, 5 are shown." in bias(many, many)


def test_places_beyond_two_figures_are_told_and_no_figure_has_more_than_three_columns(rows):
    row = rows[0]
    many = [replace(row, key=replace(row.key, stage=stage)) for stage in range(0, 80, 10)]
    found = pages(many)
    assert [len({row.key.stage for row in page}) for page in found] == [3, 3]
    assert "The first 6 of 8 settings have figures." in bias(found[0], many)
    assert [len(page) for page in pages(many[:4])] == [2, 2]
