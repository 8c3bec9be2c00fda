"""The answer of an objective study: which way the optimum moves, no further than it was seen to."""

from maxk_lab.report.summarise import summarise_records
from maxk_lab.studies.objective.section import chapter


def told(lab, optima, *, ks=(1, 2, 4), seeds=(0,), missing=()):
    """The chapter about these optima, by K or by K and seed."""
    cells = lab.objective_cells(ks=ks, seeds=seeds)
    records = [
        lab.done(cell, lab.curve(optima.get((cell["k"], cell["seed"]), optima.get(cell["k"]))))
        for cell in cells
        if cell["k"] not in missing
    ]
    summary = summarise_records(cells, records, name="it")
    return chapter(summary.studies["objective"], summary)


def test_an_optimum_that_grows_with_k(lab):
    found = told(lab, {1: 0.25, 2: 0.5, 4: 0.75})
    assert found.answer == (
        "The larger K, the larger the best policy.mean for max@K: from 0.25 at K = 1 to 0.75 at "
        "K = 4, exactly.",
    )
    (sheet,) = found.short
    assert len(sheet.rows) == 3


def test_one_that_moves_both_ways_or_not_at_all(lab):
    (text,) = told(lab, {1: 0.25, 2: 0.75, 4: 0.5}).answer
    assert "moves both ways with K" in text
    (text,) = told(lab, {1: 0.5, 2: 0.5, 4: 0.5}).answer
    assert text == "The best policy.mean for max@K is the same at every K: 0.5."


def test_seeds_that_disagree_make_no_direction(lab):
    optima = {(1, 0): 0.25, (2, 0): 0.5, (1, 1): 0.5, (2, 1): 0.25}
    (text,) = told(lab, optima, ks=(1, 2), seeds=(0, 1)).answer
    assert "moves both ways with K: from 0.25 to 0.5 at K = 1" in text
    (text,) = told(lab, optima | {(2, 1): 0.75}, ks=(1, 2), seeds=(0, 1)).answer
    assert "The larger K, the larger" in text
    assert "in each of 2 seeds" in text


def test_an_optimum_at_the_end_may_lie_beyond(lab):
    _, text = told(lab, {1: 0.25, 2: 0.5, 4: 1.0}).answer
    assert text.endswith("so that a better value may lie beyond: max@4.")


def test_what_is_missing_is_said(lab):
    *_, text = told(lab, {1: 0.25, 2: 0.5}, missing=(4,)).answer
    assert text.startswith("Missing: 1 of 3 objectives lack results")
    (text,) = told(lab, {}, missing=(1, 2, 4)).answer
    assert text.startswith("Missing: 3 of 3")
