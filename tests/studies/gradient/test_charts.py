"""The charts of gradient studies: labels, captions, axes and order of methods."""

from __future__ import annotations

from typing import Any

from compiled_charts import marks, rows

from maxk_lab.reports.charts import Figure
from maxk_lab.reports.report import make_report
from maxk_lab.studies.gradient import charts


def drawn(cells: Any, records: Any, level: float = 0.95) -> dict[str, Figure]:
    """Return every chart of a report by its name."""
    report = make_report(cells, records, name="it", level=level)
    return {
        figure.name: figure for figure in charts.charts(report.studies["gradient"], report.origin)
    }


def domains(figure: Figure) -> dict[str, set[tuple[float, float]]]:
    """Return the ends of the x axes of all panels by the title of the axis."""
    ends: dict[str, set[tuple[float, float]]] = {}
    for panel in figure.panels:
        for x in (layer["encoding"].get("x", {}) for layer in panel.spec["layer"]):
            if "scale" in x:
                ends.setdefault(x["title"], set()).add(tuple(x["scale"]["domain"]))
    return ends


def test_a_mark_is_drawn_for_every_row_with_a_value(lab: Any) -> None:
    """The lowest of baselines with an unfinished one is unknown."""
    cells = lab.cells(baselines=("none", "group_mean", "centred"), ns=(8, 16), ks=(2,))
    unfinished = ("none", 16)
    records = [
        lab.record(cell, "failed" if (cell["baseline"], cell["n"]) == unfinished else "done")
        for cell in cells
    ]
    figures = drawn(cells, records)
    for name, measured in (("variance", 3), ("snr", 5)):
        data = rows(figures[name])
        assert len(data) == measured
        arrows = sum(row["open"] != 0 for row in data)
        assert marks(figures[name])["symbol"] == measured + arrows


def test_a_label_has_the_state_of_its_bias(lab: Any) -> None:
    """A baseline of the user is not called biased: the catalogue derives nothing about it."""
    cells = lab.cells(baselines=("none", "centred", "group_mean"), ns=(8,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for cell in cells:
        if cell["baseline"] == "centred":
            cell["baseline"] = "mine:median"
    for name, figure in drawn(cells, records).items():
        # A biased row is not compared, so it has no ratio to the lowest.
        biased = {"group_mean (biased)": "hollow"} if name != "variance" else {}
        assert {row["label"].replace("\n", " "): row["style"] for row in rows(figure)} == {
            "none": "solid",
            "mine:median (not proved)": "pale",
            **biased,
        }
        words = "; hollow: biased." if biased else "."
        assert f"Filled: unbiased (proved); pale: not proved{words}" in figure.caption


def test_the_caption_has_the_level_of_the_report(lab: Any) -> None:
    cells = lab.cells(baselines=("centred", "none"), ns=(8,), ks=(2,))
    for figure in drawn(cells, map(lab.record, cells), level=0.8).values():
        assert "Bars: 80% intervals" in figure.caption


def test_all_panels_have_one_order_one_scale_and_a_caption_of_their_values(lab: Any) -> None:
    cells = lab.cells(baselines=("none", "group_mean", "affine[0.5]"), ks=(2, 4), stages=(0, 200))
    records = [lab.record(cell) for cell in cells]
    study = make_report(cells, records, name="it").studies["gradient"]
    figures = drawn(cells, records)
    assert "bias" not in figures, "no method is biased in direction"
    assert figures["snr"].caption.startswith("‖E ĝ‖² / tr Cov ĝ of one estimate")
    plotted = {row["value"] for row in rows(figures["snr"])}
    assert plotted == {row.intervals["snr"].value for row in study.rows}
    variance = figures["variance"]
    assert "divided by the lowest" in variance.caption
    ratios = [row.ratios.get("over_lowest") for row in study.rows]
    assert {row["value"] for row in rows(variance)} == {1.0, *(r.value for r in ratios if r)}
    for figure in figures.values():
        assert len(figure.panels) == 4
        assert [len(ends) for ends in domains(figure).values()] == [1]
        for panel in figure.panels:
            labels = dict.fromkeys(row["label"] for row in panel.spec["data"]["values"])
            assert [*labels] == ["affine[0.5]", "none", "group_mean (biased)"]
    # A star is beside the axis, at no value.
    assert any(row["best"] for row in rows(variance))
    assert "Star: significantly lower than all others" in variance.caption
    for panel in variance.panels:
        (star,) = (layer for layer in panel.spec["layer"] if layer["mark"]["type"] == "text")
        assert (star["mark"]["text"], star["encoding"]["x"]) == ("★", {"value": "width"})
        assert star["mark"]["dx"] > 0


def test_the_chart_of_bias_has_only_methods_biased_in_direction(lab: Any) -> None:
    """Each column has one measure, with one scale for all stages."""
    cells = lab.cells(baselines=("none", "centred"), ns=(8,), ks=(2,), stages=(0, 200))
    off = {("none", 0): 0.5, ("none", 200): 2.0}
    records = [
        lab.record(cell, bias_off_gradient=off.get((cell["baseline"], cell["stage"]), 0.0))
        for cell in cells
    ]
    figure = drawn(cells, records)["bias"]
    stages = ("before training", "after 200 steps")
    titles = [f"{measure}, {stage}" for stage in stages for measure in ("length", "cosine")]
    assert ([panel.title for panel in figure.panels], figure.columns) == (titles, 2)
    assert {name: len(ends) for name, ends in domains(figure).items()} == {"length": 1, "cosine": 1}
    labels = {(row["label"].replace("\u00a0", " "), row["style"]) for row in rows(figure)}
    assert labels == {("none, K = 2", "solid")}


def test_a_caption_names_the_number_of_settings_and_few_n_are_drawn(lab: Any) -> None:
    cells = lab.vary(
        lab.cells(baselines=("none", "centred"), ns=(4, 6, 8, 12, 16, 32), ks=(2,), seeds=(0,)),
        "environment.arms",
        range(2, 9),
    )
    figure = drawn(cells, [lab.record(cell) for cell in cells])["variance"]
    assert "The first 6 of 7 settings." in figure.caption
    assert {row["panel"] for row in rows(figure)} == {f"K = 2, arms {arms}" for arms in range(2, 8)}
    sizes = [*figure.legend]
    assert (len(sizes), sizes[0], sizes[-1]) == (5, "n = 4", "n = 32")
