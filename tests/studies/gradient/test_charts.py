"""What no golden figure shows: other charts on request, and many places."""

from compiled_charts import marks
from compiled_charts import rows as rows_of

from maxk_lab.reports.report import make_report
from maxk_lab.studies.gradient import charts


def test_marks_are_drawn_of_every_row_that_has_a_value(lab):
    """A lowest among baselines of which one is unfinished is not known."""
    cells = lab.cells(baselines=("none", "group_mean", "centred"), ns=(8, 16), ks=(2,))
    records = [
        lab.record(
            cell, status="failed" if (cell["baseline"], cell["n"]) == ("none", 16) else "done"
        )
        for cell in cells
    ]
    summary = make_report(cells, records, name="it")
    found = charts.charts(summary.studies["gradient"], summary.origin, ("heat_map",))
    drawn = {figure.name: figure.whole for figure in found}
    assert list(drawn) == ["variance", "bias", "snr", "heat_map"]
    for name, measured in (("variance", 3), ("snr", 5)):
        data = rows_of(drawn[name])
        assert [row["solid"] for row in data] == [row["baseline"] != "group_mean" for row in data]
        assert len(data) == measured
        assert marks(drawn[name])["symbol"] == measured + sum(row["open"] != 0 for row in data)
    assert marks(drawn["heat_map"]) == {"rect": 3, "text": 3}


def test_places_and_n_beyond_are_said_or_left_out(lab):
    cells = lab.vary(
        lab.cells(baselines=("none", "centred"), ns=(4, 6, 8, 12, 16, 24, 32), ks=(2,), seeds=(0,)),
        "environment.arms",
        range(2, 10),
    )
    summary = make_report(cells, map(lab.record, cells), name="many")
    figure = next(charts.charts(summary.studies["gradient"], summary.origin))
    data = rows_of(figure.whole)
    assert "The first 6 of 8 settings." in figure.caption
    assert {row["panel"] for row in data} == {f"K = 2, arms {arms}" for arms in range(2, 8)}
    shown = {row["n"] for row in data}
    assert len(shown) == 5
    assert {4, 32} < shown
