"""Trained rows: pooled over seeds by hand, in every decoding, with what is known of each."""

import math
from dataclasses import replace

import numpy as np
import pytest
from trained_rows import row as trained_row

from maxk_lab.ranges import NOT_NEGATIVE, NOT_POSITIVE
from maxk_lab.reports.report import make_report
from maxk_lab.statistics.seeds import seed_mean
from maxk_lab.studies.training.pool import best_on_tuning, estimates, gap
from maxk_lab.studies.training.row import OWN_TEMPERATURE, biasing
from maxk_lab.training.settings import Settings, StepSettings

POMO, BEST, CENTRED = ("reinforce", "group_mean", 1), ("maxk", "subloo", 8), ("maxk", "centred", 8)
ONE = [("maxk", "centred", 16, 8, "iid")]
TWO = [("reinforce", "group_mean", 16, 1, "iid"), ("maxk", "subloo", 16, 8, "iid")]
SAMPLES, HOTTER = 64, 8


def metrics_of(tsp, point):
    """The metrics of the five seeds of a row."""
    planned = (c for c in tsp.cells() if (c["estimator"], c["baseline"], c["k"]) == point)
    return [tsp.record(cell).metrics for cell in planned if "start" not in cell["training"]]


def same(interval, expected):
    ends = (expected.value, expected.low, expected.high)
    return (interval.value, interval.low, interval.high) == pytest.approx(ends, nan_ok=True)


def mean_gap(metrics, values):
    optima = metrics["reference"]["per_instance"]
    gaps = [100 * (best - value) / abs(best) for best, value in zip(optima, values, strict=True)]
    return np.mean(gaps)


def test_every_number_of_a_row_is_pooled_over_its_seeds(study, tsp):
    row, metrics, numbers = tsp.row_of(study, *BEST), metrics_of(tsp, BEST), {}
    assert (row.finished, row.steps, row.rollouts) == ((0, 1, 2, 3, 4), 800, 512 * 800)
    for k in range(1, 65):
        means = [m["final"]["value"][k - 1] for m in metrics]
        assert row.final(k) == seed_mean(means, 0.95, NOT_POSITIVE)
    assert row.final(0) is row.final(65) is None
    evaluation = row.evaluations[3]
    assert (evaluation.step, evaluation.rollouts, evaluation.seconds) == (300, 512 * 300, 30.0)
    means = [m["evaluations"]["value"][3][2] for m in metrics]
    assert evaluation.values[4] == seed_mean(means, 0.95, NOT_POSITIVE)
    for i, step in enumerate(metrics[0]["log"]["step"]):
        means = [m["log"]["entropy"][i] for m in metrics]
        assert same(row.log["entropy"][512 * step], seed_mean(means, 0.95, NOT_NEGATIVE))
    for i, k in enumerate(tsp.ks):
        means = [mean_gap(m, m["final"]["per_instance"][i]) for m in metrics]
        numbers[f"gap@{k}"] = seed_mean(means, 0.95, NOT_NEGATIVE)
    for name in ("greedy", "greedy_multistart"):
        extras = [m["extras"][name] for m in metrics]
        means = [extra["value"] for extra in extras]
        numbers[f"extra_{name}"] = seed_mean(means, 0.95, NOT_POSITIVE)
        means = [mean_gap(*pair) for pair in zip(metrics, (e["per_instance"] for e in extras))]
        numbers[f"gap_{name}"] = seed_mean(means, 0.95, NOT_NEGATIVE)
    pooled = estimates(row)
    assert [name for name, expected in numbers.items() if not same(pooled[name], expected)] == []
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

    def unlike(metrics, cell):
        metrics["steps"] -= 400 * (cell["seed"] == 0)

    (row, _) = tsp.report(cells, unlike).studies["training"].rows
    assert row.reason == "the seeds were trained or evaluated in different ways"
    assert row.curve == ()


def test_what_one_seed_lacks_is_undefined_with_its_reason(tsp):
    def holes(metrics, cell):
        if cell["seed"] == 1:
            metrics["final"]["value"][2] = None
            metrics["log"]["entropy"][3] = None
            metrics["extras"]["greedy"] = {"value": None, "reason": "no coordinates to turn"}
            for series in metrics["log"].values():
                del series[0]

    row = tsp.row_of(tsp.report(tsp.cells(points=TWO), holes), *BEST)
    assert row.final(3).reason == "not defined in every seed"
    assert row.final(4).defined
    (greedy,) = row.decoded["greedy"].curve
    assert (greedy.reason, row.decoded["greedy"].ks) == ("no coordinates to turn", ())
    assert estimates(row)["extra_greedy"] == greedy
    assert "difference_greedy" not in estimates(row)
    # Seeds are pooled by step, not by position.
    entropy = row.log["entropy"]
    assert list(entropy) == [512 * step for step in range(100, 800, 100)]
    assert [k for k, value in entropy.items() if math.isnan(value.value)] == [512 * 300]


@pytest.mark.parametrize("optima", ["none", "zero", "best known", "reached"])
def test_gaps_need_optima_other_than_zero(tsp, optima):
    def change(metrics, cell):
        best = metrics["reference"].get("per_instance")
        if optima == "zero":
            best[3] = 0.0
        if optima == "reached":  # up to rounding
            metrics["final"]["per_instance"][-1] = [value * (1 + 3e-7) for value in best]

    options = {"reference": optima != "none", "exact": optima != "best known"}
    row = tsp.row_of(tsp.report(tsp.cells(points=TWO), change, **options), *BEST)
    if optima == "none":
        assert row.sampled.gaps == {}
        assert row.optimum.reason == "the optima of 20 cities take too long: ask for exact"
        return
    gap_at_64 = row.sampled.gaps[64]
    assert gap_at_64.defined == (optima == "best known")
    assert row.optimum.exact == (optima != "best known")
    assert ("the optimum of an instance is 0" in gap_at_64.reason) == (optima == "zero")
    assert (gap_at_64.value == 0) == (optima == "reached")


def test_one_seed_has_intervals_over_instances(tsp):
    row = tsp.row_of(tsp.report(tsp.cells(points=TWO, seeds=(3,))), *BEST)
    intervals = [row.sampled.gaps[64], row.final(3), row.differences[64]]
    assert {interval.question for interval in intervals} == {"new instances"}
    assert all(interval.low < interval.value < interval.high for interval in intervals)
    assert row.differences[64].width < 0.1 * row.final(64).width
    assert not any(entropy.defined for entropy in row.log["entropy"].values())


def test_an_old_record_has_what_it_has(tsp):
    def change(metrics, cell):
        for key in ("extras", "reference", "data", "log"):
            del metrics[key]

    row = tsp.row_of(tsp.report(tsp.cells(points=TWO, setting=False), change), *BEST)
    assert (list(row.decoded), row.sampled.gaps, row.log) == (["T=1"], {}, {})
    assert row.differences[64].defined
    kinds = {name.partition("@")[0] for name in estimates(row)}
    assert kinds == {"max", "difference", "steps", "rollouts"}


# What temperature 2 adds to Max@K on the held-out and on the tuning instances, from K = 8 on.
HOT = np.array([1, 1, 1, 1, 0])
HELD_OUT, TUNING = {POMO: 0.05, BEST: 0.03}, {POMO: 0.04, BEST: -0.01}


def decoded(metrics, cell):
    """Metrics with a second temperature, which POMO likes, and ways whose best is known."""
    point = cell["estimator"], cell["baseline"], cell["k"]
    final = metrics["final"]

    def shifted(values, by):
        steps = np.arange(1, len(values) + 1) >= HOTTER
        return (np.array(values) + by * steps).tolist()

    by = HELD_OUT[point]
    ends = {end: shifted(final[end], by) for end in ("value", "low", "high")}
    rows = zip(final["ks"], final["per_instance"], strict=True)
    ends["per_instance"] = [[value + by * (k >= HOTTER) for value in row] for k, row in rows]
    metrics["tempered"] = {"2.0": ends | {"ks": final["ks"]}}
    # Seed 4 of POMO has no K at which temperature 2 is better on its tuning instances.
    by = TUNING[point] * (-1 if (point, cell["seed"]) == (POMO, 4) else 1)
    tuning = (np.array(final["value"]) - 0.3).tolist()
    metrics["tuning"] = {"tempered": {"1.0": tuning, "2.0": shifted(tuning, by)}}


@pytest.mark.parametrize(
    ("means", "best"),
    [
        ({"T=1": -4.0, "T=2": -3.9, "greedy": -4.1}, "T=2"),
        ({"T=0.5": -4.0, "T=1": -4.0, "greedy": -4.0}, "T=0.5"),
        ({"T=1": math.nan, "T=2": -5.0}, "T=2"),
        ({"T=1": math.nan}, None),
    ],
)
def test_the_best_mean_is_chosen_and_the_first_of_equals(means, best):
    assert best_on_tuning(means) == best


def test_every_seed_has_its_best_temperature_of_the_tuning_instances(tsp):
    """Better on these or not: `subloo` would gain by another temperature, and does not get it."""
    summary = tsp.report(tsp.cells(points=TWO), decoded)
    pomo, best = (tsp.row_of(summary, *point) for point in (POMO, BEST))
    tuned, fixed = (row.decoded[OWN_TEMPERATURE] for row in (pomo, best))
    for k in (1, HOTTER - 1, HOTTER, SAMPLES):
        assert tuned.chosen[k] == ["T=1" if k < HOTTER else "T=2"] * 4 + ["T=1"]
    assert {name for of_seeds in fixed.chosen.values() for name in of_seeds} == {"T=1"}
    for k in (1, 4, 8, 64):
        gained = HELD_OUT[POMO] * (k >= HOTTER)
        values = pomo.sampled.means[:, k - 1] + gained * HOT
        assert same(tuned.curve[k - 1], seed_mean(values, 0.95, NOT_POSITIVE))
        assert fixed.curve[k - 1] == best.final(k)
        less = best.sampled.means[:, k - 1] - values
        assert same(fixed.differences[k], seed_mean(less, 0.95))
    values = pomo.sampled.values[64] + HELD_OUT[POMO] * HOT[:, None]
    assert tuned.gaps[64].value == pytest.approx(gap(values, pomo.optima).mean())
    table, path = summary.tables.estimates.set_index(["row", "measure"]).value, best.key.path
    assert table[path, "own_temperature_difference@64"] == fixed.differences[64].value
    assert table[path, "own_temperature_gap@64"] == fixed.gaps[64].value
    assert table[pomo.key.path, "max@64_T=2"] == pomo.decoded["T=2"].curve[-1].value


def test_nothing_is_chosen_without_tuning_instances(tsp):
    def untuned(metrics, cell):
        decoded(metrics, cell)
        del metrics["tuning"]

    for row in tsp.report(tsp.cells(points=TWO, seeds=(0, 1)), untuned).studies["training"].rows:
        assert OWN_TEMPERATURE not in row.decoded
        assert "T=2" in row.decoded


def collapsed(metrics, cell):
    """Seed 3 of one row never got anywhere."""
    if (cell["baseline"], cell["seed"]) == ("centred", 3):
        final = metrics["final"]
        for end in ("value", "low", "high"):
            final[end] = [value - 4 for value in final[end]]
        final["per_instance"] = [[value - 4 for value in of_k] for of_k in final["per_instance"]]


def test_a_seed_that_ended_apart_is_named(tsp, study):
    summary = tsp.report(tsp.cells(points=[*ONE, *TWO]), collapsed)
    assert tsp.row_of(summary, *CENTRED).sampled.apart == (3,)
    assert tsp.row_of(summary, *BEST).sampled.apart == ()
    rows = study.studies["training"].rows
    assert sum(bool(row.sampled.apart) for row in rows) <= 0.25 * len(rows)


@pytest.mark.parametrize("unscored", [0, 1, 31])
@pytest.mark.parametrize(("instances", "apart"), [("", ()), ("0123", (3,))])
def test_what_the_instances_of_a_seed_explain_is_not_apart(tsp, instances, apart, unscored):
    """One instance of one seed missed, all others solved: apart only where instances are shared."""

    def missed(metrics, cell):
        metrics["data"] = {"instances": instances or f"{cell['seed']:016x}", "source": "it"}
        solved = [1.0 - (cell["seed"] == 3)] + [1.0] * 31
        final, count = metrics["final"], len(metrics["final"]["value"])
        # An instance without a score does not hide the spread of the others.
        scored = [*solved[: 32 - unscored], *[None] * unscored] if cell["seed"] == 0 else solved
        final["per_instance"] = [scored for _ in final["per_instance"]]
        final["value"] = [sum(solved) / 32] * count

    (row,) = tsp.report(tsp.cells(points=ONE), missed).studies["training"].rows
    assert row.sampled.apart == apart


SCHEDULE = {"kind": "step", "first": 2, "until": 200}


@pytest.mark.parametrize(
    ("setting", "settings", "state", "name"),
    [
        ({"start": "iid"}, {}, "unbiased (proved)", ""),
        ({"start": "multistart"}, {"start": "multistart"},
         "unbiased (proved) for J_K^starts", " (start=forced)"),
        ({f"k_schedule.{name}": value for name, value in SCHEDULE.items()},
         {"k_schedule": SCHEDULE}, "scheduled K", " (k_schedule(kind=step, first=2, until=200))"),
        ({"weight_normalization": "zscore"}, {"weight_normalization": "zscore"},
         "biased", " (weight_normalization=zscore)"),
        ({"max_grad_norm": "none", "reward_clip": "none"}, {},
         "unbiased (proved)", ""),
        ({"reward_clip": "[-5.0, 0.0]"}, {"reward_clip": [-5, 0]},
         "biased", " (reward_clip=[-5.0, 0.0])"),
        ({"learning_rate": 1e-4}, {"learning_rate": 1e-4},
         "unbiased (proved)", " (learning_rate=0.0001)"),
        # Settings that all rows share bias all rows, unless they change the objective.
        ({}, {"start": "multistart"}, "unbiased (proved) for J_K^starts", ""),
        ({}, {"k_schedule": SCHEDULE}, "scheduled K", ""),
        ({}, {"max_grad_norm": 1.0}, "unbiased (proved)", ""),
    ],
)  # fmt: skip
def test_the_bias_and_the_name_of_a_row_are_of_its_own_settings(setting, settings, state, name):
    row = trained_row(("maxk", "centred", 2), [0, 1, 2, 3])
    key = replace(row.key, setting=tuple(setting.items()))
    row = replace(row, key=key, settings=Settings.from_mapping(settings))
    assert (row.bias_state, row.method) == (state, f"maxk centred{name}")


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, []),
        ({"loss": {"aggregation": "seq_sum"}, "max_grad_norm": None}, []),
        ({"loss": {"aggregation": "fixed"}}, []),  # a constant factor
        ({"normalize_advantages": True, "weight_normalization": "zscore", "inner_epochs": 2,
          "loss": {"aggregation": "token_mean"}, "kl": {"place": "loss"}, "max_grad_norm": 1.0,
          "reward_clip": [-5, 0], "reward_scale": 0.1, "entropy_bonus": 0.01},
         ["normalize_advantages", "weight_normalization zscore", "aggregation token_mean",
          "inner_epochs above 1", "max_grad_norm 1.0", "reward_clip [-5.0, 0.0]", "kl in the loss",
          "entropy_bonus 0.01", "reward_scale 0.1 (scale only)"]),
    ],
)  # fmt: skip
def test_settings_that_bias(settings, names):
    assert [*biasing(StepSettings.model_validate(settings)).values()] == names
