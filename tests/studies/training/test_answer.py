"""The facts of a training study: none is stronger than hand-made rows allow."""

import math
from dataclasses import replace

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
    noise_with,
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
from maxk_lab.studies.training.answer import facts
from maxk_lab.studies.training.differences import with_differences_to
from maxk_lab.studies.training.record import Optima
from maxk_lab.studies.training.row import OWN_TEMPERATURE
from maxk_lab.studies.training.table import judged, places_of
from maxk_lab.sweep_file.studies import STUDIES
from maxk_lab.training.settings import Settings

TOLD = "maxk centred for K = 2"
LOSS = "POMO's loss"
# A lead that some seeds do not have, and one that all have.
UNSURE, SURE = noise_with(0.05, 0.4), noise_with(0, 0.01)


def answer(*rows):
    """The answer of the one place of these rows, the first of which others are compared with."""
    (found,) = facts_of(compared(rows)).answers
    return found


def labels(found, rows=()):
    """The labels of the lines that are made of these facts; filling the template fails on none."""
    lines, _ = filled(STUDIES.get("training"), found, rows)
    return [label_of(line)[0] for line in lines]


def numbers(difference):
    return difference.interval.value, difference.interval.low, difference.interval.high


def test_a_significant_lead_has_its_size_its_interval_and_its_cost():
    found = answer(row(POMO, [0, 1, 2, 3]), row(CENTRED, [-1, 1, 2.5, 4], SURE))
    wanted = seed_mean(SURE - NOISE, 0.95)
    ends = wanted.low, wanted.high
    assert (found.state, found.top, found.reference, found.compared) == ("compared", 4, LOSS, 1)
    assert found.better == [found.use]
    assert (found.use.name, found.use.than, found.use.sign) == (TOLD, LOSS, 1)
    assert numbers(found.use) == pytest.approx((1, 1 + ends[0], 1 + ends[1]))
    assert numbers(found.cost) == pytest.approx((-1, -1 + ends[0], -1 + ends[1]))
    assert (found.cost.sign, found.tied, found.worse, found.below) == (-1, [], [], [])
    assert (found.tuned, found.pomo, found.gaps) == (None, [], None)
    # One that is not significant is the highest and no more.
    found = answer(row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 3], UNSURE))
    assert (found.better, found.highest, found.tied) == ([], [TOLD], [LOSS])
    assert (found.use.name, found.use.sign, found.cost.sign) == (TOLD, 0, 0)
    assert not found.usual_is_highest


def test_better_and_worse_are_sorted_from_the_ends():
    points = [("maxk", name, 2) for name in ("centred", "subloo", "rloo", "none")]
    rows = [row(p, [0, 1, 2, 3 + by], SURE) for p, by in zip(points, (1, 2, -2, -1), strict=True)]
    found = answer(row(POMO, [0, 1, 2, 3]), *rows)
    assert [(round(one.interval.value), one.sign) for one in found.better] == [(2, 1), (1, 1)]
    assert [(round(one.interval.value), one.sign) for one in found.worse] == [(-2, -1), (-1, -1)]


def test_far_below_is_not_significant_after_correction_and_not_tied():
    """Its interval alone is far from 0; of 29 methods none is beaten so surely as to be worse."""
    others = [
        row(("maxk", f"affine[0.{i}]", k), [0, 1, 2, 3], noise_with(0, -0.001 * (i + k)))
        for i in range(1, 10)
        for k in (1, 2, 4)
    ]
    far = row(CENTRED, [0, 1, 2, 2.262], noise_with(0, 0.36))
    rows = compared([row(POMO, [0, 1, 2, 3]), far, *others])
    (place,) = places_of(rows, 0.95)
    assert far.key in {each.key for each in place.may_be_best(4)}
    found = answer(*rows)
    assert [(one.name, one.sign) for one in found.below] == [(TOLD, 0)]
    assert found.below[0].interval.high < 0
    assert TOLD not in found.tied
    assert found.worse == []


def test_the_reference_itself_may_be_the_highest():
    found = answer(row(POMO, [0, 1, 2, 3]), row(CENTRED, [-1, 0, 1, 2], SURE))
    assert (found.usual_is_highest, found.highest, found.value) == (True, [LOSS], 3)
    assert (found.use, found.cost, [one.name for one in found.worse]) == (None, None, [TOLD])
    # As high as another: what that one costs is of no use.
    lower = row(SUBLOO, [0, 1, 2, 2], SURE)
    found = answer(row(POMO, [0, 1, 2, 3]), row(CENTRED, [-1, 0, 1, 3], SURE), lower)
    assert (found.highest, found.usual_is_highest) == ([LOSS, TOLD], True)
    assert (found.use, found.cost) == (None, None)


def test_equal_values_are_all_the_highest():
    rows = [
        row(POMO, [0, 0.5, 0.6, 0.7], noise_with(0, 0.5)),
        row(CENTRED, [0, 0.9, 0.95, 1], 0 * NOISE),
        row(SUBLOO, [0, 0.8, 0.95, 1], 0 * NOISE),
    ]
    found = answer(*rows)
    assert found.highest == [TOLD, "maxk subloo for K = 2"]
    assert (found.value, found.tied, found.use.name) == (1, [LOSS], TOLD)
    found = answer(*rows[1:])
    assert (found.state, found.value, found.better) == ("equal", 1, [])
    assert found.highest == ["maxk centred", "maxk subloo"]


def test_a_method_with_another_reference_is_not_said_to_beat_the_usual_one():
    """With forced starts it is compared with POMO as shipped."""
    loss, usual, *_ = compared([row(POMO, [0, 1, 2, 3]), row(SUBLOO, [0, 1, 2, 3], UNSURE)])
    third = with_differences_to(row(("maxk", "none", 2), [0, 1, 2, 3], UNSURE), loss, 0.95)
    shipped = row(POMO, [0, 1, 2, 1], start="multistart")
    lead = with_differences_to(row(CENTRED, [0, 1, 2, 5], SURE, "multistart"), shipped, 0.95)
    shipped = with_differences_to(shipped, loss, 0.95)
    found = facts_of([loss, usual, third, shipped, lead])
    (one,) = found.answers
    assert (one.reference, one.use.than) == (LOSS, "POMO as shipped (start=forced)")
    assert one.use.interval.value == pytest.approx(4)
    assert {line.method.partition(" (minus ")[2] for line in found.table} == {
        "",
        "POMO as shipped (start=forced))",
    }


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
    found = facts_of(rows)
    (one,) = found.answers
    assert (one.state, one.value) == (state, pytest.approx(value, nan_ok=True))
    assert (one.use, one.better, one.worse, found.next) == (None, [], [], None)
    lacking = [each for each in rows if not each.curve]
    assert labels(found, rows).count("Missing") == bool(lacking)
    assert labels(found, rows).count("Use") == 1


def test_a_reference_without_a_value_is_compared_with_nothing():
    reference = unfinished(POMO)
    rows = [row(CENTRED, [0, 1, 2, 3]), row(SUBLOO, [0, 1, 2, 4])]
    found = facts_of([reference, *(with_differences_to(each, reference, 0.95) for each in rows)])
    (one,) = found.answers
    assert (one.state, one.reference, one.compared) == ("unpaired", LOSS, 0)
    assert (one.highest, one.value) == (["maxk subloo for K = 2"], 4)
    assert found.basis.comparisons == 0
    # Values, for there are no differences.
    assert [line.at_4.value for line in found.table] == [4, 3]


def test_one_seed_is_said_and_proposes_no_more():
    found = facts_of(compared([row(POMO, [0, 1, 2, 3], [0.0]), row(CENTRED, [0, 1, 2, 4], [0.0])]))
    assert (found.basis.seeds, found.next) == ([0], None)
    assert labels(found).count("Caveat") == 1
    several = facts_of(compared([row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 4], SURE)]))
    assert "Caveat" not in labels(several)


def test_a_seed_that_ended_apart_is_named_with_its_row():
    rows = row(POMO, [0, 1, 2, 3], apart=(3,)), row(CENTRED, [0, 1, 2, 4], SURE)
    found = facts_of(compared(rows))
    assert found.answers[0].apart == [LOSS]
    assert "Caveat" in labels(found)
    assert [line.apart for line in found.table] == ["3", "3"], "beside the difference, too"


def rated(point, values, rate, noise=NOISE):
    each = row(point, values, noise)
    return replace(each, key=replace(each.key, setting=(("learning_rate", rate),)))


def test_a_tuning_has_the_rate_in_a_column_and_names_the_highest_reference():
    """The reference of each rate; that of the first rate is not the one to use."""
    slow, fast = (rated(POMO, [0, 1, 2, 3 + rate], rate, SURE) for rate in (0.1, 0.2))
    lead, lag = (rated(CENTRED, [0, 1, 2, 3], rate, UNSURE) for rate in (0.1, 0.2))
    rows = judged(Pooled((slow, lead, fast, lag)), level=0.95, alpha=0.05)
    found = facts(rows, Origin())
    (one,) = found.answers
    assert (one.reference, one.usual) == (
        f"{LOSS} (learning_rate=0.1)",
        f"{LOSS} (learning_rate=0.2)",
    )
    assert found.basis.matched == ["learning rate"]
    lines = {(line.method, line.axis_0) for line in found.table}
    assert lines == {(f"{LOSS} (reference)", rate) for rate in ("0.1", "0.2")} | {
        (TOLD, rate) for rate in ("0.1", "0.2")
    }
    words, notes = filled(STUDIES.get("training"), found, ())
    assert words[0].startswith(f"Use: {LOSS} (learning_rate=0.2). ")
    assert any(
        note.startswith("Δ: minus the reference with the same learning rate") for note in notes
    )


def test_a_lead_over_a_low_reference_is_no_reason_to_use_it():
    slow, fast = rated(POMO, [0, 1, 2, 3], 0.1), rated(POMO, [0, 1, 2, 5], 0.2, SURE)
    lead = rated(CENTRED, [0, 1, 2, 4], 0.1, SURE)
    (one,) = facts(judged(Pooled((slow, lead, fast)), level=0.95, alpha=0.05), Origin()).answers
    assert [each.name for each in one.better] == ["maxk centred (learning_rate=0.1) for K = 2"]
    assert (one.use, one.usual) == (None, f"{LOSS} (learning_rate=0.2)")


def test_a_lead_that_is_gone_at_the_own_best_temperature_is_not_significant():
    reference, lead = compared([row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 4], SURE)])
    cool, hot = compared([row(POMO, [0, 1, 2, 4]), row(CENTRED, [0, 1, 2, 4], UNSURE)])

    def at_their_best(*best):
        rows = zip((reference, lead), best, strict=True)
        own = [decoded(row, **{OWN_TEMPERATURE: tuned}) for row, tuned in rows]
        (answer_of_both,) = facts_of(own).answers
        return answer_of_both

    lines, _ = filled(
        STUDIES.get("training"),
        facts_of([decoded(reference, own_temperature=cool), decoded(lead, own_temperature=hot)]),
        (),
    )
    (caveat,) = (line for line in lines if line.startswith("Caveat: with each policy"))
    assert caveat.endswith(", not significant after correction for 3 comparisons.")
    found = at_their_best(cool, hot)
    wanted = seed_mean(UNSURE - NOISE, 0.95)
    assert (found.use.sign, found.tuned.sign) == (1, 0)
    assert numbers(found.tuned) == pytest.approx((wanted.value, wanted.low, wanted.high))
    held = at_their_best(reference, lead)
    assert held.tuned == held.use


def test_in_pomos_way_its_loss_and_pomo_as_shipped_share_the_level():
    reference = as_pomo(row(POMO, [0, 1, 2, 3]), 5 + NOISE)
    shipped = as_pomo(row(POMO, [0, 1, 2, 2.9], start="multistart"), 6 + noise_with(0, 0.5))
    lead = as_pomo(row(CENTRED, [0, 1, 2, 4], SURE), 6 + SURE)
    found = answer(reference, shipped, lead).pomo
    assert [(one.than, one.sign) for one in found] == [
        (LOSS, 1),
        ("POMO as shipped (start=forced)", 0),
    ]
    wanted = seed_mean(1 + SURE - NOISE, 0.95)
    assert numbers(found[0]) == pytest.approx((wanted.value, wanted.low, wanted.high))
    assert {one.name for one in found} == {TOLD}
    assert [one.than for one in answer(reference, lead).pomo] == [LOSS]
    # One difference, which is significant alone, and not at half of the level.
    noise = noise_with(0.34, 0.3)
    p_value = stats.ttest_1samp(noise - NOISE, 0).pvalue
    assert 2 * p_value > 0.05 / 2
    assert p_value < 0.05
    close = as_pomo(row(CENTRED, [0, 1, 2, 4], SURE), 5 + noise)
    assert answer(reference, close).pomo[0].sign == 1
    assert answer(reference, shipped, close).pomo[0].sign == 0


def test_gaps_are_told_of_a_method_where_the_reference_has_one_too():
    gaps = {4: seed_mean(20 + NOISE, 0.95)}
    optimum = Optima(kind="milp", exact=True)
    rows = [
        with_optima(row(point, values, noise), 5.0, optimum, gaps)
        for point, values, noise in ((POMO, [0, 1, 2, 3], NOISE), (CENTRED, [0, 1, 2, 4], SURE))
    ]
    assert answer(*rows).gaps == (gaps[4], gaps[4])
    assert answer(*rows).tuned_gaps is None
    own = [decoded(row, **{OWN_TEMPERATURE: row}) for row in rows]
    assert answer(*own).tuned_gaps == (gaps[4], gaps[4])
    for lost in ({}, {4: seed_mean([math.nan] * 5, 0.95)}):
        found = facts_of(compared([with_ends(rows[0], gaps=lost), rows[1]]))
        assert found.answers[0].gaps is None
        assert found.table[1].gap is None


def proposed(gain, spread, **changed):
    """What is proposed for a lead of this size."""
    rows = compared([row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 3], noise_with(gain, spread))])
    return facts_of(rows, **changed).next


def test_more_seeds_are_proposed_where_few_would_settle_it():
    """By hand: the half width at the level of one of three differences shrinks as 1 / sqrt(S)."""
    lead = noise_with(0.3, 0.4) - NOISE
    half = stats.sem(lead) * stats.t.ppf(1 - 0.05 / 3 / 2, 4)
    more = math.ceil(5 * (half / lead.mean()) ** 2)
    assert 5 < more <= 20
    found = proposed(0.3, 0.4, seconds={"training": 300.0})
    assert found.seeds == list(range(more))
    # Five seeds took 300 seconds.
    assert found.seconds == pytest.approx(300 * (more - 5) / 5)
    assert proposed(0.3, 0.4).seconds is None
    assert proposed(0.05, 0.4) is None, "too many seeds"
    assert proposed(-0.3, 0.4) is None, "the reference is the highest"
    assert proposed(0.3, 0.01) is None, "it is settled"


def test_the_basis_of_the_numbers():
    own = {"start": "multistart", "entropy_bonus": 0.1}
    rows = compared(
        [
            replace(
                row(point, [-4, -3, -2, -1], SURE, last=(80, 90), steps=steps, rollouts=16 * steps),
                settings=Settings(max_grad_norm=1.0, **settings),
            )
            for point, steps, settings in ((POMO, 100, {}), (CENTRED, 120, own))
        ]
    )
    basis = facts_of(rows).basis
    assert (basis.steps, basis.rollouts, basis.averaged) == ([100, 120], [1600, 1920], [80, 90])
    assert (basis.instances, basis.samples, basis.ks) == ([5], 64, [1, 2, 4])
    assert (basis.costs, basis.multistart) == (True, True)
    assert (basis.bent, basis.sometimes_bent) == (["max_grad_norm 1.0"], ["entropy_bonus 0.1"])
    plain = facts_of([row(POMO, [0, 1, 2, 3])])
    assert (plain.basis.costs, plain.basis.averaged) == (False, [])


def test_nothing_finished_has_no_table(tsp):
    summary = make_report(tsp.cells(), [], name="it")
    found = facts(summary.studies["training"], summary.origin)
    assert found.table == []
    assert [one.state for one in found.answers] == ["nothing"]
    assert found.basis.instances == [32]
    assert set(labels(found, summary.studies["training"].rows)) == {"Missing", "Use"}
