"""The studies without randomness: exact numbers, shown as such, and claims that compare them."""

import csv
import io
import json

import pytest

from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report

OPTIMA = {1: 0.25, 2: 0.5, 4: 0.75}
ORDER = {"kind": "order", "metric": "optimum"}
LAST = "weights/maxk/subloo/n4/k2"


@pytest.fixture(scope="module")
def both(lab):
    """(cells, records) of an objective study and a weights study."""
    objective, weights = lab.objective_cells(), lab.weights_cells()
    records = [lab.done(cell, lab.curve(OPTIMA[cell["k"]])) for cell in objective]
    return [*objective, *weights], [*records, *(lab.done(cell, lab.weighed()) for cell in weights)]


def estimates(report):
    return json.loads(rendered(report, "json"))["estimates"]


def test_the_tables_have_exact_numbers_and_a_lost_cell_has_none(both):
    cells, records = both
    report = make_report(cells, records, name="exact")
    table = report.tables.estimates
    assert list(table.query("measure == 'optimum'").value) == [0.25, 0.5, 0.75]
    assert ({*table.about}, {*table.level}) == ({"exact"}, {1.0})
    lines = list(csv.DictReader(io.StringIO(rendered(report, "csv"))))
    assert [line["study"] for line in lines] == ["objective"] * 3 + ["weights"] * 3
    assert "zero_share_low" not in lines[0]
    assert lines[-1]["zero_share"] == "0.25"
    lost = make_report(cells, records[:-1], name="lost")
    text = " ".join(rendered(lost, "terminal", full=True).split())
    assert f"not finished: {LAST} seed 0" in text
    assert f"incomplete: 0 of 1 seeds finished: all numbers of {LAST}" in text
    assert estimates(lost)[-1]["value"] is None


@pytest.mark.parametrize(
    ("verdict", "claim"),
    [
        *((verdict, ORDER | {"along": [{"k": k} for k in ks]}) for verdict, ks in (
            ("supported", [1, 2, 4]), ("supported", [1, 4]), ("refuted", [4, 1]),
            ("refuted", [1, 4, 2]), ("undecided", [1, 8]),
        )),
        *((verdict, {"kind": "equals", "where": {"baseline": "subloo", "k": 2}, **claim})
          for verdict, claim in (
            ("supported", {"metric": "zero_share", "value": "(k - 1) / n", "tolerance": 1e-12}),
            ("refuted", {"metric": "zero_share", "value": 0.2, "tolerance": 0.01}),
            ("supported", {"metric": "zero_share", "value": 0.2, "relative_tolerance": 0.3}),
            ("supported", {"metric": "weight_sum", "value": 0, "tolerance": 1e-12}),
            ("refuted", {"metric": "weight_min", "value": 0, "tolerance": 1e-12}),
        )),
    ],
)  # fmt: skip
def test_claims_compare_exact_numbers(lab, both, verdict, claim):
    result, detail = lab.judged(*both, **claim)
    assert result == verdict, detail


def test_every_seed_must_have_the_order(lab):
    cells = lab.objective_cells(ks=(1, 2), seeds=(0, 1))
    optima = {(1, 0): 0.25, (2, 0): 0.5, (1, 1): 0.75, (2, 1): 0.75}
    records = [lab.done(cell, lab.curve(optima[cell["k"], cell["seed"]])) for cell in cells]
    claim = ORDER | {"along": [{"k": 1}, {"k": 2}]}
    verdict, detail = lab.judged(cells, records, **claim)
    assert (verdict, "seed 1: 0.75 over 0.75" in detail) == ("refuted", True)
    assert lab.judged(cells, records[:-1], **claim)[0] == "undecided"
    # A difference below the precision of the optimum is none.
    near = [lab.done(c, lab.curve(0.5 + 1e-8 * c["k"])) for c in cells]
    assert lab.judged(cells, near, **claim)[0] == "refuted"
    report = make_report(cells, records, name="seeds")
    assert "0.25 to 0.75" in rendered(report, "terminal")
    assert [(line["measure"], line["reason"]) for line in estimates(report)[:2]] == [
        ("optimum", "the seeds differ"),
        ("optimum_value", "the seeds differ"),
    ]


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_an_objective_without_an_optimum_has_a_reason(lab, seeds):
    """Optima of seeds without one are NaN, which is not equal to itself."""
    cells = lab.objective_cells(ks=(1, 2), seeds=seeds)
    flat = {"optimum": None, "optimum_value": None, "undefined": {"optimum": "it is constant"}}
    curves = {1: lab.curve(0.5) | flat, 2: lab.curve(0.5)}
    records = [lab.done(cell, curves[cell["k"]]) for cell in cells]
    report = make_report(cells, records, name="flat")
    text = rendered(report, "terminal", full=True)
    assert "it is constant: optimum, optimum_value of objective/maxk/k1" in text
    assert len(report.studies["objective"].rows[0].distinct) == 1
    verdict, detail = lab.judged(cells, records, **ORDER, along=[{"k": 1}, {"k": 2}])
    assert (verdict, "it is constant" in detail) == ("undecided", True)
