"""The charts of trainings: every line is drawn or named in a note, with one legend for all."""

from __future__ import annotations

from typing import Any

import pytest
from compiled_charts import marks, rows

from maxk_lab.reports.charts import Figure
from maxk_lab.reports.report import Report, make_report
from maxk_lab.studies.training.charts import charts, estimates


def drawn(report: Report) -> dict[str, Figure]:
    """Return every chart by its name."""
    figures = charts(report.studies["training"], report.origin)
    return {figure.name: figure for figure in figures}


@pytest.fixture(scope="module")
def figures(study: Report) -> dict[str, Figure]:
    return drawn(study)


def test_every_value_is_drawn_and_lines_beyond_the_axis_are_in_a_note(
    figures: dict[str, Figure], study: Report
) -> None:
    assert [*figures] == ["difference", "gap", "during"]
    assert all("TSP with 20 cities" in figure.title for figure in figures.values())
    table = estimates(study.studies["training"].rows, 0.95)
    for name in ("difference", "gap"):
        figure = figures[name]
        values = table[(table.measure == name) & table.step.isna()]
        assert {row["value"] for row in rows(figure)} == {*values.value}
        notes = " ".join(panel.note for panel in figure.panels)
        assert "Beyond the axis: maxk sample_loo" in notes
        banded = {row["series"] for row in rows(figure) if row["lo"] is not None}
        assert "maxk subloo" in banded
        assert "maxk sample_loo" not in banded
    marked = sum(row["marked"] for row in rows(figures["gap"]))
    assert marks(figures["gap"])["symbol"] == marked > 20


def test_a_series_has_one_look_and_biased_trainings_are_dashed(figures: dict[str, Figure]) -> None:
    gap, during = figures["gap"], figures["during"]
    for name, look in during.legend.items():
        assert gap.legend.get(name, look) == look
    assert {*gap.legend} & {*during.legend}
    for figure in (gap, during):
        assert {row["series"] for row in rows(figure)} <= {*figure.legend}
    styles = {row["series"]: row["style"] for row in rows(gap)}
    assert styles["maxk centred"] == styles["maxk subloo"] == "solid"
    assert styles["leader_reward[0.5]"] == styles["POMO's loss"] == "hollow"
    assert "Dashed: biased or another objective." in gap.caption
    caption = figures["difference"].caption
    assert caption.startswith("Max@K after training minus Max@K of POMO's loss")
    assert "paired by seed" in caption
    assert "95% intervals over 5 seeds" in caption


@pytest.mark.parametrize(
    ("seeds", "bands"), [((0, 1), "Bands: 95% intervals over"), ((0,), "No bands: one seed")]
)
def test_without_optima_values_are_drawn_and_bands_need_seeds(
    lab: Any, seeds: tuple[int, ...], bands: str
) -> None:
    cells = lab.training_cells(seeds=seeds)
    figures = drawn(make_report(cells, map(lab.training_record, cells), name="it"))
    assert [*figures] == ["difference", "max_at_k", "during"]
    assert figures["difference"].marks.startswith("Bands: 95% intervals over")
    assert figures["during"].marks.startswith(bands)


def test_rows_of_other_instances_have_no_differences(tsp: Any) -> None:
    """Neither at the end nor during training."""

    def other(metrics: dict[str, Any], cell: dict[str, Any]) -> None:
        if cell["baseline"] == "subloo":
            metrics["data"]["instances"] = "other"

    cells = tsp.cells(
        points=[next(iter(tsp.points)), ("maxk", "subloo", 16, 8, "iid")], seeds=(0, 1)
    )
    assert [*drawn(tsp.report(cells, other))] == ["gap"]
    assert [*drawn(tsp.report(cells))] == ["difference", "gap", "during"]


def test_several_environments_with_many_methods_have_charts_of_their_own(
    tsp: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxk_lab.studies.training.charts.LINES", 2)
    places = ({"name": "tsp", "num_loc": 20}, {"name": "cvrp", "num_loc": 20})
    cells = [cell for place in places for cell in tsp.cells(tsp.points[:3], (0, 1), place)]
    figures = drawn(tsp.report(cells))
    names = ("difference", "gap", "during")
    assert [*figures] == [f"{name}-{number}" for number in (1, 2) for name in names]
    assert "capacitated vehicle routing" in figures["gap-1"].title
