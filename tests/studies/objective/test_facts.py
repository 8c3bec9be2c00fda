"""The facts of an objective study: which way the optimum moves, no further than it was seen to."""

from maxk_lab.reports.report import make_report
from maxk_lab.studies.objective.facts import facts


def found(lab, optima, *, ks=(1, 2, 4), seeds=(0,), missing=()):
    """The facts about these optima, by K or by K and seed."""
    cells = lab.objective_cells(ks=ks, seeds=seeds)
    records = [
        lab.done(cell, lab.curve(optima.get((cell["k"], cell["seed"]), optima.get(cell["k"]))))
        for cell in cells
        if cell["k"] not in missing
    ]
    summary = make_report(cells, records, name="it")
    return facts(summary.studies["objective"], summary.origin)


def test_the_way_of_the_optimum(lab):
    (one,) = found(lab, {1: 0.25, 2: 0.5, 4: 0.75}).families
    assert (one.way, one.ks, one.optima) == ("larger", (1, 4), ("0.25", "0.75"))
    (one,) = found(lab, {1: 0.25, 2: 0.75, 4: 0.5}).families
    assert one.way == "both"
    (one,) = found(lab, {1: 0.5, 2: 0.5, 4: 0.5}).families
    assert one.way == "same"


def test_seeds_that_disagree_make_no_direction(lab):
    optima = {(1, 0): 0.25, (2, 0): 0.5, (1, 1): 0.5, (2, 1): 0.25}
    (one,) = found(lab, optima, ks=(1, 2), seeds=(0, 1)).families
    assert (one.way, one.optima[0]) == ("both", "0.25 to 0.5")
    (one,) = found(lab, optima | {(2, 1): 0.75}, ks=(1, 2), seeds=(0, 1)).families
    assert (one.way, one.seeds) == ("larger", 2)


def test_what_is_at_an_end_is_named(lab):
    (one,) = found(lab, {1: 0.25, 2: 0.5, 4: 1.0}).families
    assert one.at_an_end == ["max@4"]
    nothing = found(lab, {}, missing=(1, 2, 4))
    assert (nothing.families, nothing.table) == ([], [])
