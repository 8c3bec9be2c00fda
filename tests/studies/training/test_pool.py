"""Trained rows: pooled over seeds by hand, in every decoding, with what is known of each."""

import math

import numpy as np
import pytest

from maxk_lab.ranges import NOT_NEGATIVE, NOT_POSITIVE
from maxk_lab.reports.report import make_report
from maxk_lab.statistics.seeds import seed_mean
from maxk_lab.studies.training.pool import best_on_tuning, estimates, gap
from maxk_lab.studies.training.row import OWN_TEMPERATURE, biasing
from maxk_lab.training.settings import StepSettings

POMO, BEST, CENTRED = ("reinforce", "group_mean", 1), ("maxk", "subloo", 8), ("maxk", "centred", 8)
ONE = [("maxk", "centred", 16, 8, "iid")]
TWO = [("reinforce", "group_mean", 16, 1, "iid"), ("maxk", "subloo", 16, 8, "iid")]
WAY = "greedy_multistart_augmented"
SAMPLES, HOTTER = 64, 8


def own_metrics(tsp, point):
    """The metrics of the five seeds of a row."""
    planned = (c for c in tsp.cells() if (c["estimator"], c["baseline"], c["k"]) == point)
    return [tsp.record(cell).metrics for cell in planned if "start" not in cell["training"]]


def same(found, wanted):
    ends = (wanted.value, wanted.low, wanted.high)
    return (found.value, found.low, found.high) == pytest.approx(ends, nan_ok=True)


def gap_by_hand(metrics, values):
    optima = metrics["reference"]["per_instance"]
    return [100 * (best - value) / abs(best) for best, value in zip(optima, values, strict=True)]


def test_every_number_of_a_row_is_pooled_over_its_seeds(study, tsp):
    row, metrics, numbers = tsp.row_of(study, *BEST), own_metrics(tsp, BEST), {}
    assert (row.finished, row.steps, row.rollouts) == ((0, 1, 2, 3, 4), 800, 512 * 800)
    for k in range(1, 65):
        wanted = seed_mean([m["final"]["value"][k - 1] for m in metrics], 0.95, NOT_POSITIVE)
        assert row.final(k) == wanted
    assert row.final(0) is row.final(65) is None
    evaluation = row.evaluations[3]
    assert (evaluation.step, evaluation.rollouts, evaluation.seconds) == (300, 512 * 300, 30.0)
    at = [m["evaluations"]["value"][3][2] for m in metrics]
    assert evaluation.values[4] == seed_mean(at, 0.95, NOT_POSITIVE)
    for i, step in enumerate(metrics[0]["log"]["step"]):
        wanted = seed_mean([m["log"]["entropy"][i] for m in metrics], 0.95, NOT_NEGATIVE)
        assert same(row.log["entropy"][512 * step], wanted)
    for i, k in enumerate(tsp.ks):
        means = [np.mean(gap_by_hand(m, m["final"]["per_instance"][i])) for m in metrics]
        numbers[f"gap@{k}"] = seed_mean(means, 0.95, NOT_NEGATIVE)
    for name in ("greedy", "greedy_multistart"):
        values = [m["extras"][name]["value"] for m in metrics]
        numbers[f"extra_{name}"] = seed_mean(values, 0.95, NOT_POSITIVE)
        gaps = [np.mean(gap_by_hand(m, m["extras"][name]["per_instance"])) for m in metrics]
        numbers[f"gap_{name}"] = seed_mean(gaps, 0.95, NOT_NEGATIVE)
    found = estimates(row)
    assert all(same(found[name], wanted) for name, wanted in numbers.items())
    assert list(row.decoded) == [
        "T=1", "greedy", "greedy_augmented", "greedy_multistart", "multistart_sampling",
    ]  # fmt: skip


def test_a_seed_that_is_missing_or_unlike_the_others_leaves_no_average(tsp):
    cells = tsp.cells(points=TWO)
    lost = [tsp.record(cell, "failed" if cell["seed"] == 2 else "done") for cell in cells[:5]]
    rest = [tsp.record(cell) for cell in cells[5:]]
    summary = make_report(cells, lost + rest, name="it")
    row, other = (tsp.row_of(summary, *point) for point in (POMO, BEST))
    assert (row.finished, row.curve, row.evaluations, row.log) == ((0, 1, 3, 4), (), (), {})
    assert other.final(8).defined
    assert "4 of 5 seeds finished" in other.differences[8].reason
    ((failed, error),) = summary.origin.failed.items()
    assert failed.startswith(f"{row.key.path} seed 2 (cell ")
    assert error == "FloatingPointError: loss at step 3"

    def unlike(found, cell):
        found["steps"] -= 400 * (cell["seed"] == 0)

    (row, _) = tsp.report(cells, unlike).studies["training"].rows
    assert row.reason == "the seeds were trained or evaluated in different ways"
    assert row.curve == ()


def test_what_one_seed_lacks_is_undefined_with_its_reason(tsp):
    def holes(found, cell):
        if cell["seed"] == 1:
            found["final"]["value"][2] = None
            found["log"]["entropy"][3] = None
            found["extras"]["greedy"] = {"value": None, "reason": "no coordinates to turn"}
            for name in ("step", "reward/mean", "entropy", "grad_norm"):
                found["log"][name] = found["log"][name][1:]

    row = tsp.row_of(tsp.report(tsp.cells(points=TWO), holes), *BEST)
    assert row.final(3).reason == "not defined in every seed"
    assert row.final(4).defined
    (found,) = row.decoded["greedy"].curve
    assert (found.reason, row.decoded["greedy"].ks) == ("no coordinates to turn", ())
    assert estimates(row)["extra_greedy"] == found
    assert "difference_greedy" not in estimates(row)
    # Seeds are pooled by step, not by position.
    assert list(row.log["entropy"]) == [512 * step for step in range(100, 800, 100)]
    assert [k for k, one in row.log["entropy"].items() if math.isnan(one.value)] == [512 * 300]


@pytest.mark.parametrize("optima", ["none", "zero", "best known"])
def test_gaps_are_told_where_they_can_be_had(tsp, optima):
    def change(found, cell):
        if optima == "zero":
            found["reference"]["per_instance"][3] = 0.0

    how = {"reference": optima != "none", "exact": optima != "best known"}
    row = tsp.row_of(tsp.report(tsp.cells(points=TWO), change, **how), *BEST)
    if optima == "none":
        assert row.sampled.gaps == {}
        assert row.optimum.reason == "the optima of 20 cities take too long: ask for exact"
    elif optima == "zero":
        assert "the optimum of an instance is 0" in row.sampled.gaps[64].reason
    else:
        assert (row.sampled.gaps[64].defined, row.optimum.exact) == (True, False)


def test_values_that_differ_by_rounding_are_the_same(tsp):
    def change(found, cell):
        found["final"]["per_instance"][-1] = [
            best * (1 + 3e-7 * (cell["baseline"] == "group_mean"))
            for best in found["reference"]["per_instance"]
        ]

    summary = tsp.report(tsp.cells(points=TWO), change)
    assert tsp.row_of(summary, *POMO).sampled.gaps[64].value == 0


def test_one_seed_has_intervals_over_instances(tsp):
    row = tsp.row_of(tsp.report(tsp.cells(points=TWO, seeds=(3,))), *BEST)
    about = [row.sampled.gaps[64], row.final(3), row.differences[64]]
    assert {found.question for found in about} == {"new instances"}
    assert all(found.low < found.value < found.high for found in about)
    assert row.differences[64].width < 0.1 * row.final(64).width
    assert not any(found.defined for found in row.log["entropy"].values())


def test_an_old_record_has_what_it_has(tsp):
    def change(found, cell):
        for key in ("extras", "reference", "data", "log"):
            del found[key]

    summary = tsp.report(tsp.cells(points=TWO, setting=False), change)
    row = tsp.row_of(summary, *BEST)
    assert (list(row.decoded), row.sampled.gaps, row.log) == (["T=1"], {}, {})
    assert row.differences[64].defined
    kinds = {name.partition("@")[0] for name in estimates(row)}
    assert kinds == {"max", "difference", "steps", "rollouts"}


# What temperature 2 adds to Max@K on the held-out and on the tuning instances, from K = 8 on.
HOT = np.array([1, 1, 1, 1, 0])
HELD_OUT, TUNING = {POMO: 0.05, BEST: 0.03}, {POMO: 0.04, BEST: -0.01}


def decoded(found, cell):
    """Metrics with a second temperature, which POMO likes, and ways whose best is known."""
    point = cell["estimator"], cell["baseline"], cell["k"]
    final = found["final"]

    def shifted(values, by):
        steps = np.arange(1, len(values) + 1) >= HOTTER
        return (np.array(values) + by * steps).tolist()

    by = HELD_OUT[point]
    ends = {end: shifted(final[end], by) for end in ("value", "low", "high")}
    rows = zip(final["ks"], final["per_instance"], strict=True)
    ends["per_instance"] = [[value + by * (k >= HOTTER) for value in row] for k, row in rows]
    found["tempered"] = {"2.0": ends | {"ks": final["ks"]}}
    # Seed 4 of POMO has no K at which temperature 2 is better on its tuning instances.
    by = TUNING[point] * (-1 if (point, cell["seed"]) == (POMO, 4) else 1)
    tuning = (np.array(final["value"]) - 0.3).tolist()
    found["extras"][WAY] = found["extras"]["greedy_augmented"] | {"trajectories": 160}
    extras = dict.fromkeys(found["extras"], -9.0) | {WAY: -1.0 if point == POMO else -9.0}
    found["tuning"] = {
        "tempered": {"1.0": tuning, "2.0": shifted(tuning, by)},
        "extras": extras,
    }


@pytest.fixture(scope="module")
def rows(tsp):
    summary = tsp.report(tsp.cells(points=TWO), decoded)
    return summary, tsp.row_of(summary, *POMO), tsp.row_of(summary, *BEST)


@pytest.mark.parametrize(
    ("means", "best"),
    [
        ({"T=1": -4.0, "T=2": -3.9, "greedy": -4.1}, "T=2"),
        ({"T=0.5": -4.0, "T=1": -4.0, "greedy": -4.0}, "T=0.5"),
        ({"T=1": math.nan, "T=2": -5.0}, "T=2"),
        ({"T=1": math.nan}, None),
        ({}, None),
    ],
)
def test_the_best_mean_is_chosen_and_the_first_of_equals(means, best):
    assert best_on_tuning(means) == best


def test_every_seed_has_its_own_temperature_at_every_k_told_of_the_held_out_instances(rows):
    """Better on these or not: `subloo` would gain by another temperature, and does not get it."""
    _, pomo, best = rows
    tuned, plain = (row.decoded[OWN_TEMPERATURE] for row in (pomo, best))
    for k in (1, HOTTER - 1, HOTTER, SAMPLES):
        assert tuned.chosen[k] == ["T=1" if k < HOTTER else "T=2"] * 4 + ["T=1"]
    assert {way for of_seeds in plain.chosen.values() for way in of_seeds} == {"T=1"}
    for k in (1, 4, 8, 64):
        gained = HELD_OUT[POMO] * (k >= HOTTER)
        values = pomo.sampled.means[:, k - 1] + gained * HOT
        assert same(tuned.curve[k - 1], seed_mean(values, 0.95, NOT_POSITIVE))
        assert plain.curve[k - 1] == best.final(k)
        less = best.sampled.means[:, k - 1] - values
        assert same(plain.differences[k], seed_mean(less, 0.95))
    values = pomo.sampled.values[64] + HELD_OUT[POMO] * HOT[:, None]
    assert tuned.gaps[64].value == pytest.approx(gap(values, pomo.optima).mean())


def test_the_chosen_temperatures_and_their_numbers_are_in_the_tables(rows):
    summary, pomo, best = rows
    assert pomo.decoded["own_temperature"].chosen[64] == [*["T=2"] * 4, "T=1"]
    values = summary.tables.estimates.set_index(["row", "measure"]).value
    tuned = best.decoded[OWN_TEMPERATURE]
    path = best.key.path
    assert values[path, "own_temperature_difference@64"] == tuned.differences[64].value
    assert values[path, "own_temperature_gap@64"] == tuned.gaps[64].value
    assert values[pomo.key.path, "max@64_T=2"] == pomo.decoded["T=2"].curve[-1].value


def test_nothing_is_chosen_where_nothing_was_measured_for_it(tsp):
    def untuned(found, cell):
        decoded(found, cell)
        del found["tuning"]

    for row in tsp.report(tsp.cells(points=TWO, seeds=(0, 1)), untuned).studies["training"].rows:
        assert OWN_TEMPERATURE not in row.decoded
        assert "T=2" in row.decoded


def collapsed(found, cell):
    """Seed 3 of one row never got anywhere."""
    if (cell["baseline"], cell["seed"]) == ("centred", 3):
        final = found["final"]
        for end in ("value", "low", "high"):
            final[end] = [value - 4 for value in final[end]]
        final["per_instance"] = [[value - 4 for value in of_k] for of_k in final["per_instance"]]


def test_a_seed_that_ended_apart_is_named(tsp, study):
    summary = tsp.report(tsp.cells(points=[*ONE, *TWO]), collapsed)
    row, other = tsp.row_of(summary, *CENTRED), tsp.row_of(summary, *BEST)
    assert row.sampled.apart == (3,)
    assert other.sampled.apart == ()
    rows = study.studies["training"].rows
    assert sum(bool(row.sampled.apart) for row in rows) <= 0.25 * len(rows)


@pytest.mark.parametrize(("instances", "apart"), [("", ()), ("0123", (3,))])
def test_what_the_instances_of_a_seed_explain_is_not_apart(tsp, instances, apart):
    """One instance of one seed missed, all others solved: apart only where instances are shared."""

    def missed(found, cell):
        found["data"] = {"instances": instances or f"{cell['seed']:016x}", "source": "it"}
        one = [1.0 - (cell["seed"] == 3)] + [1.0] * 31
        final, count = found["final"], len(found["final"]["value"])
        final["per_instance"] = [one for _ in final["per_instance"]]
        final["value"] = [sum(one) / 32] * count

    (row,) = tsp.report(tsp.cells(points=ONE), missed).studies["training"].rows
    assert row.sampled.apart == apart


def with_settings(cells, **overridden):
    """The cells of a grid's entry that overrides these settings, given by dotted keys."""
    made = []
    for cell in cells:
        training = dict(cell["training"])
        for key, value in overridden.items():
            block, _, name = key.rpartition("__")
            given = {block: {**training.get(block, {}), name: value}} if block else {name: value}
            training |= given
        setting = {key.replace("__", "."): value for key, value in overridden.items()}
        name = f"{cell['id']}-{'-'.join(map(str, overridden.values()))}"
        setting = {**cell["setting"], **setting}
        made.append(cell | {"id": name, "training": training, "setting": setting})
    return made


@pytest.mark.parametrize(
    ("overridden", "word", "name"),
    [
        ({"start": "iid"}, "unbiased (proved)", ""),
        ({"start": "multistart"}, "unbiased (proved) for J_K^starts", " (start=forced)"),
        (
            {"k_schedule__kind": "step", "k_schedule__first": 2, "k_schedule__until": 200},
            "scheduled K",
            " (k_schedule(kind=step, first=2, until=200))",
        ),
        (
            {"weight_normalization": "zscore"},
            "biased",
            " (weight_normalization=zscore)",
        ),
        ({"max_grad_norm": None}, "unbiased (proved)", ""),
        ({"learning_rate": 1e-4}, "unbiased (proved)", " (learning_rate=0.0001)"),
    ],
)
def test_what_is_derived_of_a_row_is_of_its_own_settings(tsp, overridden, word, name):
    cells = with_settings(tsp.cells(points=ONE), **overridden)
    (row,) = tsp.report(cells).studies["training"].rows
    assert (row.bias_state, row.method) == (word, f"maxk centred{name}")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"start": "multistart"}, "unbiased (proved) for J_K^starts"),
        ({"k_schedule": {"kind": "step"}}, "scheduled K"),
        ({}, "unbiased (proved)"),
    ],
)
def test_a_shared_setting_that_bends_the_gradient_stands_beside_what_the_pair_is(
    tsp, settings, word
):
    cells = tsp.cells(points=ONE, setting=False, **settings)
    (row,) = tsp.report(cells).studies["training"].rows
    assert row.bias_state == word


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, []),
        ({"loss": {"aggregation": "seq_sum"}, "max_grad_norm": None}, []),
        ({"loss": {"aggregation": "token_mean"}}, ["aggregation token_mean"]),
        ({"loss": {"aggregation": "fixed"}}, []),  # a constant factor
        ({"weight_normalization": "zscore"}, ["weight_normalization zscore"]),
        ({"normalize_advantages": True}, ["normalize_advantages"]),
        # The clipped mean is not the mean of the clipped.
        ({"max_grad_norm": 1.0}, ["max_grad_norm 1.0"]),
        ({"entropy_bonus": 0.01}, ["entropy_bonus 0.01"]),
        ({"kl": {"place": "loss"}}, ["kl in the loss"]),
        ({"reward_clip": [-5, 0]}, ["reward_clip [-5.0, 0.0]"]),
        ({"reward_scale": 0.1}, ["reward_scale 0.1 (scale only)"]),
        ({"inner_epochs": 2}, ["inner_epochs above 1"]),
    ],
)  # fmt: skip
def test_settings_that_bias(settings, said):
    assert [*biasing(StepSettings.model_validate(settings)).values()] == said
