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
    lead,
    noise_with,
    pair,
    pomo,
    row,
    unfinished,
    with_ends,
    with_optima,
)

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.ranges import SHARES
from maxk_lab.reports.tables import Pooled
from maxk_lab.statistics.intervals import undefined
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


def with_n(each, n):
    return replace(each, key=replace(each.key, n=n))


def place_of(*rows):
    """The one place of these rows, the first of which the others are compared with."""
    (place,) = places_of(compared(rows), 0.05)
    return place


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
    ordered = sorted(
        (stats.ttest_1samp(less(each, by_path[each.compared_with], k), 0).pvalue, path, k)
        for path, each in by_path.items()
        if each.compared_with
        for k in (1, 4, 8, 64)
    )
    lines = reference_lines(rows, 0.05)
    assert {line.comparisons for line in lines.values()} == {44} == {len(ordered)}
    adjusted = 0.0
    for number, (p_value, path, k) in enumerate(ordered):
        adjusted = min(1.0, max(adjusted, p_value * (44 - number)))
        line, interval = lines[by_path[path].key, k], by_path[path].differences[k]
        assert line.p_adjusted == pytest.approx(adjusted, rel=1e-6)
        assert sign(line) == (np.sign(interval.value) if adjusted < 0.05 else 0)
    assert 0 < sum(bool(sign(line)) for line in lines.values()) < 44


def test_points_of_a_curve_between_those_asked_for_take_no_power():
    noise = noise_with(0, 0.1)
    place = place_of(pomo(), lead(3.1, noise))
    assert (place.ks, place.top, family(place)) == ([1, 2, 4], 4, {3})
    assert family(place_of(pomo(), row(("maxk", "centred", 1), [0, 1, 2, 3.1], noise))) == {2}


def test_the_best_is_one_sided_against_every_rival_and_shared_by_places_and_lists():
    """Gupta by hand: p / 2 below alpha / (R - 1), divided by the K and places that share it."""
    subloo = row(SUBLOO, [0, 1, 2, 3.6], noise_with(0, 0.3))
    rows = [pomo(), lead(4, noise_with(0, 0.01)), subloo]
    p_value = stats.ttest_1samp(less(rows[2], rows[1], 4), 0).pvalue / 2
    alpha = 2 * p_value
    for share, ks, worse in (
        (1.01, 1, ["group_mean", "subloo"]),
        (0.99, 1, ["group_mean"]),
        (2.02, 2, ["group_mean", "subloo"]),
        (1.98, 2, ["group_mean"]),
    ):
        assert names(beaten(rows, 4, share * alpha, ks=ks)) == worse
    place = replace(place_of(*rows), places=3)
    for share, tied in ((3.03, ["centred"]), (2.97, ["centred", "subloo"])):
        assert names(replace(place, alpha=share * alpha).may_be_best(4)) == tied


def test_equal_values_are_all_best_the_reference_first():
    again = place_of(row(SUBLOO, [0, 0, 0, 1]), row(CENTRED, [0, 0, 0, 1 + 1e-12]))
    assert names(again.best(4)) == ["subloo", "centred"]


def test_a_row_without_all_its_seeds_is_in_no_test():
    reference, best = compared([pomo(), lead(4, noise_with(0, 0.01))])
    lost = with_differences_to(unfinished(SUBLOO), reference, 0.95)
    (place,) = places_of((reference, best, lost), 0.05)
    assert (place.measured, place.compared) == ((reference, best), (best,))
    assert family(place) == {3}
    assert lost not in place.may_be_best(4)
    none = unfinished(POMO)
    alone = with_differences_to(lead(), none, 0.95)
    assert "1 of 2 seeds finished" in alone.differences[4].reason
    (place,) = places_of((none, alone), 0.05)
    assert (place.reference, place.compared, family(place)) == (none, (), {0})


def test_one_seed_is_paired_by_instance():
    first, second = compared([pomo(noise=[0.0]), lead(noise=[0.0])])
    assert second.differences[4].value == pytest.approx(1)
    noisy = with_ends(second, values={4: np.array([[3.0, 3.5, 4.0, 4.0, 4.5]])})
    interval = difference(noisy, first, 4, 0.95)
    assert interval.question == "new instances"
    assert interval.low < interval.value < interval.high
    assert "no values per instance" in difference(noisy, first, 2, 0.95).reason


@pytest.mark.parametrize(
    ("other", "k", "reason"),
    [
        (lead(instances=("other",)), 4, "were evaluated on different instances"),
        (lead(noise=NOISE[:3]), 4, "have different seeds"),
        (lead(), 5, "fewer than 5 samples per evaluation"),
        (with_n(lead(rollouts=7), 8), 4, "have different n and different rollouts"),
        (with_n(lead(), 8), 4, ""),
        (lead(rollouts=7), 4, ""),
    ],
)
def test_rows_of_other_instances_seeds_or_rollouts_make_no_pairs(other, k, reason):
    interval = difference(other, pomo(), k, 0.95)
    assert interval.reason.endswith(reason)
    assert interval.defined == (not reason)
    assert (family(place_of(pomo(), other)) == {0}) == (bool(reason) and k == 4)


def test_a_line_names_the_seeds_that_ended_apart():
    rows = [pomo(apart=(3,)), lead(4, noise_with(0, 0.01))]
    lines = list(compare(Pooled(compared(rows)), level=0.95, alpha=0.05))
    reasons = {line.reason for line in lines if line.partner}
    assert reasons == {f"seed 3 of {rows[0].key.path} ended apart"}


def test_the_verdicts_on_rows_and_the_lines_of_comparisons():
    best = row(CENTRED, [-1, 1, 2.5, 4], noise_with(0, 0.01))
    rows = compared([pomo(), best, row(SUBLOO, [0, 1, 2, 3])])
    pooled = judged(Pooled((*rows, unfinished(RLOO))), level=0.95, alpha=0.06)
    lines = {
        (line.family, line.row.split("/")[2], line.measure): line
        for line in compare(pooled, level=0.95, alpha=0.06)
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
    assert line.p_adjusted < line.alpha == 0.06
    assert "the same in every seed" in lines["reference", "subloo", "max@4"].reason
    # Two rivals, at each of three K.
    line = lines["best", "group_mean", "max@4"]
    assert (line.partner, line.comparisons) == (rows[1].key.path, 6)
    expected = seed_mean(less(rows[0], rows[1], 4), 0.95)
    assert (line.interval.value, line.interval.low) == pytest.approx((expected.value, expected.low))


def test_the_interval_of_a_difference_of_passes_ends_at_one():
    optimum = Optima(kind="enumeration", exact=True)
    low, high = (
        with_optima(
            row(point, [0.1, 0.2, 0.3, value], noise, within=SHARES, passes=True), 1.0, optimum, {}
        )
        for point, value, noise in ((POMO, 0.4, 10 * NOISE), (CENTRED, 0.98, 0.5 * NOISE[::-1]))
    )
    passed = difference(high, low, 4, 0.95)
    assert passed.high - passed.value < 0.8 * (passed.value - passed.low)


def test_a_claim_is_judged_by_the_interval_of_its_decoding():
    plain, single = pomo(), (lead(noise=[0.0]), pomo(noise=[0.0]))
    best, reference = lead(4, noise_with(0, 0.01)), pomo()
    best = decoded(best, **{OWN_TEMPERATURE: best})
    reference = decoded(reference, **{OWN_TEMPERATURE: pomo(3.9)})

    def verdict(pair=(best, reference), at_least=0.5, **decoding):
        claim = {"name": "it", "kind": "difference", "metric": "max@4", "at_least": at_least}
        claim |= {"of": {"estimator": "maxk"}, "over": {"estimator": "reinforce"}} | decoding
        return judge(TypeAdapter(Claim).validate_python(claim), [pair], 0.05)

    for decoding, expected, value in (
        ({}, "supported", 1),
        ({"decoding": "sampled"}, "supported", 1),
        ({"decoding": "best"}, "refuted", 0.1),
    ):
        judged_claim = verdict(**decoding)
        assert judged_claim.verdict == expected
        assert judged_claim.interval.value == pytest.approx(value)
    undecoded = verdict((best, plain), 0.0, decoding="best")
    assert (undecoded.verdict, undecoded.interval) == ("undecided", None)
    assert undecoded.detail.endswith("not every policy was decoded so")
    lost = decoded(
        plain, **{OWN_TEMPERATURE: with_ends(plain, ks=(), curve=(undefined(0.95, "no"),))}
    )
    assert verdict((best, lost), decoding="best").detail.endswith(": no")
    assert verdict(single, 0.0).verdict == "undecided"
    text = verdict((with_ends(best, apart=(3,)), reference)).detail
    assert text.endswith("over 5 seeds, at 95 %; seed 3 ended apart from the others")


PLAIN = row(("reinforce", "centred", 1), [0, 1, 2, 3])
SHIPPED, FORCED = pomo(start="multistart"), row(SUBLOO, [0, 1, 2, 3], start="multistart")
LOSS_PATH = "reinforce/group_mean/n4/k1"


def rated(each, rate):
    setting = (("learning_rate", rate), *each.key.setting)
    return replace(each, key=replace(each.key, setting=setting))


@pytest.mark.parametrize(
    ("rows", "references"),
    [
        ([pomo(), SHIPPED, PLAIN, lead(), FORCED, lead(environment="op", words="OP")],
         ["", *[LOSS_PATH] * 3, f"start=multistart/{LOSS_PATH}", ""]),
        ([PLAIN, lead(), FORCED], ["", *["reinforce/centred/n4/k1"] * 2]),
        ([lead(), row(SUBLOO, [0, 1, 2, 3])], ["", "maxk/centred/n4/k2"]),
        ([lead(), FORCED], ["", ""]),
        ([pomo(), with_n(lead(), 8)], ["", LOSS_PATH]),
        ([pomo(), with_n(pomo(), 8), lead(), with_n(lead(), 8)],
         ["", LOSS_PATH, LOSS_PATH, "reinforce/group_mean/n8/k1"]),
        ([lead(), with_n(lead(), 8)], ["", "maxk/centred/n4/k2"]),
        ([rated(pomo(), 0.1), rated(pomo(), 0.2), rated(SHIPPED, 0.2)],
         ["", "", f"learning_rate=0.2/{LOSS_PATH}"]),
    ],
    ids=["pomo", "rloo", "first", "starts", "other n", "several n", "only n", "rates"],
)  # fmt: skip
def test_the_reference_is_pomo_s_loss_with_the_same_start_of_the_same_place(rows, references):
    """Where it was not trained, plain RLOO; of several, the one that shares most settings."""
    pooled = judged(Pooled(tuple(rows)), level=0.95, alpha=0.05).rows
    assert [each.compared_with.removeprefix("training/") for each in pooled] == references


def test_trainings_of_another_n_are_compared_at_equal_rollouts():
    """One family: POMO's loss at n = 8 against n = 4, and both among the rivals of the best."""
    rows = pomo(), with_n(pomo(4, noise_with(0, 0.01)), 8)
    pooled = judged(Pooled(rows), level=0.95, alpha=0.05)
    (place,) = places_of(pooled.rows, 0.05)
    assert [*place.names.values()] == ["POMO's loss at n = 4", "POMO's loss at n = 8"]
    lines = {
        (line.family, line.row, line.partner, line.verdict)
        for line in compare(pooled, level=0.95, alpha=0.05)
        if line.measure == "max@4"
    }
    small, large = (each.key.path for each in rows)
    assert lines == {
        ("reference", large, small, "better"),
        ("best", small, large, "worse"),
        ("best", large, "", "highest"),
    }


def test_environments_share_one_correction():
    few = places_of(compared([*pair("tsp", 0.9), *pair("op", 0.0), *pair("pdp", -0.9)]), 0.05)
    assert [place.where for place in few] == ["TSP", "OP", "PDP"]
    assert [family(place) for place in few] == [{9}] * 3
    assert [place.sign(place.rows[1], 4) for place in few] == [1, 0, -1]
    many = [*pair("tsp", 0.2), *(each for i in range(9) for each in pair(f"op{i}", 0.0))]
    alone, first = place_of(*many[:2]), places_of(compared(many), 0.05)[0]
    assert alone.sign(alone.rows[1], 4) == 1
    assert (first.places, first.sign(first.rows[1], 4)) == (10, 0)


LLM = {"name": "toy_llm", "task": "modular", "rewards": [], "reward_weights": []}
BANDIT = {"name": "bandit", "rewards": "binary", "reward_shift": 0.0}


@pytest.mark.parametrize(
    ("environment", "passes"),
    [
        (LLM, True),
        (LLM | {"task": "deceptive"}, False),
        (LLM | {"rewards": ["exact_match"]}, True),
        (LLM | {"reward_weights": [2.0]}, False),
        (LLM | {"rewards": ["mine:own"]}, False),
        (BANDIT, True),
        (BANDIT | {"rewards": "linear"}, False),
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
    # Only some seeds share their instances; equal differences have no band.
    assert signs("a", "a", "b", other=("a", "a", "b")) == {}
    equal = better | {4: np.ones_like(better[4])}
    assert signs("a", "a", "a", values=equal) == {1: -1, 2: 0}
