"""The charts of gradient studies: labels, captions, axes and order of methods."""

from __future__ import annotations

from typing import Any

import pytest
from compiled_charts import marks, rows

from maxk_lab.reports.charts import Figure
from maxk_lab.reports.report import Report, make_report
from maxk_lab.studies.gradient import charts


def drawn(report: Report) -> dict[str, Figure]:
    """Return every chart by its name."""
    figures = charts.charts(report.studies["gradient"], report.origin)
    return {figure.name: figure for figure in figures}


@pytest.fixture(scope="module")
def report(lab: Any) -> Report:
    """Two stages and K; group_mean is biased in length."""
    cells = lab.cells(ns=(8, 16), ks=(2, 4), stages=(0, 200))
    return make_report(cells, map(lab.record, cells), name="it")


@pytest.fixture(scope="module")
def figures(report: Report) -> dict[str, Figure]:
    """The charts of the report by their names; no test changes them."""
    return drawn(report)


def test_a_mark_is_drawn_for_every_row_with_a_value(lab: Any) -> None:
    """The lowest of baselines with an unfinished one is not known."""
    cells = lab.cells(baselines=("none", "group_mean", "centred"), ns=(8, 16), ks=(2,))
    unfinished = ("none", 16)
    records = [
        lab.record(cell, "failed" if (cell["baseline"], cell["n"]) == unfinished else "done")
        for cell in cells
    ]
    figures = drawn(make_report(cells, records, name="it"))
    for name, measured in (("variance", 3), ("snr", 5)):
        data = rows(figures[name])
        assert len(data) == measured
        for row in data:
            assert row["style"] == ("hollow" if "group_mean" in row["name"] else "solid")
        arrows = sum(row["open"] != 0 for row in data)
        assert marks(figures[name])["symbol"] == measured + arrows


STATES = {"none": "", "group_mean": " (biased)", "mine:median": " (not proved)"}


def test_a_label_has_the_state_of_its_bias(lab: Any) -> None:
    """An own baseline is not called biased: the catalogue derives nothing about it."""
    cells = lab.cells(baselines=("none", "centred", "group_mean"), ns=(8,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for cell in cells:
        if cell["baseline"] == "centred":
            cell["baseline"] = "mine:median"
    for figure in drawn(make_report(cells, records, name="it")).values():
        labels = {row["label"].replace("\n", " "): row["style"] for row in rows(figure)}
        assert {*labels} == {baseline + state for baseline, state in STATES.items()}
        assert labels["mine:median (not proved)"] == "pale"
        assert labels["group_mean (biased)"] == "hollow"
        assert "Filled: unbiased (proved); pale: not proved; hollow: biased." in figure.caption


def test_captions_say_what_is_plotted(report: Report, figures: dict[str, Figure]) -> None:
    assert figures["snr"].caption.startswith("‖E ĝ‖² / tr Cov ĝ of one estimate")
    plotted = {row["value"] for row in rows(figures["snr"])}
    assert plotted == {row.intervals["snr"].value for row in report.studies["gradient"].rows}
    assert "divided by the lowest" in figures["variance"].caption
    ratios = {row.ratios["over_lowest"].value for row in report.studies["gradient"].rows
              if "over_lowest" in row.ratios}  # fmt: skip
    assert {row["value"] for row in rows(figures["variance"])} == ratios | {1.0}


def test_all_panels_of_all_charts_have_one_order_of_methods(figures: dict[str, Figure]) -> None:
    orders = {
        tuple(dict.fromkeys(row["label"] for row in panel.spec["data"]["values"]))
        for figure in (figures[name] for name in ("variance", "snr"))
        for panel in figure.panels
    }
    assert len(orders) == 1
    (order,) = orders
    assert order[-1] == "group_mean (biased)"


def domains(figure: Figure) -> dict[str, set[tuple[float, float]]]:
    """Return the ends of the x axes of all panels by the title of the axis."""
    ends: dict[str, set[tuple[float, float]]] = {}
    for panel in figure.panels:
        for x in (layer["encoding"].get("x", {}) for layer in panel.spec["layer"]):
            if "scale" in x:
                ends.setdefault(x["title"], set()).add(tuple(x["scale"]["domain"]))
    return ends


def test_all_panels_have_one_scale(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        assert len(figure.panels) == 4
        assert [len(ends) for ends in domains(figure).values()] == [1]


def test_stars_are_beside_the_axis_and_not_at_a_value(figures: dict[str, Figure]) -> None:
    figure = figures["variance"]
    assert any(row["best"] for row in rows(figure))
    for panel in figure.panels:
        (star,) = (layer for layer in panel.spec["layer"] if layer["mark"]["type"] == "text")
        assert star["mark"]["text"] == "★"
        assert star["encoding"]["x"] == {"value": "width"}
        assert star["mark"]["dx"] > 0
    assert "Star: significantly lower than all others" in figure.caption


def test_the_chart_of_bias_has_only_methods_biased_in_direction(lab: Any) -> None:
    """Each column has one measure, with one scale for all stages."""
    cells = lab.cells(
        baselines=("none", "centred"), ns=(8, 16), ks=(2,), stages=(0, 200), instances=32
    )
    assert "bias" not in drawn(make_report(cells, map(lab.record, cells), name="it"))
    off = {("none", 0): 0.5, ("none", 200): 2.0}
    records = [
        lab.record(cell, bias_off_gradient=off.get((cell["baseline"], cell["stage"]), 0.0))
        for cell in cells
    ]
    figure = drawn(make_report(cells, records, name="it"))["bias"]
    words = ("before training", "after 200 steps")
    titles = [f"{measure}, {stage}" for stage in words for measure in ("length", "cosine")]
    assert [panel.title for panel in figure.panels] == titles
    assert figure.columns == 2
    assert {name: len(ends) for name, ends in domains(figure).items()} == {"length": 1, "cosine": 1}
    assert {row["label"].replace("\u00a0", " ") for row in rows(figure)} == {"none, K = 2"}
    assert {row["style"] for row in rows(figure)} == {"solid"}


def test_a_caption_names_the_number_of_settings_and_few_n_are_drawn(lab: Any) -> None:
    cells = lab.vary(
        lab.cells(baselines=("none", "centred"), ns=(4, 6, 8, 12, 16, 24, 32), ks=(2,), seeds=(0,)),
        "environment.arms",
        range(2, 10),
    )
    figure = drawn(make_report(cells, map(lab.record, cells), name="many"))["variance"]
    assert "The first 6 of 8 settings." in figure.caption
    assert {row["panel"] for row in rows(figure)} == {f"K = 2, arms {arms}" for arms in range(2, 8)}
    sizes = [*figure.legend]
    assert len(sizes) == 5
    assert {sizes[0], sizes[-1]} == {"n = 4", "n = 32"}
