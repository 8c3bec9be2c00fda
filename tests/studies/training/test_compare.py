"""What is significant among trained rows: corrections, ties, and the lines of comparisons."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy import stats
from trained_rows import (
    CENTRED,
    NOISE,
    POMO,
    SUBLOO,
    compared,
    decoded,
    noise_with,
    pair,
    row,
    unfinished,
    with_ends,
    with_optima,
)

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.ranges import SHARES
from maxk_lab.reports.tables import Pooled
from maxk_lab.statistics.seeds import seed_mean
from maxk_lab.studies.training.differences import (
    difference,
    reference_lines,
    sign,
    signs_of_curve,
    with_differences_to,
)
from maxk_lab.studies.training.record import Optima
from maxk_lab.studies.training.row import OWN_TEMPERATURE, SAMPLED, Decoding
from maxk_lab.studies.training.table import beaten, compare, judge, judged, places_of
from maxk_lab.sweep_file.claims import Claim

RLOO = ("maxk", "rloo", 2)


def place_of(*rows):
    """The one place of these rows, the first of which the others are compared with."""
    (found,) = places_of(compared(rows), 0.95)
    return found


def family(place):
    """The numbers of comparisons that its lines state."""
    return {line.comparisons for line in place.lines.values()}


def names(rows):
    return [each.key.baseline for each in rows]


def less(mine, theirs, k):
    """The differences of two rows by seed."""
    return (mine.sampled.means - theirs.sampled.means)[:, k - 1].tolist()


def test_differences_are_corrected_together_by_holm(study):
    """By hand: the p-values in order, times how many are left."""
    rows = study.studies["training"].rows
    by_path = {each.key.path: each for each in rows}
    ks = (1, 4, 8, 64)
    ordered = sorted(
        (stats.ttest_1samp(less(each, by_path[each.compared_with], k), 0).pvalue, path, k)
        for path, each in by_path.items()
        if each.compared_with
        for k in ks
    )
    lines = reference_lines(rows, 0.05)
    assert {line.comparisons for line in lines.values()} == {44}
    assert len(ordered) == 44
    largest = 0.0
    for left, (p_value, path, k) in zip(range(len(ordered), 0, -1), ordered, strict=True):
        largest = min(1.0, max(largest, p_value * left))
        each = by_path[path]
        line = lines[each.key, k]
        assert line.p_adjusted == pytest.approx(largest, rel=1e-6)
        side = 1 if each.differences[k].value > 0 else -1
        assert sign(line) == (side if largest < 0.05 else 0)
    significant = sum(bool(sign(line)) for line in lines.values())
    assert 0 < significant < len(ordered)


def test_points_of_a_curve_between_those_asked_for_take_no_power():
    noise = noise_with(0, 0.1)
    place = place_of(row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 3.1], noise))
    assert (place.ks, place.top, family(place)) == ([1, 2, 4], 4, {3})
    for_mean = row(("maxk", "centred", 1), [0, 1, 2, 3.1], noise)
    assert family(place_of(row(POMO, [0, 1, 2, 3]), for_mean)) == {2}


def test_the_best_is_one_sided_against_every_rival_and_shared_by_places_and_lists():
    """Gupta by hand: p / 2 below alpha / (R - 1), divided by the K and places that share it."""
    rows = [
        row(POMO, [0, 1, 2, 3]),
        row(CENTRED, [0, 1, 2, 4], noise_with(0, 0.01)),
        row(SUBLOO, [0, 1, 2, 3.6], noise_with(0, 0.3)),
    ]
    p_value = stats.ttest_1samp(less(rows[2], rows[1], 4), 0).pvalue / 2
    alpha = 2 * p_value
    assert names(beaten(rows, 4, 1.01 * alpha)) == ["group_mean", "subloo"]
    assert names(beaten(rows, 4, 0.99 * alpha)) == ["group_mean"]
    assert names(beaten(rows, 4, 2.02 * alpha, ks=2)) == ["group_mean", "subloo"]
    assert names(beaten(rows, 4, 1.98 * alpha, ks=2)) == ["group_mean"]
    place = replace(place_of(*rows), places=3)
    for share, tied in ((3.03, ["centred"]), (2.97, ["centred", "subloo"])):
        assert names(replace(place, alpha=share * alpha).may_be_best(4)) == tied


def test_equal_values_are_all_best_the_reference_first():
    again = place_of(row(SUBLOO, [0, 0, 0, 1]), row(CENTRED, [0, 0, 0, 1 + 1e-12]))
    assert names(again.best(4)) == ["subloo", "centred"]


def test_a_row_without_all_its_seeds_is_in_no_test():
    lead = row(CENTRED, [0, 1, 2, 4], noise_with(0, 0.01))
    reference, lead = compared([row(POMO, [0, 1, 2, 3]), lead])
    lost = with_differences_to(unfinished(SUBLOO), reference, 0.95)
    (place,) = places_of((reference, lead, lost), 0.95)
    assert (place.measured, place.compared) == ((reference, lead), (lead,))
    assert family(place) == {3}
    assert lost not in place.may_be_best(4)
    none = unfinished(POMO)
    alone = with_differences_to(row(CENTRED, [0, 1, 2, 4]), none, 0.95)
    assert "1 of 2 seeds finished" in alone.differences[4].reason
    (place,) = places_of((none, alone), 0.95)
    assert (place.reference, place.compared, family(place)) == (none, (), {0})


def test_one_seed_is_paired_by_instance():
    first, second = compared([row(POMO, [0, 1, 2, 3], [0.0]), row(CENTRED, [0, 1, 2, 4], [0.0])])
    assert second.differences[4].value == pytest.approx(1)
    noisy = with_ends(second, values={4: np.array([[3.0, 3.5, 4.0, 4.0, 4.5]])})
    found = difference(noisy, first, 4, 0.95)
    assert found.question == "new instances"
    assert found.low < found.value < found.high
    assert "no values per instance" in difference(noisy, first, 2, 0.95).reason


def test_a_line_names_the_seeds_that_ended_apart():
    rows = compared([row(POMO, [0, 1, 2, 3], apart=(3,)), row(CENTRED, [0, 1, 2, 4], 2 * NOISE)])
    lines = list(compare(Pooled(rows), level=0.95, alpha=0.05))
    assert {line.reason for line in lines if line.partner} == {
        f"seed 3 of {rows[0].key.path} ended apart"
    }


def test_the_verdicts_on_rows_and_the_lines_of_comparisons():
    rows = compared(
        [
            row(POMO, [0, 1, 2, 3]),
            row(CENTRED, [-1, 1, 2.5, 4], noise_with(0, 0.01)),
            row(SUBLOO, [0, 1, 2, 3]),
        ]
    )
    found = judged(Pooled((*rows, unfinished(RLOO))), level=0.95, alpha=0.5).rows
    lines = {
        (line.family, line.row.split("/")[2], line.measure): line
        for line in compare(Pooled(found), level=0.95, alpha=0.5)
    }
    verdicts = {key: line.verdict for key, line in lines.items()}
    assert verdicts == {
        ("reference", "centred", "max@1"): "worse",
        ("reference", "centred", "max@2"): "tied",
        ("reference", "centred", "max@4"): "better",
        **{("reference", "subloo", f"max@{k}"): "open" for k in (1, 2, 4)},
        ("best", "centred", "max@1"): "worse",
        ("best", "subloo", "max@1"): "open",
        ("best", "subloo", "max@2"): "open",
        ("best", "centred", "max@2"): "tied",
        ("best", "group_mean", "max@4"): "worse",
        ("best", "subloo", "max@4"): "worse",
        # The highest itself, one line at each K.
        ("best", "group_mean", "max@1"): "tied",
        ("best", "group_mean", "max@2"): "tied",
        ("best", "centred", "max@4"): "highest",
    }
    line = lines["reference", "centred", "max@4"]
    assert (line.partner, line.comparisons) == (rows[0].key.path, 3)
    assert line.interval == rows[1].differences[4]
    assert line.p_adjusted < line.alpha == pytest.approx(0.05)
    assert "the same in every seed" in lines["reference", "subloo", "max@4"].reason
    # Two rivals, at each of three K.
    line = lines["best", "group_mean", "max@4"]
    assert (line.partner, line.comparisons) == (rows[1].key.path, 6)
    wanted = seed_mean(less(rows[0], rows[1], 4), 0.95)
    assert (line.interval.value, line.interval.low) == pytest.approx((wanted.value, wanted.low))


def test_the_interval_of_a_difference_of_passes_ends_at_one():
    low, high = (
        with_optima(
            row(point, [0.1, 0.2, 0.3, value], noise, within=SHARES, passes=True),
            1.0,
            Optima(kind="enumeration", exact=True),
            {},
        )
        for point, value, noise in ((POMO, 0.4, 10 * NOISE), (CENTRED, 0.98, 0.5 * NOISE[::-1]))
    )
    passed = difference(high, low, 4, 0.95)
    assert passed.high - passed.value < 0.8 * (passed.value - passed.low)


def difference_claim(at_least=0.0, **how):
    claim = {"name": "it", "kind": "difference", "metric": "max@4", "at_least": at_least}
    pair = {"of": {"estimator": "maxk"}, "over": {"estimator": "reinforce"}}
    return TypeAdapter(Claim).validate_python(claim | pair | how)


def test_a_claim_is_judged_by_the_interval_of_its_decoding():
    reference, lead = row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 4], noise_with(0, 0.01))
    own = row(POMO, [0, 1, 2, 3.9])
    lead = decoded(lead, **{OWN_TEMPERATURE: lead})
    reference = decoded(reference, **{OWN_TEMPERATURE: own})
    sides = [(lead, reference)]

    def verdict(claim, met=sides):
        found = judge(claim, met, 0.05)
        return found.verdict, found.interval and round(found.interval.value, 6)

    assert verdict(difference_claim(0.5)) == ("supported", 1)
    assert verdict(difference_claim(0.5, decoding="sampled")) == ("supported", 1)
    assert verdict(difference_claim(0.5, decoding="best")) == ("refuted", 0.1)
    plain = [(lead, row(POMO, [0, 1, 2, 3]))]
    assert verdict(difference_claim(0.0, decoding="best"), plain) == ("undecided", None)
    one = [(row(CENTRED, [0, 1, 2, 4], [0.0]), row(POMO, [0, 1, 2, 3], [0.0]))]
    assert verdict(difference_claim(), one)[0] == "undecided"
    strange = with_ends(lead, apart=(3,))
    text = judge(difference_claim(), [(strange, reference)], 0.05).detail
    assert text.endswith("over 5 seeds, at 95 %; seed 3 ended apart from the others")


def test_the_reference_is_pomo_s_loss_with_the_same_start_of_the_same_place():
    """Where it was not trained, plain RLOO; of several, the one that shares most settings."""
    loss, shipped = row(POMO, [0, 1, 2, 3]), row(POMO, [0, 1, 2, 3], start="multistart")
    plain = row(("reinforce", "centred", 1), [0, 1, 2, 3])
    iid, forced = row(CENTRED, [0, 1, 2, 3]), row(SUBLOO, [0, 1, 2, 3], start="multistart")
    other = row(CENTRED, [0, 1, 2, 3], environment="op", words="OP")

    def references(*rows):
        found = judged(Pooled(rows), level=0.95, alpha=0.05).rows
        return [each.compared_with.removeprefix("training/") for each in found]

    pomo = "reinforce/group_mean/n4/k1"
    assert references(loss, shipped, plain, iid, forced, other) == [
        "", pomo, pomo, pomo, f"start=multistart/{pomo}", "",
    ]  # fmt: skip
    assert references(plain, iid, forced) == ["", *2 * ["reinforce/centred/n4/k1"]]
    assert references(iid, row(SUBLOO, [0, 1, 2, 3])) == ["", "maxk/centred/n4/k2"]
    assert references(iid, forced) == ["", ""]
    assert references(loss, at_n(iid, 8)) == ["", pomo]
    wide = ["", pomo, pomo, "reinforce/group_mean/n8/k1"]
    assert references(loss, at_n(loss, 8), iid, at_n(iid, 8)) == wide
    assert references(iid, at_n(iid, 8)) == ["", "maxk/centred/n4/k2"]

    def rated(each, rate):
        setting = (("learning_rate", rate), *each.key.setting)
        return replace(each, key=replace(each.key, setting=setting))

    assert references(rated(loss, 0.1), rated(loss, 0.2), rated(shipped, 0.2))[2] == (
        "learning_rate=0.2/" + pomo
    )


def at_n(each, n):
    return replace(each, key=replace(each.key, n=n))


def test_trainings_of_another_n_are_compared_at_equal_rollouts():
    """One family: POMO's loss at n = 8 against n = 4, and both among the rivals of the best."""
    loss, wide = row(POMO, [0, 1, 2, 3]), at_n(row(POMO, [0, 1, 2, 4], noise_with(0, 0.01)), 8)
    rows = judged(Pooled((loss, wide)), level=0.95, alpha=0.05).rows
    (place,) = places_of(rows, 0.95)
    assert [*place.names.values()] == ["POMO's loss at n = 4", "POMO's loss at n = 8"]
    lines = {
        (line.family, line.row, line.partner, line.verdict)
        for line in compare(Pooled(rows), level=0.95, alpha=0.05)
        if line.measure == "max@4"
    }
    small, large = (each.key.path for each in rows)
    assert lines == {
        ("reference", large, small, "better"),
        ("best", small, large, "worse"),
        ("best", large, "", "highest"),
    }
    found = difference(replace(wide, rollouts=7), loss, 4, 0.95)
    assert found.reason.endswith("have different n and different rollouts")
    same = replace(row(CENTRED, [0, 1, 2, 3]), rollouts=7)
    assert "rollouts" not in difference(same, loss, 4, 0.95).reason


def test_rows_of_other_instances_or_seeds_make_no_pairs():
    first, second = row(POMO, [0, 1, 2, 3]), row(CENTRED, [0, 1, 2, 4])
    found = difference(replace(second, instances=("other",)), first, 4, 0.95)
    assert "were evaluated on different instances" in found.reason
    fewer = row(CENTRED, [0, 1, 2, 4], NOISE[:3])
    assert "have different seeds" in difference(fewer, first, 4, 0.95).reason
    assert family(place_of(first, fewer)) == {0}
    assert "fewer than 5 samples per evaluation" in difference(second, first, 5, 0.95).reason


def test_environments_share_one_correction():
    few = places_of(compared([*pair("tsp", 0.9), *pair("op", 0.0), *pair("pdp", -0.9)]), 0.95)
    assert [place.where for place in few] == ["TSP", "OP", "PDP"]
    assert [family(place) for place in few] == [{9}] * 3
    assert [place.sign(place.rows[1], 4) for place in few] == [1, 0, -1]
    many = [*pair("tsp", 0.2), *(each for i in range(9) for each in pair(f"op{i}", 0.0))]
    alone = place_of(*many[:2])
    assert alone.sign(alone.rows[1], 4) == 1
    first = places_of(compared(many), 0.95)[0]
    assert (first.places, first.sign(first.rows[1], 4)) == (10, 0)


@pytest.mark.parametrize(
    ("environment", "passes"),
    [
        ({"name": "toy_llm", "task": "modular", "rewards": [], "reward_weights": []}, True),
        ({"name": "toy_llm", "task": "deceptive", "rewards": [], "reward_weights": []}, False),
        ({"name": "toy_llm", "rewards": ["exact_match"], "reward_weights": []}, True),
        ({"name": "toy_llm", "task": "modular", "rewards": [], "reward_weights": [2.0]}, False),
        ({"name": "toy_llm", "rewards": ["mine:own"], "reward_weights": []}, False),
        ({"name": "bandit", "rewards": "binary", "reward_shift": 0.0}, True),
        ({"name": "bandit", "rewards": "linear", "reward_shift": 0.0}, False),
        ({"name": "gaussian", "reward": "square_on_unit"}, False),
        ({"name": "tsp"}, False),
    ],
)
def test_only_rewards_known_to_be_0_or_1_are_passes(environment, passes):
    assert ENVIRONMENTS.get(environment["name"]).passes(environment) is passes


def test_the_signs_of_a_curve_are_about_instances():
    """Instances that all seeds share count once; else each seed brings its own."""
    effects, ks = {1: -0.3, 2: 0.0, 4: 0.055}, (1, 2, 4)
    noise = np.random.default_rng(7).normal(0, 0.4, (3, 200))
    noise -= noise.mean(1, keepdims=True)
    # The same differences for all seeds: an effect of 1.9 errors of 200 instances, 3.4 of 600.
    better = {k: effects[k] + np.tile(of_k, (3, 1)) for k, of_k in zip(ks, noise, strict=True)}

    def signs(*hashes, values=better, other=("a", "a", "a")):
        ends = [{k: np.zeros_like(of_k) for k, of_k in values.items()}, values]
        loss, method = (
            replace(
                row(point, [0, 0, 0, 0]),
                decoded={SAMPLED: Decoding(means=np.zeros((3, 4)), values=of_row, ks=ks)},
                finished=(0, 1, 2),
                instances=hashes,
            )
            for point, of_row in zip((POMO, CENTRED), ends, strict=True)
        )
        return signs_of_curve(method, replace(loss, instances=other), 0.95)

    assert signs("a", "a", "a") == {1: -1, 2: 0, 4: 0}
    assert signs("a", "b", "c", other=("a", "b", "c")) == {1: -1, 2: 0, 4: 1}
    assert signs("a", "b", "c") == {}  # no pairs
    assert signs("a", "a", "a", values={k: better[k][:, :1] for k in ks}) == {}
    assert signs("a", "a", "a", values={1: better[1]}) == {}
