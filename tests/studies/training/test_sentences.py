"""The answer of a training study: no sentence is stronger than hand-made rows allow."""

from dataclasses import replace

import numpy as np
import pytest
from maxk_lab.studies.training.section.answer import answer, foremost
from maxk_lab.studies.training.section.answer.place import places_of
from maxk_lab.studies.training.section.corrected import beside

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.ranges import SHARES
from maxk_lab.statistics.seeds.over_seeds import over_instances, over_seeds
from maxk_lab.studies.training.ending.measures import gap_difference
from maxk_lab.studies.training.ending.ways import POMO_WAY
from maxk_lab.studies.training.row.comparison import difference, with_differences_to
from maxk_lab.studies.training.row.model import (
    Apart,
    Measures,
    Optimum,
    Trained,
    TrainingKey,
    TrainingRow,
    Way,
)
from maxk_lab.training.settings import Settings

POMO = ("reinforce", "group_mean", 1)
CENTRED = ("maxk", "centred", 2)
SUBLOO = ("maxk", "subloo", 2)
KS = (1, 2, 4)
# Noise of five seeds whose mean is 0.
NOISE = np.array([-0.02, -0.01, 0.0, 0.01, 0.02])


def row(point, values, noise=NOISE, start="iid", **fields):
    """A row whose Max@K are `values` at K = 1, 2, 3, 4, with this noise of the seeds."""
    estimator, baseline, k = point
    setting = (("start", start),) if start != "iid" else ()
    key = TrainingKey(
        environment=fields.pop("environment", "tsp"),
        estimator=estimator,
        baseline=baseline,
        n=4,
        k=k,
        setting=setting,
    )
    curves = np.asarray(values)[None, :] + np.asarray(noise)[:, None]
    one = len(curves) == 1
    # Of one seed the intervals are over its instances.
    spread = np.array([-0.03, -0.01, 0.0, 0.01, 0.03]) if one else np.zeros(5)
    seeds = {
        seed: Trained(
            tuple(curve), {k: tuple(curve[k - 1] + spread) for k in KS}, **fields.pop("seed", {})
        )
        for seed, curve in enumerate(curves)
    }
    return TrainingRow(
        key=key,
        cells=dict.fromkeys(seeds, "cell"),
        finished=tuple(seeds),
        catalogued_unbiased=True,
        settings=Settings(start=start),
        ks=KS,
        curve=tuple(
            over_instances(of[0] + spread, 0.95) if one else over_seeds(of, 0.95) for of in curves.T
        ),
        by_seed=seeds,
        environment_words=fields.pop("words", "TSP with 20 cities"),
        **fields,
    )


def unfinished(point):
    """A row without a value."""
    estimator, baseline, k = point
    return TrainingRow(
        key=TrainingKey(environment="tsp", estimator=estimator, baseline=baseline, n=4, k=k),
        cells={0: "a", 1: "b"},
        finished=(0,),
        catalogued_unbiased=True,
        settings=Settings(),
        reason="incomplete: 1 of 2 seeds finished",
    )


def compared(rows):
    """The rows with their differences to the first of their environment."""
    firsts = {}
    for each in rows:
        firsts.setdefault(each.key.environment, each)
    return tuple(
        each
        if firsts[each.key.environment] is each
        else with_differences_to(each, firsts[each.key.environment], 0.95)
        for each in rows
    )


def said(*rows):
    """The sentences about these rows, the first of which the others are compared with."""
    return answer(places_of(compared(rows), 0.95), 0.95)


def noise_with(gain, spread):
    """Noise of the seeds by which a row is ahead by `gain`, give or take so much."""
    return NOISE + gain + spread * np.array([1, -1, 0, 0.5, -0.5])


def test_a_lead_that_is_told_has_its_size_interval_and_correction():
    first, *_, last = sentences = said(
        row(POMO, [0, 1, 2, 3]), row(CENTRED, [-1, 1, 2.5, 4], noise_with(0, 0.01))
    )
    assert first.startswith(
        "At Max@4, the best of 4 samples, one method is told to be better than POMO's loss: "
        "maxk centred for K = 2 (by 1.00 ["
    )
    assert "In the mean, maxk centred for K = 2 differs by -1.00 [" in " ".join(sentences)
    assert "(told to be worse); the highest mean is that of POMO's loss, ahead" in " ".join(
        sentences
    )
    assert last.startswith(
        "Told of policies that are sampled as trained: at a level of 5% for the whole study, "
        "corrected for its 3 differences at K = 1, 2 and 4 (Holm), over 5 seeds."
    )
    assert "Who may be best has 5% of its own for its list, of every method against" in last
    assert "other way of decoding" not in last


def test_a_headline_has_room_for_two_and_the_others_are_told_after_it():
    points = [("maxk", name, 2) for name in ("centred", "subloo", "rloo")]
    rows = [row(p, [0, 1, 2, 4 + i], noise_with(0, 0.01)) for i, p in enumerate(points)]
    two, three = (said(row(POMO, [0, 1, 2, 3]), *rows[:count]) for count in (2, 3))
    assert "2 of 2 methods are told to be better than POMO's loss: maxk subloo for" in two[0]
    assert " and maxk centred for K = 2 (by 1.00 [" in two[0]
    assert "POMO's loss: the largest difference is that of maxk rloo for K = 2 (by 3.00" in three[0]
    assert three[1].startswith("Better there, too: maxk subloo for K = 2 (by 2.00 [")
    assert "maxk centred for K = 2 (by 1.00 [" in three[1]


def test_points_of_a_curve_between_those_asked_for_take_no_power():
    noise = noise_with(0, 0.1)
    rows = compared([row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 3.1], noise)])
    (place,) = places_of(rows, 0.95)
    assert place.ks == [1, 2, 4]
    for_mean = row(("maxk", "centred", 1), [0, 1, 2, 3.1], noise)
    wider = compared([row(POMO, [0, 1, 2, 3]), for_mean])
    assert (place.told.comparisons, places_of(wider, 0.95)[0].told.comparisons) == (3, 2)


def test_a_lead_whose_interval_is_above_zero_is_not_told_without_the_correction():
    others = [
        row(("maxk", name, k), [0, 1, 2, 3], noise_with(0, 0.4))
        for name in ("none", "rloo", "pkpo_sloo")
        for k in (2, 4)
    ]
    lead = row(CENTRED, [0, 1, 2, 3], noise_with(0.2, 0.09))
    alone, among = said(row(POMO, [0, 1, 2, 3]), lead), said(row(POMO, [0, 1, 2, 3]), lead, *others)
    assert "one method is told to be better" in alone[0]
    assert "no method is told to be better than POMO's loss: the highest, maxk centred" in among[0]
    assert "for K = 2, is ahead by 0.200 [" in among[0]
    assert among[0].endswith(
        "whose interval is above 0, but not with a correction for 21 comparisons."
    )
    assert "Which is best there is open: maxk centred for K = 2 has the highest value" in among[1]


def test_equal_values_are_not_called_one_best():
    first, second, *_ = said(
        row(POMO, [0, 0.5, 0.6, 0.7], noise_with(0, 0.5)),
        row(CENTRED, [0, 0.9, 0.95, 1], 0 * NOISE),
        row(SUBLOO, [0, 0.8, 0.95, 1], 0 * NOISE),
    )
    assert "maxk centred for K = 2 and maxk subloo for K = 2" in first
    assert "all with 1.00 (without an interval), ahead by" in first
    assert (
        "have the highest value, and not told apart from them is one other: POMO's loss (by "
        in second
    )


def test_the_reference_itself_may_be_the_highest():
    first, *rest = said(row(POMO, [0, 1, 2, 3]), row(CENTRED, [-1, 0, 1, 2], noise_with(0, 0.01)))
    assert first.endswith("than POMO's loss, which is itself the highest with 3.00 [2.98, 3.02].")
    assert rest[0].startswith("Told to be worse: maxk centred for K = 2 (by -1.00 [")
    assert rest[1] == (
        "The highest there, POMO's loss, is told to be best: each of the others is told to be "
        "worse than some method."
    )


def test_one_seed_says_nothing_of_other_trainings():
    first, *_, last = said(row(POMO, [0, 1, 2, 3], [0.0]), row(CENTRED, [0, 1, 2, 4], [0.0]))
    assert first.startswith("Of one training each, which says nothing of others: at Max@4,")
    assert "over the held-out instances of the one seed: another training may end" in last
    assert "5 seeds" not in last


def test_rows_without_all_seeds_are_named_and_not_judged():
    rows = compared([row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 4])])
    found = answer(places_of((*rows, unfinished(SUBLOO)), 0.95), 0.95)
    assert found[0] == (
        "Without a value: maxk subloo for K = 2 (incomplete: 1 of 2 seeds finished); what follows "
        "is of the others alone."
    )
    assert not [line for line in found if "subloo" in line and "Without" not in line]


def test_nothing_is_told_against_a_reference_without_a_value():
    reference = unfinished(POMO)
    rows = [row(CENTRED, [0, 1, 2, 3]), row(SUBLOO, [0, 1, 2, 4])]
    rows = [with_differences_to(each, reference, 0.95) for each in rows]
    found = answer(places_of((reference, *rows), 0.95), 0.95)
    assert found[0].startswith("Without a value: POMO's loss (incomplete: 1 of 2 seeds finished);")
    assert found[1] == "Nothing can be told against POMO's loss, which has no value."
    assert found[2].startswith("The highest Max@4 so far is that of maxk subloo for K = 2: 4.00 [")
    assert not [line for line in found if "told to be better than POMO" in line]
    assert found[-1].startswith("Who may be best has 5% of its own for its list")


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([unfinished(CENTRED)], "Nothing can be said yet: none of 1 methods has all of its seeds."),
        ([row(CENTRED, [0, 1, 2, 3])], "The only method with a value, maxk centred, ends at Max@4"),
    ],
)
def test_what_cannot_be_compared_is_not(rows, wanted):
    first, *rest = answer(places_of(tuple(rows), 0.95), 0.95)
    assert first.startswith(wanted)
    assert not [line for line in rest if "better" in line]


def test_no_rows_have_no_answer():
    assert answer(places_of((), 0.95), 0.95) == ()


def test_several_environments_share_one_correction():
    """A lead that is told alone is not told among many environments without one."""

    def pair(name, gain):
        where = {"environment": name, "words": name.upper()}
        return [
            row(POMO, [0, 1, 2, 3], **where),
            row(CENTRED, [0, 1, 2, 3], noise_with(gain, 0.1), **where),
        ]

    alone = said(*pair("tsp", 0.2))
    assert "one method is told to be better" in alone[0]
    many = said(*pair("tsp", 0.2), *(each for i in range(9) for each in pair(f"op{i}", 0.0)))
    assert many[0] == (
        "At Max@4, the best of all samples, some method is told to be better than POMO's loss in "
        "none of 10 environments, and some method to be worse in none."
    )
    few = said(*pair("tsp", 0.9), *pair("op", 0.0), *pair("pdp", -0.9))
    assert (
        "better than POMO's loss in 1 of 3 environments, and some method to be worse in 1" in few[0]
    )
    assert few[1].startswith(
        "TSP: maxk centred for K = 2 is told to be better in the mean, at Max@2"
    )
    assert few[2].startswith("PDP: maxk centred for K = 2 is told to be worse")
    assert few[3].startswith("OP: nothing is told apart. In the mean maxk centred for K = 2 (by ")


def test_a_place_without_a_verdict_has_the_side_and_the_size_of_its_differences():
    """Of 24 comparisons a loss is not told that five seeds show each on their own."""

    def pair(name, gain):
        where = {"environment": name, "words": name.upper()}
        lost = row(CENTRED, [0, 1, 2, 3], noise_with(gain, 0.1), **where)
        return [row(POMO, [0, 1, 2, 3], **where), lost]

    found = said(*pair("cvrp", -0.1), *(each for i in range(7) for each in pair(f"op{i}", 0.0)))
    (line,) = [each for each in found if each.startswith("CVRP: nothing is told apart. ")]
    assert "Below POMO's loss at every K asked for: maxk centred for K = 2. In the mean" in line
    assert "at Max@4 maxk centred for K = 2 (by -0.100 [" in line
    corrected = over_seeds(0.1 * np.array([1, -1, 0, 0.5, -0.5]), 1 - 0.05 / 24)
    size = f"about {corrected.high:.3g} in the mean and {corrected.high:.3g} at Max@4"
    assert line.endswith(f"Of 5 seeds that spread as these do, {size} would have been told.")


def tempered(each, values, noise):
    """The row with what it has at its own best temperature."""
    start = each.settings.start
    point = each.key.estimator, each.key.baseline, each.key.k
    return row(point, values, noise, start)


def test_a_lead_that_is_gone_at_the_own_best_temperature_says_so():
    reference, lead = compared([row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 4])])
    cool, hot = compared(
        [
            tempered(reference, [0, 1, 2, 4], NOISE),
            tempered(lead, [0, 1, 2, 4], noise_with(0.05, 0.4)),
        ]
    )

    rows = replace(reference, tempered=cool), replace(lead, tempered=hot)
    found = " ".join(answer(places_of(rows, 0.95), 0.95))
    assert "no method is told to be better than POMO's loss at Max@4; maxk centred for" in found
    assert "told at a level of 5% for 3 differences of its own)" in found
    assert "The lead of maxk centred for K = 2 at temperature 1 is thus not told" in found
    held = replace(reference, tempered=reference), replace(lead, tempered=lead)
    found = " ".join(answer(places_of(held, 0.95), 0.95))
    assert "one method is told to be better than POMO's loss at Max@4: maxk centred" in found
    assert "temperature alone" not in found


def decoded(each, values):
    """The row with a reward per seed in POMO's own way of decoding."""

    ways = [{POMO_WAY: Way((value, value), 160, None)} for value in values]
    seeds = {s: replace(each.by_seed[s], ways=way) for s, way in enumerate(ways)}
    measures = Measures(Optimum("none", reason="not asked for"), {}, {}, {}, {POMO_WAY: 160})
    return replace(each, by_seed=seeds, measures=measures)


def test_pomos_own_way_is_told_of_its_loss_and_of_pomo_as_shipped():
    reference = decoded(row(POMO, [0, 1, 2, 3]), 5 + NOISE)
    shipped = decoded(row(POMO, [0, 1, 2, 2.9], start="multistart"), 6 + noise_with(0, 0.5))
    lead = decoded(row(CENTRED, [0, 1, 2, 4]), 6 + noise_with(0, 0.01))
    found = " ".join(answer(places_of(compared([reference, shipped, lead]), 0.95), 0.95))
    assert "× 8 augmentations; 160 trajectories an instance; told at a level of 5%" in found
    assert "5% for 4 differences of its own), maxk centred for K = 2 differs" in found
    assert "every other, and so has each other way of decoding, as is said there." in found
    assert "differs from POMO's loss by 1.00 [" in found
    assert "] (told to be better) and from POMO as shipped (start=multistart) by " in found
    assert found.split("(start=multistart) by ")[1].split(")")[0].endswith("(not told apart")


def test_the_gap_to_the_optimum_is_paired():

    def known(each, gap):
        seeds = {
            s: replace(of, optima=(5.0,) * 5, per_instance={k: (of.curve[k - 1],) * 5 for k in KS})
            for s, of in each.by_seed.items()
        }
        gaps = {4: over_seeds([gap, gap + 1, gap - 1], 0.95)}
        return replace(each, by_seed=seeds, measures=Measures(Optimum("milp", True), {}, {}, gaps))

    rows = compared([known(row(POMO, [0, 1, 2, 3]), 40), known(row(CENTRED, [0, 1, 2, 4]), 20)])
    (line,) = [each for each in answer(places_of(rows, 0.95), 0.95) if "gap" in each]
    assert line.startswith("The gap to the optimum at Max@4 is 20.0 [")
    assert "after maxk centred for K = 2 and 40.0 [" in line
    assert "(paired difference -20.0 [" in line
    assert line.endswith("optimum by a mixed-integer program (exact).")


def test_a_gap_of_passes_is_their_share_of_failures_to_the_end_of_its_interval():
    """Both are one quantity, so their intervals are, too."""

    def exact(each):
        seeds = {
            s: replace(of, optima=(1.0,) * 5, per_instance={k: (of.curve[k - 1],) * 5 for k in KS})
            for s, of in each.by_seed.items()
        }
        measures = Measures(Optimum("enumeration", True), {}, {}, {})
        return replace(each, by_seed=seeds, measures=measures)

    fields = {"within": SHARES, "passes": True}
    low, high = (
        exact(row(point, [0.1, 0.2, 0.3, value], noise, **fields))
        for point, value, noise in ((POMO, 0.4, 10 * NOISE), (CENTRED, 0.98, 0.5 * NOISE[::-1]))
    )
    passed, gap = difference(high, low, 4, 0.95), gap_difference(high, low, 4, 0.95)
    assert passed.high - passed.value < 0.8 * (passed.value - passed.low)
    assert [gap.value, gap.low, gap.high] == pytest.approx(
        [-100 * passed.value, -100 * passed.high, -100 * passed.low]
    )


def test_who_may_be_best_is_told_of_the_one_k_that_is_printed_with_how_far_it_is_behind():
    """Among as many comparisons as all K have, the row that is far behind would still be listed."""
    rows = compared(
        [
            row(POMO, [0, 1, 2, 3]),
            row(CENTRED, [0, 1, 2, 4], noise_with(0, 0.01)),
            row(SUBLOO, [0, 1, 2, 3.99], noise_with(0, 0.1)),
            row(("maxk", "rloo", 2), [0, 1, 2, 2], noise_with(0, 1.6)),
        ]
    )
    (place,) = places_of(rows, 0.95)
    behind = [each.key.baseline for each in beside(rows[1], rows, 4, 0.05 / 3)]
    assert (behind, [each.key.baseline for each in foremost.others(place)]) == (
        ["subloo", "rloo"],
        ["subloo"],
    )
    (line,) = [each for each in answer([place], 0.95) if each.startswith("Which is best")]
    assert line.startswith(
        "Which is best there is open: maxk centred for K = 2 has the highest value, and not told "
        "apart from it is one other: maxk subloo for K = 2 (by -0.0100 ["
    )


def test_a_row_told_to_be_worse_is_not_among_those_that_may_be_best(monkeypatch):
    rows = compared([row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 2], noise_with(0, 0.01))])
    (place,) = places_of(rows, 0.95)
    monkeypatch.setattr(type(place), "may_be_best", lambda self, k: [rows[1]])
    assert foremost.others(place) == []


def test_the_highest_mean_has_the_next_beside_it():
    found = " ".join(
        said(
            row(POMO, [0, 1, 2, 3]),
            row(CENTRED, [-1, 1, 2.5, 4], noise_with(0, 0.01)),
            row(SUBLOO, [-0.01, 1, 2, 3], noise_with(0, 0.05)),
        )
    )
    assert (
        "mean is that of POMO's loss, ahead of the next, maxk subloo for K = 2, by 0.0100 ["
        in found
    )


def test_rows_that_are_not_told_apart_have_names():
    found = said(
        row(POMO, [0, 1, 2, 3]),
        row(CENTRED, [0, 1, 2, 4], noise_with(0, 0.01)),
        *(
            row(("maxk", name, 2), [0, 1, 2, 3], noise_with(0, 0.4))
            for name in ("none", "rloo", "subloo")
        ),
    )
    (line,) = [each for each in found if each.startswith("Not told apart from POMO's loss: ")]
    assert all(f"maxk {name} for K = 2 (by " in line for name in ("none", "rloo", "subloo"))


def test_a_seed_apart_is_told_with_what_rests_on_it():
    strange = (Apart(3, 4, 9.0, 2.9, 3.1),)
    found = said(row(POMO, [0, 1, 2, 3], apart=strange), row(CENTRED, [0, 1, 2, 4]))
    assert any("One seed each of POMO's loss ended far" in line for line in found)
    assert any("their means, and every difference here, marked ‡" in line for line in found)
    found = said(row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 4], apart=strange))
    assert any("their means, and their differences, marked ‡" in line for line in found)


def test_max_is_pass_where_the_environment_says_so():
    found = said(row(POMO, [0, 1, 2, 3], passes=True), row(CENTRED, [0, 1, 2, 4], passes=True))
    assert found[0].startswith("At pass@4, the share of instances of which at least one of 4")
    assert not [line for line in found if "Max@" in line]
    mixed = said(row(POMO, [0, 1, 2, 3], passes=True), row(CENTRED, [0, 1, 2, 4]))
    assert not [line for line in mixed if "pass@" in line]


@pytest.mark.parametrize(
    ("environment", "passes"),
    [
        ({"name": "toy_llm", "task": "modular", "rewards": [], "reward_weights": []}, True),
        ({"name": "toy_llm", "task": "edit", "rewards": [], "reward_weights": []}, False),
        ({"name": "toy_llm", "task": "edit", "rewards": ["finished"], "reward_weights": []}, True),
        ({"name": "toy_llm", "task": "modular", "rewards": [], "reward_weights": [2.0]}, False),
        ({"name": "toy_llm", "task": "edit", "rewards": ["mine:own"], "reward_weights": []}, False),
        ({"name": "bandit", "rewards": "binary", "reward_shift": 0.0}, True),
        ({"name": "bandit", "rewards": "linear", "reward_shift": 0.0}, False),
        ({"name": "gaussian", "reward": "inside_unit"}, True),
        ({"name": "gaussian", "reward": "square_on_unit"}, False),
        ({"name": "tsp"}, False),
    ],
)
def test_only_rewards_known_to_be_0_or_1_are_passes(environment, passes):
    assert ENVIRONMENTS.get(environment["name"]).passes(environment) is passes
