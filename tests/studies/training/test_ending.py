"""Optimality gaps, ways of decoding, quantiles, robust summaries: by hand, in every format."""

import csv
import io
import json
import math

import numpy as np
import pytest

from maxk_lab.ranges import NOT_NEGATIVE, NOT_POSITIVE
from maxk_lab.report.document import compact
from maxk_lab.report.figures import figures
from maxk_lab.report.formats.render import render
from maxk_lab.report.tables import estimates
from maxk_lab.statistics.seeds.over_seeds import over_seeds

POMO, BEST = ("reinforce", "group_mean", 1), ("maxk", "subloo", 8)


def own_metrics(tsp, point):
    """The metrics of the five seeds of a row."""
    planned = (
        cell for cell in tsp.cells() if (cell["estimator"], cell["baseline"], cell["k"]) == point
    )
    return [tsp.record(cell).metrics for cell in planned if "start" not in cell["training"]]


def gap_by_hand(metrics, values):
    optima = metrics["reference"]["per_instance"]
    return [100 * (best - value) / abs(best) for best, value in zip(optima, values, strict=True)]


def test_the_gap_is_in_percent_of_the_optimum_of_each_instance(study, tsp):
    row, metrics = tsp.row_of(study, *BEST), own_metrics(tsp, BEST)
    for i, k in enumerate(tsp.ks):
        means = [np.mean(gap_by_hand(m, m["final"]["per_instance"][i])) for m in metrics]
        wanted = over_seeds(means, 0.95, NOT_NEGATIVE)
        found = row.measures.gaps[k]
        assert (found.value, found.low, found.high) == pytest.approx(
            (wanted.value, wanted.low, wanted.high)
        )
    greedy = [np.mean(gap_by_hand(m, m["extras"]["greedy"]["per_instance"])) for m in metrics]
    assert row.measures.gaps["greedy"].value == pytest.approx(np.mean(greedy))
    # A cost above the optimum is a reward below it.
    assert all(gap.low > 0 for gap in row.measures.gaps.values())


def test_extras_and_quantiles_are_pooled_over_seeds(study, tsp):
    row, metrics = tsp.row_of(study, *BEST), own_metrics(tsp, BEST)
    assert list(row.measures.ways) == [
        "T=1", "greedy", "greedy_augmented", "greedy_multistart", "multistart_sampling",
    ]  # fmt: skip
    values = [m["extras"]["greedy_augmented"]["value"] for m in metrics]
    assert row.measures.ways["greedy_augmented"] == over_seeds(values, 0.95, NOT_POSITIVE)
    assert row.measures.quantiles["p90"] == over_seeds(
        [m["quantiles"]["p90"]["value"] for m in metrics], 0.95, NOT_POSITIVE
    )


def test_the_robust_summary_is_of_the_instances_of_each_seed_and_then_their_mean(study, tsp):
    row, mine, theirs = tsp.row_of(study, *BEST), own_metrics(tsp, BEST), own_metrics(tsp, POMO)
    gaps = [sorted(gap_by_hand(m, m["final"]["per_instance"][-1])) for m in mine]
    quarter = len(gaps[0]) // 4
    assert row.robust.of == "gap"
    middle = [np.mean(of_seed[quarter:-quarter]) for of_seed in gaps]
    assert row.robust.iqm.value == pytest.approx(np.mean(middle))
    quantiles = np.quantile(gaps, 0.9, axis=1, method="hazen")
    assert row.robust.quantiles["p90"].value == pytest.approx(np.mean(quantiles))
    wins = [
        a > b
        for m, o in zip(mine, theirs, strict=True)
        for a, b in zip(m["final"]["per_instance"][-1], o["final"]["per_instance"][-1], strict=True)
    ]
    assert row.robust.improvement.value == pytest.approx(np.mean(wins))
    assert row.robust.improvement.question == "seeds"
    assert tsp.row_of(study, *POMO).robust.improvement is None


@pytest.mark.slow
def test_values_that_differ_by_rounding_are_the_same(tsp):
    def change(found, cell):
        found["final"]["per_instance"][-1] = [
            best * (1 + 3e-7 * (cell["baseline"] == "group_mean"))
            for best in found["reference"]["per_instance"]
        ]

    row = tsp.row_of(tsp.report(tsp.cells(), change), *BEST)
    assert row.robust.improvement.value == 0.5
    pomo = tsp.row_of(tsp.report(tsp.cells(), change), *POMO)
    assert (pomo.robust.iqm.value, pomo.measures.gaps[64].value) == (0, 0)


@pytest.mark.slow
def test_without_optima_it_is_of_the_rewards(tsp):
    summary = tsp.report(tsp.cells(), reference=False)
    row = tsp.row_of(summary, *BEST)
    assert (row.robust.of, row.measures.gaps) == ("max@64", {})
    assert row.robust.iqm.value == pytest.approx(row.final(64).value, abs=0.1)
    assert row.measures.optimum.reason == "the optima of 20 cities take too long: ask for exact"
    flat = json.loads(render(summary, "json"))["training"][0]
    assert (flat["optima_by"], flat["robust_of"]) == ("none", "max@64")


@pytest.mark.slow
def test_a_gap_in_percent_of_nothing_is_undefined(tsp):
    def change(found, cell):
        found["reference"]["per_instance"][3] = 0.0

    row = tsp.row_of(tsp.report(tsp.cells(), change), *BEST)
    assert "the optimum of an instance is 0" in row.measures.gaps[64].reason
    assert row.robust.of == "max@64"


@pytest.mark.slow
def test_an_extra_that_an_environment_lacks_is_undefined_with_its_reason(tsp):
    def change(found, cell):
        found["extras"]["greedy_augmented"] = {"value": None, "reason": "no coordinates to turn"}

    row = tsp.row_of(tsp.report(tsp.cells(), change), *BEST)
    found = row.measures.ways["greedy_augmented"]
    assert math.isnan(found.value)
    assert found.reason == "no coordinates to turn"
    assert "greedy_augmented" not in row.measures.gaps


@pytest.mark.slow
def test_rows_of_different_instances_are_not_paired(tsp):
    def change(found, cell):
        if cell["baseline"] == "subloo":
            found["data"]["instances"] = "0123456789abcdef"

    row = tsp.row_of(tsp.report(tsp.cells(), change), *BEST)
    assert "were evaluated on different instances" in row.differences[64].reason
    assert "were evaluated on different instances" in row.robust.improvement.reason


@pytest.mark.slow
def test_one_seed_has_intervals_over_instances(tsp):
    summary = tsp.report(tsp.cells(seeds=(3,)))
    row = tsp.row_of(summary, *BEST)
    assert row.measures.gaps[64].low < row.measures.gaps[64].value < row.measures.gaps[64].high
    assert row.robust.iqm.low < row.robust.iqm.value < row.robust.iqm.high
    assert row.robust.iqm.question == row.measures.gaps[64].question == "instances like these"
    found = row.robust.quantiles["p99"]
    assert (found.known, found.reason) == (
        False,
        "p99: fewer than one of 32 instances is beyond it",
    )


@pytest.mark.slow
def test_every_format_has_the_same_numbers(study, tsp):
    row = tsp.row_of(study, *BEST)
    named = {
        "gap@64": row.measures.gaps[64],
        "gap_greedy": row.measures.gaps["greedy"],
        "extra_greedy_multistart": row.measures.ways["greedy_multistart"],
        "sample_p99": row.measures.quantiles["p99"],
        "iqm": row.robust.iqm,
        "improvement": row.robust.improvement,
        "instance_p50": row.robust.quantiles["p50"],
    }
    in_json = next(
        r
        for r in json.loads(render(study, "json"))["training"]
        if (r["baseline"], r["k"]) == ("subloo", 8)
    )
    lines = list(csv.DictReader(io.StringIO(render(study, "csv"))))
    in_csv = next(line for line in lines if (line["baseline"], line["k"]) == ("subloo", "8"))
    for name, found in named.items():
        for ending, value in (("", found.value), ("_low", found.low), ("_high", found.high)):
            assert in_json[f"{name}{ending}"] == float(in_csv[f"{name}{ending}"]) == value
        for format in ("markdown", "latex"):
            assert compact(found) in render(study, format), (name, format)
    assert (in_json["start"], in_json["derived"], in_json["robust_of"]) == (
        "iid",
        "unbiased",
        "gap",
    )
    assert (in_json["optima_by"], in_json["optima_exact"]) == ("milp", True)
    # Too few values beyond it for an interval: no number, anywhere.
    assert in_json["instance_p99"] is None
    assert in_csv["instance_p99"] == ""


@pytest.mark.slow
def test_a_record_without_these_measures_has_none_of_their_tables(tsp):
    def change(found, cell):
        for key in ("quantiles", "extras", "reference", "data"):
            del found[key]

    points = [point for point in tsp.points if point[4] == "iid" and point[1] != "sample_loo"]
    summary = tsp.report(tsp.cells(points=points, setting=False), change)
    row = tsp.row_of(summary, *BEST)
    assert (row.measures.quantiles, list(row.measures.ways), row.measures.gaps) == ({}, ["T=1"], {})
    assert not row.differences[64].reason
    flat = json.loads(render(summary, "json"))["training"][0]
    assert not [name for name in flat if name.startswith(("gap", "extra", "sample"))]
    assert "gap" not in {figure.name for figure in figures(summary)}


@pytest.mark.slow
def test_a_value_without_an_interval_is_told_and_drawn(tsp):
    """All seeds of a row at the optimum: nothing tells how much another would differ."""

    def change(found, cell):
        if cell["baseline"] == "subloo":
            final = found["final"]
            for end in ("value", "low", "high"):
                final[end][-1] = -3.5
            for end in ("value", "low", "high"):
                found["evaluations"][end][-1][-1] = -3.5

    summary = tsp.report(tsp.cells(), change)
    found = tsp.row_of(summary, *BEST).final(64)
    assert (found.value, found.known) == (-3.5, False)
    assert "the same in every seed" in found.reason
    (line,) = [
        line
        for line in estimates(summary.studies)
        if (line["estimator"], line["baseline"], line["k"]) == BEST and line["measure"] == "max@64"
    ]
    assert line["value"] == -3.5
    assert math.isnan(line["low"])
    assert "max_at_k" in {figure.name for figure in figures(summary, ["max_at_k"])}
