"""The facts of exact studies: properties of all measured groups, and the direction of optima."""

from maxk_lab.reports.report import make_report
from maxk_lab.studies.exact.answer import facts


def facts_of_weights(lab, weighed, **axes):
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

    one = facts_of_weights(lab, weighed)
    assert one.never_negative == ["maxk subloo"]
    assert one.sum_to_zero == ["maxk none", "maxk subloo"]
    assert [(zero.method, zero.shares) for zero in one.zeros] == [("maxk subloo", (0.25, 0.25))]
    assert (one.groups, one.title) == (2, "Weights at n = 4, K = 2")
    assert [line.method for line in one.table] == ["maxk none", "maxk subloo"]


def test_rounding_is_no_sum(lab):
    one = facts_of_weights(
        lab, lambda baseline, k: {"weight_sum": 1e-15 if baseline == "none" else 1e-6}
    )
    assert one.sum_to_zero == ["maxk none"]


def test_without_a_finished_row_there_is_nothing_to_say(lab):
    one = facts_of_weights(lab, lambda baseline, k: None)
    assert (one.never_negative, one.zeros, one.groups, one.table) == ([], [], 0, [])


def facts_of_optima(lab, optima, *, ks=(1, 2, 4), seeds=(0,), missing=()):
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
    (one,) = facts_of_optima(lab, {1: 0.25, 2: 0.5, 4: 0.75}).families
    assert (one.direction, one.ks, one.optima) == ("larger", (1, 4), ("0.25", "0.75"))
    (one,) = facts_of_optima(lab, {1: 0.25, 2: 0.75, 4: 0.5}).families
    assert one.direction == "both"
    (one,) = facts_of_optima(lab, {1: 0.5, 2: 0.5, 4: 0.5}).families
    assert one.direction == "same"


def test_seeds_that_disagree_make_no_direction(lab):
    optima = {(1, 0): 0.25, (2, 0): 0.5, (1, 1): 0.5, (2, 1): 0.25}
    (one,) = facts_of_optima(lab, optima, ks=(1, 2), seeds=(0, 1)).families
    assert (one.direction, one.optima[0]) == ("both", "0.25 to 0.5")
    (one,) = facts_of_optima(lab, optima | {(2, 1): 0.75}, ks=(1, 2), seeds=(0, 1)).families
    assert (one.direction, one.seeds) == ("larger", 2)


def test_what_is_at_an_end_is_named(lab):
    (one,) = facts_of_optima(lab, {1: 0.25, 2: 0.5, 4: 1.0}).families
    assert one.at_an_end == ["max@4"]
    nothing = facts_of_optima(lab, {}, missing=(1, 2, 4))
    assert (nothing.families, nothing.table) == ([], [])
