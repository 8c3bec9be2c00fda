"""The charts of trainings: every line is there, or named at the edge; one look in all of them."""

from dataclasses import replace

import pytest
from compiled_charts import marks
from compiled_charts import rows as rows_of

from maxk_lab.studies.training.charts import LOG, charts, estimates

USUAL, ALL = ["difference", "gap", "during"], ("max_at_k", "time", "log")


def drawn(summary, more=ALL):
    """Every chart by its name."""
    return {figure.name: figure for figure in charts(summary.studies["training"], summary, more)}


@pytest.fixture(scope="module")
def figures(study):
    return drawn(study)


@pytest.fixture(scope="module")
def table(study):
    return estimates(study.studies["training"].rows, 0.95)


def shown(figure):
    """The values of a chart by panel, line and place, without the notes."""
    data = rows_of(figure.whole)
    return {
        (row["panel"], row["row"], row["at_k"]): row["value"] for row in data if not row["note"]
    }


def test_those_on_request_come_only_where_they_are_asked_for(study, figures):
    assert list(drawn(study, ())) == USUAL
    assert list(figures) == [*USUAL, *ALL]
    assert all("TSP with 20 cities" in figure.title for figure in figures.values())


@pytest.mark.parametrize(
    ("name", "measure"), [("difference", "difference"), ("gap", "gap"), ("max_at_k", "max")]
)
def test_a_line_has_every_value_or_is_named_at_the_edge(figures, table, name, measure):
    data, found = rows_of(figures[name].whole), shown(figures[name])
    wanted = table[(table.measure == measure) & table.step.isna()]
    gone = {row["look"] for row in data if row["note"]}
    assert "maxk sample_loo" in gone
    assert {(row, k): value for (_, row, k), value in found.items()} == pytest.approx(
        {
            (row.row, row.at_k): row.value
            for row in wanted.itertuples()
            if row.row in {key[1] for key in found}
        }
    )
    assert {row.method for row in wanted.itertuples()} == gone | {
        row["method"] for row in data if not row["note"]
    }
    drawn_marks = sum(row["marked"] for row in data)
    assert marks(figures[name].whole)["symbol"] == drawn_marks > 20
    assert marks(figures[name].whole)["text"] == sum(bool(row["note"]) for row in data)


def test_methods_are_in_the_panel_of_the_k_that_they_are_trained_for(figures):
    panels = {panel: row for panel, row, _ in shown(figures["difference"])}
    assert set(panels) == {"trained for K = 1", "trained for K = 4", "trained for K = 8"}
    assert all(row.endswith(f"/k{panel[-1]}") for panel, row, _ in shown(figures["difference"]))
    # What the others are compared with stands in every panel, in grey.
    reference = [row for row in rows_of(figures["gap"].whole) if row["reference"]]
    assert {row["panel"] for row in reference} == set(panels)
    assert {row["look"] for row in reference} == {"POMO's loss"}


def test_without_a_clock_a_log_or_optima_their_charts_are_missing(lab):
    from maxk_lab.report.summarise import summarise_records

    cells = lab.training_cells()
    records = [replace(lab.training_record(cell), timings={}) for cell in cells]
    for record in records:
        del record.metrics["log"]
    assert set(drawn(summarise_records(cells, records, name="old"))) == {
        "difference", "during", "max_at_k",
    }  # fmt: skip


@pytest.mark.parametrize("extra", [0, 4])
def test_several_environments_are_panels_or_have_charts_of_their_own(tsp, extra):
    places = ({"name": "tsp", "num_loc": 20}, {"name": "cvrp", "num_loc": 20})
    points = [*tsp.points[:4], *tsp.points[5 : 5 + extra]]
    cells = [cell for place in places for cell in tsp.cells(points, environment=place)]
    found = drawn(tsp.report(cells), ())
    if extra:
        assert list(found) == [f"{name}-{number}" for number in (1, 2) for name in USUAL]
        assert "capacitated vehicle routing" in found["gap-1"].title
    else:
        assert list(found) == USUAL
        assert len({row["panel"] for row in rows_of(found["difference"].whole)}) == 2


def test_the_log_shows_what_changes_during_a_training(lab):
    from maxk_lab.report.summarise import summarise_records

    def measures(change):
        cells = lab.training_cells()
        records = [lab.training_record(cell) for cell in cells]
        for record in records:
            change(record.metrics["log"])
        data = rows_of(drawn(summarise_records(cells, records, name="it"))["log"].whole)
        return {row["measure"].removeprefix(LOG) for row in data if row["measure"]}

    usual = measures(lambda log: None)
    assert {"reward/mean", "entropy", "grad_norm"} <= usual
    assert "length/mean" not in usual

    def longer(log):
        log["length/mean"] = [float(step) for step in log["step"]]

    def rare(log):
        log["frac_truncated"] = [0.006 * (step == log["step"][-1]) for step in log["step"]]

    assert "length/mean" in measures(longer)
    assert "frac_truncated" not in measures(rare)
