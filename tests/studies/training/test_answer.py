"""The facts of a training study: none is stronger than hand-made rows allow."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from trained_rows import (
    CENTRED,
    NOISE,
    POMO,
    SUBLOO,
    as_pomo,
    compared,
    decoded,
    facts_of,
    lead,
    noise_with,
    pomo,
    row,
    unfinished,
    with_ends,
    with_optima,
)

from maxk_lab.reports.answer import filled
from maxk_lab.reports.document import label_of
from maxk_lab.reports.report import Origin, make_report
from maxk_lab.reports.tables import Pooled
from maxk_lab.statistics.seeds import seed_mean
from maxk_lab.studies.training.answer import Curve, facts
from maxk_lab.studies.training.differences import with_differences_to
from maxk_lab.studies.training.record import Optima
from maxk_lab.studies.training.row import OWN_TEMPERATURE
from maxk_lab.studies.training.table import judged, places_of
from maxk_lab.sweep_file.studies import STUDIES
from maxk_lab.training.settings import Settings

LEAD, LOSS, FORCED = "maxk centred for K = 2", "POMO's loss", "POMO as shipped (start=forced)"
# A lead that some seeds do not have, and one that all have.
UNSURE, SURE = noise_with(0.05, 0.4), noise_with(0, 0.01)


def answer(*rows):
    """The answer of the one place of these rows, the first of which others are compared with."""
    (answer_of_place,) = facts_of(compared(rows)).answers
    return answer_of_place


def lines_of(facts, rows=()):
    """The lines and the notes of a template; filling it fails on none of these facts."""
    return filled(STUDIES.get("training"), facts, rows)


def labels(facts, rows=()):
    return [label_of(line)[0] for line in lines_of(facts, rows)[0]]


def ends(interval):
    return interval.value, interval.low, interval.high


def assert_same(interval, values):
    expected = seed_mean(values, 0.95)
    assert ends(interval) == pytest.approx(ends(expected))


def test_a_significant_lead_has_its_size_its_interval_and_its_cost():
    facts = answer(pomo(), row(CENTRED, [-1, 1, 2.5, 4], SURE))
    assert (facts.state, facts.top, facts.reference, facts.compared) == ("compared", 4, LOSS, 1)
    assert facts.better == [facts.use]
    assert (facts.use.name, facts.use.than, facts.use.sign) == (LEAD, LOSS, 1)
    assert_same(facts.use.interval, 1 + SURE - NOISE)
    assert_same(facts.cost.interval, -1 + SURE - NOISE)
    assert (facts.cost.sign, facts.tied, facts.worse, facts.below) == (-1, [], [], [])
    assert (facts.tuned, facts.pomo, facts.gaps) == (None, [], None)
    assert facts.curve == Curve(above=[4], below=[1], open=[2])


def test_the_curve_counts_the_methods_of_every_reference():
    """A lead of 2.6 errors over instances is settled for one method, not for one of 21."""
    draws = stats.norm.ppf((np.arange(60) + 0.5) / 60)
    ahead = draws + 2.6 * stats.sem(draws)

    def on_instances(each):
        values = np.tile(ahead if each.key.baseline == "centred" else 0 * draws, (5, 1))
        each = with_ends(each, values=dict.fromkeys((1, 2, 4), values))
        return replace(each, instances=("a",) * 5)

    firsts = [pomo(), row(CENTRED, [-1, 1, 2.5, 4], SURE)]
    points = [("maxk", f"affine[0.{i}]", 2) for i in range(10, 30)]
    forced = [pomo(start="forced")]
    forced += [row(point, [0, 1, 2, 3], SURE, start="forced") for point in points]
    for rows, count, above in ((firsts, 1, [1, 2, 4]), (firsts + forced, 21, [])):
        groups = [rows[:2], rows[2:]]
        pairs = [each for group in groups for each in compared([*map(on_instances, group)])]
        facts = facts_of(pairs)
        (answer,) = facts.answers
        assert (answer.use.name, answer.compared, answer.curve.above) == (LEAD, count, above)
        (line,) = (line for line in lines_of(facts)[0] if label_of(line)[0] == "Curve")
        assert ("corrected for 21 methods" in line) == (count == 21)


def test_a_lead_that_is_not_significant_is_the_highest_and_no_more():
    facts = answer(pomo(), lead(3, UNSURE))
    assert (facts.better, facts.highest, facts.tied) == ([], [LEAD], [LOSS])
    assert (facts.use.name, facts.use.sign, facts.cost.sign) == (LEAD, 0, 0)
    assert not facts.usual_is_highest


def test_better_and_worse_are_sorted_from_the_ends():
    gains = {"centred": 1, "subloo": 2, "rloo": -2, "none": -1}
    rows = [row(("maxk", name, 2), [0, 1, 2, 3 + by], SURE) for name, by in gains.items()]
    facts = answer(pomo(), *rows)
    for methods, sizes, sign in ((facts.better, [2, 1], 1), (facts.worse, [-2, -1], -1)):
        assert [round(each.interval.value) for each in methods] == sizes
        assert {each.sign for each in methods} == {sign}


def test_far_below_is_not_significant_after_correction_and_not_tied():
    """Its interval alone is far from 0; of 29 methods none is beaten so surely as to be worse."""
    others = [
        row(("maxk", f"affine[0.{i}]", k), [0, 1, 2, 3], noise_with(0, -0.001 * (i + k)))
        for i in range(1, 10)
        for k in (1, 2, 4)
    ]
    far = lead(2.262, noise_with(0, 0.36))
    rows = compared([pomo(), far, *others])
    (place,) = places_of(rows, 0.05)
    assert far.key in {each.key for each in place.may_be_best(4)}
    (facts,) = facts_of(rows).answers
    assert [(each.name, each.sign) for each in facts.below] == [(LEAD, 0)]
    assert facts.below[0].interval.high < 0
    assert LEAD not in facts.tied
    assert facts.worse == []


def test_the_reference_itself_may_be_the_highest():
    facts = answer(pomo(), row(CENTRED, [-1, 0, 1, 2], SURE))
    assert (facts.usual_is_highest, facts.highest, facts.value) == (True, [LOSS], 3)
    assert (facts.use, facts.cost, [each.name for each in facts.worse]) == (None, None, [LEAD])
    # As high as another method: the cost of that method is of no use.
    facts = answer(pomo(), row(CENTRED, [-1, 0, 1, 3], SURE), row(SUBLOO, [0, 1, 2, 2], SURE))
    assert (facts.highest, facts.usual_is_highest) == ([LOSS, LEAD], True)
    assert (facts.use, facts.cost) == (None, None)


def test_equal_values_are_all_the_highest():
    rows = [
        row(POMO, [0, 0.5, 0.6, 0.7], noise_with(0, 0.5)),
        row(CENTRED, [0, 0.9, 0.95, 1], 0 * NOISE),
        row(SUBLOO, [0, 0.8, 0.95, 1], 0 * NOISE),
    ]
    facts = answer(*rows)
    assert facts.highest == [LEAD, "maxk subloo for K = 2"]
    assert (facts.value, facts.tied, facts.use.name) == (1, [LOSS], LEAD)
    facts = answer(*rows[1:])
    assert (facts.state, facts.value, facts.better) == ("equal", 1, [])
    assert facts.highest == ["maxk centred", "maxk subloo"]


def test_a_method_with_another_reference_is_not_said_to_beat_the_usual_one():
    """With forced starts it is compared with POMO as shipped."""
    loss, usual = compared([pomo(), row(SUBLOO, [0, 1, 2, 3], UNSURE)])
    third = with_differences_to(row(("maxk", "none", 2), [0, 1, 2, 3], UNSURE), loss, 0.95)
    shipped = pomo(1, start="multistart")
    best = with_differences_to(lead(5, SURE, start="multistart"), shipped, 0.95)
    facts = facts_of([loss, usual, third, with_differences_to(shipped, loss, 0.95), best])
    (place,) = facts.answers
    assert (place.reference, place.use.than) == (LOSS, FORCED)
    assert place.use.interval.value == pytest.approx(4)
    roles = {line.method.partition(" (minus ")[2] for line in facts.table}
    assert roles == {"", f"{FORCED})"}


@pytest.mark.parametrize(
    ("rows", "state", "value"),
    [
        ([unfinished(CENTRED)], "nothing", math.nan),
        ([row(CENTRED, [0, 1, 2, 3])], "alone", 3),
        ([row(CENTRED, [0, 1, 2, 3]), unfinished(SUBLOO)], "alone", 3),
        ([row(CENTRED, [0, 1, 2, 3]), row(SUBLOO, [0, 1, 2, 4])], "unpaired", 4),
    ],
)
def test_what_cannot_be_compared_is_not(rows, state, value):
    facts = facts_of(rows)
    (place,) = facts.answers
    assert (place.state, place.value) == (state, pytest.approx(value, nan_ok=True))
    assert (place.use, place.better, place.worse, facts.next) == (None, [], [], None)
    lacking = [each for each in rows if not each.curve]
    assert labels(facts, rows).count("Missing") == bool(lacking)
    assert labels(facts, rows).count("Use") == 1


def test_a_reference_without_a_value_is_compared_with_nothing():
    reference, subloo = unfinished(POMO), row(SUBLOO, [0, 1, 2, 4])
    rows = [with_differences_to(each, reference, 0.95) for each in (lead(3, NOISE), subloo)]
    facts = facts_of([reference, *rows])
    (place,) = facts.answers
    assert (place.state, place.reference, place.compared) == ("unpaired", LOSS, 0)
    assert (place.highest, place.value) == (["maxk subloo for K = 2"], 4)
    assert facts.basis.comparisons == 0
    # Values, for there are no differences.
    assert [line.at_4.value for line in facts.table] == [4, 3]


def test_one_seed_and_seeds_that_ended_apart_are_caveats():
    single = facts_of(compared([pomo(noise=[0.0]), lead(noise=[0.0])]))
    assert (single.basis.seeds, single.next) == ([0], None)
    assert labels(single).count("Caveat") == 1
    assert "Caveat" not in labels(facts_of(compared([pomo(), lead(4, SURE)])))
    apart = facts_of(compared([pomo(apart=(3,)), lead(4, SURE)]))
    assert apart.answers[0].apart == [LOSS]
    assert "Caveat" in labels(apart)
    assert [line.apart for line in apart.table] == ["3", "3"], "beside the difference, too"


def rated(each, rate):
    return replace(each, key=replace(each.key, setting=(("learning_rate", rate),)))


def facts_of_tuning(*rows):
    return facts(judged(Pooled(rows), level=0.95, alpha=0.05), Origin())


def test_a_tuning_has_the_rate_in_a_column_and_names_the_highest_reference():
    """The reference of each rate; that of the first rate is not the one to use."""
    rates = (0.1, 0.2)
    slow, fast = (rated(pomo(3 + rate, SURE), rate) for rate in rates)
    first, second = (rated(lead(3, UNSURE), rate) for rate in rates)
    tuning = facts_of_tuning(slow, first, fast, second)
    (place,) = tuning.answers
    names = tuple(f"{LOSS} (learning_rate={rate})" for rate in rates)
    assert (place.reference, place.usual) == names
    assert tuning.basis.matched == ["learning rate"]
    assert {(line.method, line.axis_0) for line in tuning.table} == {
        (name, str(rate)) for name in (f"{LOSS} (reference)", LEAD) for rate in rates
    }
    lines, notes = lines_of(tuning)
    assert lines[0].startswith(f"Use: {names[1]}. ")
    matched = "Δ: minus the reference with the same learning rate"
    assert any(note.startswith(matched) for note in notes)


def test_a_lead_over_a_low_reference_is_no_reason_to_use_it():
    tuning = facts_of_tuning(
        rated(pomo(), 0.1), rated(lead(4, SURE), 0.1), rated(pomo(5, SURE), 0.2)
    )
    (place,) = tuning.answers
    assert [each.name for each in place.better] == ["maxk centred (learning_rate=0.1) for K = 2"]
    assert (place.use, place.usual) == (None, f"{LOSS} (learning_rate=0.2)")


def test_a_lead_that_is_gone_at_the_own_best_temperature_is_not_significant():
    pair = compared([pomo(), lead(4, SURE)])

    def tuned(pair_at_their_best):
        own = zip(pair, pair_at_their_best, strict=True)
        return facts_of([decoded(each, **{OWN_TEMPERATURE: best}) for each, best in own])

    gone = tuned(compared([pomo(4), lead(4, UNSURE)]))
    (caveat,) = (line for line in lines_of(gone)[0] if line.startswith("Caveat: with each policy"))
    assert caveat.endswith(", not significant after correction for 3 comparisons.")
    (place,) = gone.answers
    assert (place.use.sign, place.tuned.sign) == (1, 0)
    assert_same(place.tuned.interval, UNSURE - NOISE)
    (place,) = tuned(pair).answers
    assert place.tuned == place.use


def test_in_pomos_way_its_loss_and_pomo_as_shipped_share_the_level():
    reference = as_pomo(pomo(), 5 + NOISE)
    shipped = as_pomo(pomo(2.9, start="multistart"), 6 + noise_with(0, 0.5))
    best = as_pomo(lead(4, SURE), 6 + SURE)
    rivals = answer(reference, shipped, best).pomo
    assert [(rival.name, rival.than, rival.sign) for rival in rivals] == [
        (LEAD, LOSS, 1),
        (LEAD, FORCED, 0),
    ]
    assert_same(rivals[0].interval, 1 + SURE - NOISE)
    assert [rival.than for rival in answer(reference, best).pomo] == [LOSS]
    # One difference, which is significant alone, and not at half of the level.
    noise = noise_with(0.34, 0.3)
    assert 0.05 / 2 < 2 * stats.ttest_1samp(noise - NOISE, 0).pvalue < 2 * 0.05
    close = as_pomo(lead(4, SURE), 5 + noise)
    assert answer(reference, close).pomo[0].sign == 1
    assert answer(reference, shipped, close).pomo[0].sign == 0


def test_gaps_are_stated_if_the_reference_has_one_too():
    gaps = {4: seed_mean(20 + NOISE, 0.95)}
    optimum = Optima(kind="milp", exact=True)
    rows = [with_optima(each, 5.0, optimum, gaps) for each in (pomo(), lead(4, SURE))]
    place = answer(*rows)
    assert (place.gaps, place.tuned_gaps) == ((gaps[4], gaps[4]), None)
    tuned = answer(*(decoded(each, **{OWN_TEMPERATURE: each}) for each in rows))
    assert tuned.tuned_gaps == (gaps[4], gaps[4])
    for lost in ({}, {4: seed_mean([math.nan] * 5, 0.95)}):
        facts = facts_of(compared([with_ends(rows[0], gaps=lost), rows[1]]))
        assert facts.answers[0].gaps is None
        assert facts.table[1].gap is None


def proposed(gain, spread, **origin):
    """The proposal for a lead of this size."""
    return facts_of(compared([pomo(), lead(3, noise_with(gain, spread))]), **origin).next


def test_more_seeds_are_proposed_where_few_would_settle_it():
    """By hand: the half width at the level of one of three differences shrinks as 1 / sqrt(S)."""
    differences = noise_with(0.3, 0.4) - NOISE
    half = stats.sem(differences) * stats.t.ppf(1 - 0.05 / 3 / 2, 4)
    more = math.ceil(5 * (half / differences.mean()) ** 2)
    assert 5 < more <= 20
    proposal = proposed(0.3, 0.4, seconds={"training": 300.0})
    assert proposal.seeds == list(range(more))
    # Five seeds took 300 seconds.
    assert proposal.seconds == pytest.approx(300 * (more - 5) / 5)
    assert proposed(0.3, 0.4).seconds is None
    assert proposed(0.05, 0.4) is None, "too many seeds"
    assert proposed(-0.3, 0.4) is None, "the reference is the highest"
    assert proposed(0.3, 0.01) is None, "it is settled"


def test_the_basis_of_the_numbers():
    bent = {"start": "multistart", "entropy_bonus": 0.1}
    rows = []
    for point, steps, settings in ((POMO, 100, {}), (CENTRED, 120, bent)):
        fields = {"last": (80, 90), "steps": steps, "rollouts": 16 * steps}
        trained = row(point, [-4, -3, -2, -1], SURE, **fields)
        rows.append(replace(trained, settings=Settings(max_grad_norm=1.0, **settings)))
    basis = facts_of(compared(rows)).basis
    assert (basis.steps, basis.rollouts, basis.averaged) == ([100, 120], [1600, 1920], [80, 90])
    assert (basis.instances, basis.samples, basis.ks) == ([5], 64, [1, 2, 4])
    assert (basis.costs, basis.multistart) == (True, True)
    assert (basis.bent, basis.sometimes_bent) == (["max_grad_norm 1.0"], ["entropy_bonus 0.1"])
    plain = facts_of([pomo()]).basis
    assert (plain.costs, plain.averaged) == (False, [])


def test_nothing_finished_has_no_table(tsp):
    report = make_report(tsp.cells(), [], name="it")
    rows = report.studies["training"]
    unmeasured = facts(rows, report.origin)
    assert (unmeasured.table, unmeasured.basis.instances) == ([], [32])
    assert [place.state for place in unmeasured.answers] == ["nothing"]
    assert set(labels(unmeasured, rows.rows)) == {"Missing", "Use"}
