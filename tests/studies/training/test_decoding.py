"""Policies at their own best: chosen on other instances, told on the held-out ones."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter

from maxk_lab.ranges import NOT_POSITIVE
from maxk_lab.report.formats.render import render
from maxk_lab.statistics.seeds.over_seeds import over_seeds
from maxk_lab.studies.training.compare import judge
from maxk_lab.studies.training.decoding import best_on_tuning
from maxk_lab.studies.training.ending import gap
from maxk_lab.sweeps.spec.claims import Claim

POMO, BEST = ("reinforce", "group_mean", 1), ("maxk", "subloo", 8)
SAMPLES, HOTTER = 64, 8
# What temperature 2 adds to Max@K on the held-out and on the tuning instances, from K = 8 on.
HELD_OUT, TUNING = {POMO: 0.05, BEST: 0.03}, {POMO: 0.04, BEST: -0.01}
WAY = "greedy_multistart_augmented"


def decoded(found, cell):
    """Metrics with a second temperature, which POMO likes, and ways whose best is known."""
    point = cell["estimator"], cell["baseline"], cell["k"]
    final = found["final"]

    def shifted(values, by):
        steps = np.arange(1, len(values) + 1) >= HOTTER
        return (np.array(values) + by * steps).tolist()

    by = HELD_OUT.get(point, 0.0)
    found["tempered"] = {
        "2.0": {end: shifted(final[end], by) for end in ("value", "low", "high")}
        | {"ks": final["ks"]}
        | {
            "per_instance": [
                [value + by * (k >= HOTTER) for value in values]
                for k, values in zip(final["ks"], final["per_instance"], strict=True)
            ]
        }
    }
    # Seed 4 of POMO has no K at which temperature 2 is better on its tuning instances.
    by = TUNING.get(point, 0.0) * (-1 if (point, cell["seed"]) == (POMO, 4) else 1)
    tuning = (np.array(final["value"]) - 0.3).tolist()
    found["extras"][WAY] = found["extras"]["greedy_augmented"] | {"trajectories": 160}
    extras = dict.fromkeys(found["extras"], -9.0) | {WAY: -1.0 if point == POMO else -9.0}
    found["tuning"] = {
        "tempered": {"1.0": tuning, "2.0": shifted(tuning, by)},
        "extras": extras,
    }
    found["last"] = [600, 700, 800]


@pytest.fixture(scope="module")
def summary(tsp):
    points = [point for point in tsp.points if (*point[:2], point[3]) in (POMO, BEST)]
    cells = tsp.cells(points=[p for p in points if p[4] == "iid"])
    for cell in cells:
        # At its own best is `subloo` between the ends of this range, and POMO at one of them.
        offered = {"temperatures": [0.5, 1.0, 2.0], "tuning": 8, "last": 3}
        cell["training"]["evaluate"] = cell["training"]["evaluate"] | offered
    return tsp.report(cells, decoded)


@pytest.fixture(scope="module")
def rows(tsp, summary):
    return tsp.row_of(summary, *POMO), tsp.row_of(summary, *BEST)


@pytest.mark.parametrize(
    ("means", "best"),
    [
        ({"T=1": -4.0, "T=2": -3.9, "greedy": -4.1}, "T=2"),
        ({"T=0.5": -4.0, "T=1": -4.0, "greedy": -4.0}, "T=0.5"),
        ({"T=1": math.nan, "T=2": -5.0}, "T=2"),
        ({"T=1": -5.0, "T=2": math.nan}, "T=1"),
        ({"T=1": math.nan}, None),
        ({}, None),
    ],
)
def test_the_best_mean_is_chosen_and_the_first_of_equals(means, best):
    assert best_on_tuning(means) == best


def test_every_seed_has_its_own_temperature_at_every_k(rows):
    pomo, best = (row.tempered.by_seed for row in rows)
    for seed, trained in pomo.items():
        hotter = "T=1" if seed == 4 else "T=2"
        assert [trained.chosen[k] for k in (1, HOTTER - 1)] == ["T=1", "T=1"]
        assert [trained.chosen[k] for k in (HOTTER, SAMPLES)] == [hotter, hotter]
    assert {way for trained in best.values() for way in trained.chosen.values()} == {"T=1"}


def test_what_is_chosen_is_told_of_the_held_out_instances(rows):
    """Better on these or not: `subloo` would gain by another temperature, and does not get it."""
    pomo, best = rows
    for k in (1, 4, 8, 64):
        gained = HELD_OUT[POMO] * (k >= HOTTER)
        values = [
            pomo.by_seed[seed].curve[k - 1] + gained * (seed != 4) for seed in sorted(pomo.by_seed)
        ]
        wanted = over_seeds(values, 0.95, NOT_POSITIVE)
        found = pomo.tempered.final(k)
        assert (found.value, found.low, found.high) == pytest.approx(
            (wanted.value, wanted.low, wanted.high)
        )
        assert best.tempered.final(k) == best.final(k)
        less = [
            mine - theirs
            for mine, theirs in zip(
                (best.by_seed[seed].curve[k - 1] for seed in sorted(best.by_seed)),
                values,
                strict=True,
            )
        ]
        wanted = over_seeds(less, 0.95)
        found = best.tempered.differences[k]
        assert (found.value, found.low, found.high) == pytest.approx(
            (wanted.value, wanted.low, wanted.high)
        )
    gaps = [
        gap(np.array(seed.per_instance[64]) + HELD_OUT[POMO] * (number != 4), seed.optima).mean()
        for number, seed in pomo.by_seed.items()
    ]
    assert pomo.tempered.measures.gaps[64].value == pytest.approx(np.mean(gaps))


def test_the_best_way_at_any_cost_is_another_quantity(rows):
    pomo, best = rows
    assert {seed.chosen[1] for seed in pomo.own_way.by_seed.values()} == {WAY}
    assert {seed.chosen[1] for seed in best.own_way.by_seed.values()} == {"T=1"}
    greedy = pomo.measures.ways[WAY]
    assert pomo.own_way.final(1).value == pytest.approx(greedy.value)
    assert best.own_way.final(1).value == pytest.approx(best.final(64).value)
    assert pomo.own_way.measures.gaps[1].value == pytest.approx(pomo.measures.gaps[WAY].value)
    difference = best.own_way.differences[1]
    assert difference.value == pytest.approx(best.final(64).value - greedy.value)


def test_two_rows_are_compared_in_the_same_way(rows):
    pomo, best = rows
    assert list(best.by_way) == list(best.measures.ways)
    for way, found in best.by_way.items():
        less = [
            np.mean(best.by_seed[seed].ways[way].per_instance)
            - np.mean(pomo.by_seed[seed].ways[way].per_instance)
            for seed in sorted(pomo.by_seed)
        ]
        wanted = over_seeds(less, 0.95)
        assert (found.value, found.low, found.high) == pytest.approx(
            (wanted.value, wanted.low, wanted.high)
        )
    assert best.by_way["T=1"] == best.differences[64]


def test_what_was_chosen_stands_in_the_records(summary, rows):
    pomo, best = rows
    told = json.loads(render(summary, "json"))["training"]
    assert told[0]["own_temperature@64"] == {
        "0": "T=2",
        "1": "T=2",
        "2": "T=2",
        "3": "T=2",
        "4": "T=1",
    }
    assert told[1]["own_temperature_difference@64"] == best.tempered.differences[64].value
    assert told[0]["own_way_gap"] == pomo.own_way.measures.gaps[1].value
    assert told[0]["max@64_T=2"] == pomo.measures.ways["T=2"].value


def test_a_claim_may_be_about_each_at_its_own_best(rows):
    pomo, best = rows
    claim = {
        "name": "it",
        "kind": "difference",
        "metric": "max@64",
        "of": {"estimator": "maxk"},
        "over": {"estimator": "reinforce"},
    }

    def judged(bound, **how):
        asked = TypeAdapter(Claim).validate_python(claim | {"at_least": bound} | how)
        return judge(asked, [(best, pomo)], 0.05)

    plain, fair = best.differences[64], best.tempered.differences[64]
    between = (plain.low + fair.high) / 2
    assert fair.high < between < plain.low
    assert judged(between) == judged(between, decoding="sampled")
    assert judged(between).verdict == "supported"
    found = judged(between, decoding="best")
    assert (found.verdict, found.interval) == ("refuted", fair)
    untuned = [replace(row, tempered=None) for row in (best, pomo)]
    asked = TypeAdapter(Claim).validate_python(claim | {"at_least": 0, "decoding": "best"})
    found = judge(asked, [tuple(untuned)], 0.05)
    assert (found.verdict, found.interval) == ("undecided", None)
    # In one way for both, and each in its own: `subloo` has samples at temperature 1 there.
    for metric, found in (
        ("greedy", best.measures.ways["greedy"].value - pomo.measures.ways["greedy"].value),
        ("own_way", best.own_way.differences[1].value),
    ):
        asked = {"metric": metric, "at_least": found - 0.2}
        verdict = judged(0, **asked)
        assert (verdict.verdict, verdict.interval.value) == ("supported", pytest.approx(found))
        assert judged(0, **asked | {"at_least": found + 0.2}).verdict == "refuted"
    assert judged(0, metric="nothing").verdict == "undecided"


def test_nothing_is_chosen_where_nothing_was_measured_for_it(tsp, study):
    assert all(row.tempered is None for row in study.studies["training"].rows)
    assert all(row.own_way is None for row in study.studies["training"].rows)

    def untuned(found, cell):
        decoded(found, cell)
        del found["tuning"]

    rows = tsp.report(tsp.cells(seeds=(0, 1)), untuned).studies["training"].rows
    assert all(row.tempered is row.own_way is None for row in rows)
    assert all("T=2" in row.measures.ways for row in rows)
