"""The charts of trainings: every line is there, or named at the edge; one look in all of them."""

from dataclasses import replace

import pytest
from compiled_charts import marks
from compiled_charts import rows as rows_of

from maxk_lab.reports.report import make_report
from maxk_lab.studies.training.charts import LOG, charts, estimates

USUAL, ALL = ["difference", "gap", "during"], ("max_at_k", "time", "log")


def drawn(summary, more=ALL):
    """Every chart by its name."""
    return {
        figure.name: figure for figure in charts(summary.studies["training"], summary.origin, more)
    }


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


def test_the_usual_charts_come_before_those_on_request(figures):
    assert list(figures) == [*USUAL, *ALL]
    assert all("TSP with 20 cities" in figure.title for figure in figures.values())


@pytest.mark.parametrize(("name", "measure"), [("gap", "gap"), ("max_at_k", "max")])
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


def test_without_a_clock_a_log_or_optima_their_charts_are_missing(lab):
    cells = lab.training_cells()
    records = [replace(lab.training_record(cell), timings={}) for cell in cells]
    for record in records:
        del record.metrics["log"]
    old = make_report(cells, records, name="old")
    assert list(drawn(old)) == ["difference", "during", "max_at_k"]
    assert list(drawn(old, ())) == ["difference", "during"]


def test_several_environments_with_many_methods_have_charts_of_their_own(tsp, monkeypatch):
    monkeypatch.setattr("maxk_lab.studies.training.charts.LINES", 2)
    places = ({"name": "tsp", "num_loc": 20}, {"name": "cvrp", "num_loc": 20})
    cells = [cell for place in places for cell in tsp.cells(tsp.points[:3], (0, 1), place)]
    found = drawn(tsp.report(cells), ())
    assert list(found) == [f"{name}-{number}" for number in (1, 2) for name in USUAL]
    assert "capacitated vehicle routing" in found["gap-1"].title


def test_the_log_shows_what_changes_during_a_training(lab):
    cells = lab.training_cells()
    records = [lab.training_record(cell) for cell in cells]
    for record in records:
        logged = record.metrics["log"]
        logged["length/mean"] = [float(step) for step in logged["step"]]
        logged["k"] = [4.0 for step in logged["step"]]
        logged["frac_truncated"] = [0.006 * (step == logged["step"][-1]) for step in logged["step"]]
    data = rows_of(drawn(make_report(cells, records, name="it"), ("log",))["log"].whole)
    assert {row["measure"].removeprefix(LOG) for row in data if row["measure"]} == {
        "reward/mean", "entropy", "grad_norm", "length/mean",
    }  # fmt: skip
