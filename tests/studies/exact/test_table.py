"""The studies without randomness: exact numbers, shown as such, and claims that compare them."""

import csv
import io
import json

import pytest

from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report

OPTIMA = {1: 0.25, 2: 0.5, 4: 0.75}


@pytest.fixture(scope="module")
def both(lab):
    """(cells, records) of an objective study and a weights study."""
    objective, weights = lab.objective_cells(), lab.weights_cells()
    records = [lab.done(cell, lab.curve(OPTIMA[cell["k"]])) for cell in objective]
    return [*objective, *weights], [*records, *(lab.done(cell, lab.weighed()) for cell in weights)]


@pytest.fixture(scope="module")
def summary(both):
    """Their summary."""
    return make_report(*both, name="exact")


def test_the_tables_have_exact_numbers(summary):
    estimates = summary.tables.estimates
    assert list(estimates.query("measure == 'optimum'").value) == [0.25, 0.5, 0.75]
    assert {*estimates.about} == {"exact"}
    assert {*estimates.level} == {1.0}
    lines = list(csv.DictReader(io.StringIO(rendered(summary, "csv"))))
    assert [line["study"] for line in lines] == ["objective"] * 3 + ["weights"] * 3
    assert "zero_share_low" not in lines[0]
    assert lines[-1]["zero_share"] == "0.25"


ORDER = {"kind": "order", "metric": "optimum"}


@pytest.mark.parametrize(
    ("along", "verdict"),
    [([1, 2, 4], "supported"), ([1, 4], "supported"), ([4, 1], "refuted"), ([1, 4, 2], "refuted"),
     ([1, 8], "undecided")],
)  # fmt: skip
def test_the_order_of_optima_is_compared_exactly(lab, both, along, verdict):
    found, detail = lab.judged(*both, **ORDER, along=[{"k": k} for k in along])
    assert found == verdict, detail


def test_every_seed_must_have_the_order(lab):
    cells = lab.objective_cells(ks=(1, 2), seeds=(0, 1))
    optima = {(1, 0): 0.25, (2, 0): 0.5, (1, 1): 0.75, (2, 1): 0.75}
    records = [lab.done(cell, lab.curve(optima[cell["k"], cell["seed"]])) for cell in cells]
    verdict, detail = lab.judged(cells, records, **ORDER, along=[{"k": 1}, {"k": 2}])
    assert verdict == "refuted"
    assert "seed 1: 0.75 over 0.75" in detail
    summary = make_report(cells, records, name="seeds")
    assert "0.25 to 0.75" in rendered(summary, "terminal")
    lines = json.loads(rendered(summary, "json"))["estimates"][:2]
    assert [(line["measure"], line["reason"]) for line in lines] == [
        ("optimum", "the seeds differ"),
        ("optimum_value", "the seeds differ"),
    ]
    assert lab.judged(cells, records[:-1], **ORDER, along=[{"k": 1}, {"k": 2}])[0] == "undecided"


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_an_objective_without_an_optimum_says_why(lab, seeds):
    """Optima of seeds that have none are NaN, which is not equal to itself."""
    cells = lab.objective_cells(ks=(1, 2), seeds=seeds)
    missing = dict.fromkeys(("optimum", "optimum_value"))
    flat = lab.curve(0.5) | missing | {"undefined": {"optimum": "it is constant"}}
    records = [lab.done(cell, flat if cell["k"] == 1 else lab.curve(0.5)) for cell in cells]
    summary = make_report(cells, records, name="flat")
    assert "it is constant: optimum, optimum_value of objective/maxk/k1" in rendered(
        summary, "terminal", full=True
    )
    assert len(summary.studies["objective"].rows[0].distinct) == 1
    verdict, detail = lab.judged(cells, records, **ORDER, along=[{"k": 1}, {"k": 2}])
    assert (verdict, "it is constant" in detail) == ("undecided", True)


@pytest.mark.parametrize(
    ("metric", "value", "slack", "verdict"),
    [
        ("zero_share", "(k - 1) / n", {"tolerance": 1e-12}, "supported"),
        ("zero_share", 0.2, {"tolerance": 0.01}, "refuted"),
        ("zero_share", 0.2, {"relative_tolerance": 0.3}, "supported"),
        ("weight_sum", 0, {"tolerance": 1e-12}, "supported"),
        ("weight_min", 0, {"tolerance": 1e-12}, "refuted"),
    ],
)
def test_numbers_of_weights_are_compared_exactly(lab, both, metric, value, slack, verdict):
    where = {"baseline": "subloo", "k": 2}
    found, detail = lab.judged(
        *both, kind="equals", metric=metric, value=value, where=where, **slack
    )
    assert found == verdict, detail


def test_a_lost_cell_is_listed_and_leaves_no_number(both):
    cells, records = both
    summary = make_report(
        cells, [r for r in records if r.cell["id"] != "weights-subloo-2-0"], name="lost"
    )
    text = " ".join(rendered(summary, "terminal", full=True).split())
    assert "not finished: weights/maxk/subloo/n4/k2 seed 0" in text
    assert "incomplete: 0 of 1 seeds finished: all numbers of weights/maxk/subloo/n4/k2" in text
    assert json.loads(rendered(summary, "json"))["estimates"][-1]["value"] is None
