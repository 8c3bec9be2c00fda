"""The answer of a weights study: what holds of every measured group of a method, and no more."""

from maxk_lab.report.summarise import summarise_records
from maxk_lab.studies.weights.section import chapter


def told(lab, weighed, **axes):
    """The chapter of records with these measures, by baseline and K; none where there are none."""
    cells = lab.weights_cells(**axes)
    records = [
        lab.done(cell, lab.weighed(**how))
        for cell in cells
        if (how := weighed(cell["baseline"], cell["k"])) is not None
    ]
    summary = summarise_records(cells, records, name="it")
    return chapter(summary.studies["weights"], summary)


def test_only_what_holds_at_every_k_is_said(lab):
    def weighed(baseline, k):
        """Without a baseline one weight is negative at K = 2 alone."""
        negative = (baseline, k) == ("none", 2)
        return {"zero_share": 0.25 * (baseline == "subloo"), "weight_min": -0.1 * negative}

    found = told(lab, weighed)
    text = " ".join(found.answer)
    assert "No weight is negative with maxk subloo: " in text
    assert "sum to zero (mean over groups) with maxk none and maxk subloo" in text
    assert "a weight of zero with maxk subloo (0.25 of all)" in text
    assert "Exactly so for the 2 groups" in text
    (sheet,) = found.short
    assert {row.key.k for row in sheet.rows} == {2}


def test_rounding_is_no_sum(lab):
    found = told(lab, lambda baseline, k: {"weight_sum": 1e-15 if baseline == "none" else 1e-6})
    assert "with maxk none: what some samples" in " ".join(found.answer)


def test_what_is_missing_is_said(lab):
    found = told(lab, lambda baseline, k: {} if baseline == "none" else None)
    assert found.answer[-1].startswith("Missing: 1 of 3 rows lack results")
    assert "subloo" not in " ".join(found.answer[:-1])
    found = told(lab, lambda baseline, k: None)
    assert found.answer[0].startswith("Missing: 3 of 3")
