"""The facts of exact studies: properties of all measured groups, and the direction of optima."""

import pytest

from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report
from maxk_lab.studies.exact.answer import facts
from maxk_lab.studies.exact.charts import charts


def facts_of(study, cells, records):
    report = make_report(cells, records, name="it")
    return facts(report.studies[study], report.origin)


def test_a_property_of_weights_holds_at_every_k(lab):
    """Without a baseline, one weight is negative at K = 2 alone; rounding is no sum."""
    cells = lab.weights_cells()

    def weighed(baseline, k):
        negative = (baseline, k) == ("none", 2)
        return lab.weighed(0.25 * (baseline == "subloo"), 1e-15, -0.1 * negative)

    records = [lab.done(cell, weighed(cell["baseline"], cell["k"])) for cell in cells]
    one = facts_of("weights", cells, records)
    assert one.never_negative == ["maxk subloo"]
    assert one.sum_to_zero == ["maxk none", "maxk subloo"]
    assert [(zero.method, zero.shares) for zero in one.zeros] == [("maxk subloo", (0.25, 0.25))]
    assert (one.groups, one.title) == (2, "Weights at n = 4, K = 2")
    assert [line.method for line in one.table] == ["maxk none", "maxk subloo"]
    sums = {"none": 1e-15, "subloo": 1e-6}
    records = [lab.done(c, lab.weighed(weight_sum=sums[c["baseline"]])) for c in cells]
    assert facts_of("weights", cells, records).sum_to_zero == ["maxk none"]
    larger = [{**c, "id": f"large-{c['id']}"} for c in lab.weights_cells(("subloo",), n=8)]
    records = [lab.done(c, lab.weighed(0.25 if c["n"] == 4 else 0.75)) for c in (*cells, *larger)]
    zeros = facts_of("weights", [*cells, *larger], records).zeros
    assert zeros[1].shares == pytest.approx((7 / 12, 7 / 12))  # of 4 and of 8 samples
    report = make_report(cells, records, name="it")
    (figure,) = charts(report.studies["weights"], report.origin)
    assert figure.marks.startswith("Faint: 1 more group of rewards.")
    one = facts_of("weights", cells, [])
    assert (one.never_negative, one.zeros, one.groups, one.table) == ([], [], 0, [])


def test_the_direction_of_the_optimum_is_that_of_every_seed(lab):
    for optima, direction in (
        ([{1: 0.25, 2: 0.5, 4: 0.75}], "larger"),
        ([{1: 0.25, 2: 0.75, 4: 0.5}], "both"),
        ([{1: 0.5, 2: 0.5, 4: 0.5}], "same"),
        ([{1: 0.5, 2: 0.5, 4: 0.75}], "both"),
        ([{1: 0.25, 2: 0.5, 4: 1.0}, {1: 0.5, 2: 0.25, 4: 1.0}], "both"),
        ([{1: 0.25, 2: 0.5, 4: 1.0}, {1: 0.5, 2: 0.75, 4: 1.0}], "larger"),
    ):
        cells = lab.objective_cells(seeds=tuple(range(len(optima))))
        records = [lab.done(c, lab.curve(optima[c["seed"]][c["k"]])) for c in cells]
        (one,) = facts_of("objective", cells, records).families
        assert (one.direction, one.ks, one.seeds) == (direction, (1, 4), len(optima)), optima
    assert one.optima == ("0.25 to 0.5", "1")
    text = rendered(make_report(cells, records, name="it"), "terminal")
    assert "the larger the best" in text
    one = lab.objective_cells(ks=(2,))
    text = rendered(make_report(one, [lab.done(one[0], lab.curve(0.5))], name="it"), "terminal")
    assert "is 0.5 at K = 2." in " ".join(text.split())
    nothing = facts_of("objective", cells, [])
    assert (nothing.families, nothing.table) == ([], [])
