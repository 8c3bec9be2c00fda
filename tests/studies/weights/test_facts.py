"""The facts of a weights study: what holds of every measured group of a method, and no more."""

from maxk_lab.reports.report import make_report
from maxk_lab.studies.weights.facts import facts


def found(lab, weighed, **axes):
    """The facts of records with these measures, by baseline and K; none where there are none."""
    cells = lab.weights_cells(**axes)
    records = [
        lab.done(cell, lab.weighed(**how))
        for cell in cells
        if (how := weighed(cell["baseline"], cell["k"])) is not None
    ]
    summary = make_report(cells, records, name="it")
    return facts(summary.studies["weights"], summary.origin)


def test_only_what_holds_at_every_k_is_said(lab):
    def weighed(baseline, k):
        """Without a baseline one weight is negative at K = 2 alone."""
        negative = (baseline, k) == ("none", 2)
        return {"zero_share": 0.25 * (baseline == "subloo"), "weight_min": -0.1 * negative}

    one = found(lab, weighed)
    assert one.never_negative == ["maxk subloo"]
    assert one.sum_to_zero == ["maxk none", "maxk subloo"]
    assert [(zero.method, zero.shares) for zero in one.zeros] == [("maxk subloo", (0.25, 0.25))]
    assert (one.groups, one.title) == (2, "Weights at n = 4, K = 2")
    assert [line.method for line in one.table] == ["maxk none", "maxk subloo"]


def test_rounding_is_no_sum(lab):
    one = found(lab, lambda baseline, k: {"weight_sum": 1e-15 if baseline == "none" else 1e-6})
    assert one.sum_to_zero == ["maxk none"]


def test_without_a_finished_row_there_is_nothing_to_say(lab):
    one = found(lab, lambda baseline, k: None)
    assert (one.never_negative, one.zeros, one.groups, one.table) == ([], [], 0, [])
