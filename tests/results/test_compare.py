"""Two runs compared: identical, better, worse, new, gone; and what was changed."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from compared_runs import SWEEP, measured
from scipy import stats
from stored import forget
from typer.testing import CliRunner

import maxk_lab
from maxk_lab.cli import app
from maxk_lab.errors import LabError
from maxk_lab.execution.archive import write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.results.compare.changes import differences, settings
from maxk_lab.results.compare.comparison import ClaimChange, compare
from maxk_lab.results.compare.document import FORMATS
from maxk_lab.results.compare.numbers import (
    Effect,
    Estimate,
    between_seeds,
    set_against,
    verdict,
)
from maxk_lab.statistics.intervals import Interval, exactly, undefined
from maxk_lab.statistics.seeds import seed_mean

# Its row has the name of one of the other sweep.
OTHER_PROBLEM = """\
name: small
seeds: [0]
environment: {name: gaussian, reward: slope}
policy: {mean: 0.5, scale: 0.2}
weights:
  groups: 2
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
tracking: {wandb: disabled}
"""
GRADIENT = SWEEP.partition("training:")[0] + "tracking: {wandb: disabled}\n"
OTHERS = {
    "settings": (
        "gradient.pool=128",
        "gradient.grid.baseline=[none,centred,subloo]",
        "training.steps=3",
    ),
    "seeds": ("seeds=[0,1,7]",),
    "one_seed": ("seeds=[0]",),
    "all_seeds": ("seeds=[11,12,13]",),
    "environment": ("environment.arms=5",),
}
CENTRED = {"study": "gradient", "baseline": "centred"}


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The run that others are compared with; nobody changes it."""
    return measured(tmp_path_factory.mktemp("compared") / "before")


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Runs of the sweep with other settings: of everything, of seeds, of the environment."""
    folder = tmp_path_factory.mktemp("others")
    found = {name: measured(folder / name, *overrides) for name, overrides in OTHERS.items()}
    return found | {"problem": measured(folder / "problem", sweep=OTHER_PROBLEM)}


@pytest.fixture
def after(before, tmp_path):
    """A copy of the run, with every record that `change` says otherwise, or that it drops."""

    def copy(change=lambda record: record):
        run = RunDirectory(shutil.copytree(before.root, tmp_path / "after"))
        rewrite(run, change)
        return run

    return copy


def rewrite(run, change):
    for cell in run.ids():
        record = run.read(cell)
        other = change(record)
        if other is None:
            forget(run.root, cell)
        elif other is not record:
            run.write(replace(other, content=None))


def times(factor):
    """A change of records: that many times the variance of `centred`, on every instance."""

    def change(record):
        if not CENTRED.items() <= record.cell.items():
            return record
        metrics = json.loads(json.dumps(record.metrics))
        units, within = metrics["units"], metrics["within"]
        metrics["rare"] = [factor * added for added in metrics["rare"]]
        for i, (m2, mean_square) in enumerate(zip(units["m2"], units["mean_square"], strict=True)):
            units["m2"][i] = mean_square + factor * (m2 - mean_square)
            within["m2"][i] = [
                norm + factor * (block - norm)
                for block, norm in zip(within["m2"][i], within["mean_square"][i], strict=True)
            ]
        return replace(record, metrics=metrics)

    return change


def noisy(record):
    """The record with every exact number moved by rounding, as on another processor."""
    metrics = json.loads(json.dumps(record.metrics))
    if record.cell["study"] == "gradient":
        largest = max(metrics["units"]["m2"])
        for values in metrics["units"].values():
            values[:] = [value + 1e-15 * largest for value in values]
        for values in metrics["bias"].values():
            values[:] = [1.7 * one if one < 1e-20 else one * (1 + 1e-15) for one in values]
    elif record.cell["study"] == "weights":
        metrics["weights"][0][0] += 1e-15
        metrics["weight_sum"] += 5e-16
    return replace(record, metrics=metrics)


def lab(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def axes(number):
    return {"study": number.pair.kind, "baseline": number.pair.b.key.baseline}


def verdicts(found, **place):
    """The verdicts on the numbers of the rows on these axes."""
    chosen = [one for one in found.numbers if place.items() <= axes(one).items()]
    return {one.measure: one.verdict for one in chosen}


def terminal(found):
    return " ".join(found.to("terminal").split())


def alarms(found):
    return found.worse, found.missing, found.changed


def test_a_run_measured_twice_is_identical(before, after):
    run = after()
    found = compare(before.root, run.root)
    assert found.counts["identical"] == 15
    assert {one.verdict for one in found.numbers} == {"identical"}
    assert alarms(found) == (False, False, False)
    done = lab(
        *(before.root, run.root),
        *("--fail-on", "worse", "--fail-on", "changed", "--fail-on", "missing"),
    )
    assert done.exit_code == 0
    assert "Cells: 15 identical to the last digit." in done.stdout


def test_twice_the_variance_is_worse_by_a_paired_ratio_of_exactly_two(before, after):
    run = after(times(2.0))
    found = compare(before.root, run.root)
    told = verdicts(found, **CENTRED)
    assert told["variance"] == "worse"
    assert told["snr"] in ("worse", "not significant")  # it is divided by a weak signal
    assert told["scale"] == told["cosine"] == "identical"
    assert set(verdicts(found, study="gradient", baseline="none").values()) == {"identical"}
    (number,) = (one for one in found.numbers if axes(one) == CENTRED and one.verdict == "worse"
                 and one.measure == "variance")  # fmt: skip
    assert (number.effect.paired, number.effect.ratio) == ("seed and instance", True)
    interval = number.effect.interval
    assert (interval.low, interval.value, interval.high) == pytest.approx((2, 2, 2))
    assert found.counts["other_numbers"] == 3
    assert alarms(found) == (True, False, True)
    assert lab(before.root, run.root, "--fail-on", "worse").exit_code == 1
    back = compare(run.root, before.root)
    assert verdicts(back, **CENTRED)["variance"] == "better"
    assert alarms(back) == (False, False, True)
    only = compare(before.root, run.root, where="study=gradient,baseline=none")
    assert {one.pair.b.key.path for one in only.numbers} == {"stage0/maxk/none/n4/k2"}
    for measures in (["variance"], "variance"):
        only = compare(before.root, run.root, measures=measures)
        assert (only.tests, set(verdicts(only))) == (1, {"variance"})


def test_what_is_surely_too_little_to_matter_is_a_tie(before, after):
    run = after(times(1.001))
    for tie, said in {0.01: "tie", 0.0: "worse"}.items():
        assert verdicts(compare(before.root, run.root, tie=tie), **CENTRED)["variance"] == said


def test_rounding_is_neither_worse_nor_another_number(tmp_path):
    grid = "gradient.grid={estimator: maxk, baseline: [centred, group_mean], n: 4, k: 1}"
    small = ("gradient.complete=true", "gradient.instances=4", "seeds=[0]", "claims=[]", grid)
    one, other = (measured(tmp_path / name, *small) for name in "ab")
    rewrite(other, noisy)
    found = compare(one.root, other.root, tie=0.0)
    told = verdicts(found, **CENTRED) | verdicts(found, study="weights")
    assert {"squared_bias", "weight_sum", "weight_min"} <= set(told)
    counts = found.verdicts
    assert (counts["worse"], counts["better"], counts["differs"]) == (0, 0, 0)
    assert counts["tie"] > 5


def test_a_claim_that_loses_its_support_is_worse(before, after):
    found = compare(after(times(0.01)).root, before.root)
    (claim,) = found.claims
    assert (claim.name, claim.a, claim.b) == ("centring helps", "supported", "undecided")
    assert (claim.worse, found.worse) == (True, True)
    # But where the seeds are others, by which alone its verdict may change.
    assert not replace(claim, other_seeds=True).worse
    assert not ClaimChange("a claim", "undecided", "supported", "").worse
    assert "WORSE: centring helps: supported -> undecided" in terminal(found)


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (0.5, "not the same claim: at_least 1.0 -> 0.5"),  # loosened
        (1000.0, "not the same claim: at_least 1.0 -> 1000.0"),  # tightened until it is refuted
        (None, "MISSING: centring helps: supported -> not in this run"),
    ],
)
def test_a_claim_that_was_redefined_or_is_gone_is_not_judged_by_its_name(after, bound, said):
    supported = after(times(0.01))
    other = RunDirectory(shutil.copytree(supported.root, supported.root.with_name("other")))
    spec = supported.spec()
    claims = [claim.model_copy(update={"at_least": bound}) for claim in spec.claims if bound]
    other.write_spec(spec.model_copy(update={"claims": tuple(claims)}))
    found = compare(supported.root, other.root)
    (claim,) = found.claims
    assert (claim.worse, claim.missing) == (False, True)
    assert alarms(found) == (False, True, True)
    assert said in terminal(found)
    if bound == 1000.0:
        assert alarms(compare(other.root, supported.root)) == (False, False, True)


def test_what_a_run_does_not_plan_is_gone_or_new(before, others):
    fewer = others["one_seed"]
    found = compare(before.root, fewer.root)
    told = {one.path: (one.state, one.reason, one.missing) for one in found.absences}
    assert len(told) == 5
    assert set(told.values()) == {("gone", "B does not plan seeds 1, 2", True)}
    assert found.missing
    back = compare(fewer.root, before.root)
    assert (back.absences, back.missing, back.changed) == ((), False, True)
    # Rows of another environment do not stand for those of this one, whatever their names.
    found = compare(before.root, others["problem"].root)
    assert (found.numbers, alarms(found)) == ((), (False, True, True))
    assert (found.counts["gone"], found.counts["new"]) == (15, 1)


def test_what_has_no_result_is_told_with_its_reason(before, after):
    def change(record):
        if record.cell["study"] == "weights" and record.cell["seed"] == 1:
            return None
        if record.cell["study"] == "training":
            return replace(
                record, status="failed", metrics=None, error="Traceback\nValueError: why\nadvice"
            )
        return record

    run = after(change)
    found = compare(before.root, run.root)
    assert {one.path: one.reason for one in found.absences} == {
        "training/maxk/centred/n4/k2": "B: "
        + "; ".join(f"seed {seed} failed (ValueError: why)" for seed in range(3)),
        "weights/maxk/centred/n4/k2": "B: seed 1 missing",
    }
    assert found.counts["without"] == 4
    assert alarms(found) == (False, True, True)
    # What is new is no loss; what has no result in either is no change.
    assert alarms(compare(run.root, before.root)) == (False, False, True)
    again = compare(run.root, run.root)
    assert (again.counts["identical"], again.counts["neither"], again.changed) == (11, 4, False)
    done = lab(run.root, before.root, "--where", "study=training", "--fail-on", "worse")
    assert done.exit_code == 0
    assert "nothing could be compared" in done.output


def test_changed_settings_are_told_in_words_and_their_rows_are_paired(before, others):
    found = compare(before.root, others["settings"].root)
    assert found.settings == (
        "gradient.pool 64 -> 128",
        "gradient.grid.baseline: added subloo; removed group_mean",
        "training.steps 2 -> 3",
    )
    assert found.meanings == (
        "pool 64 -> 128 (6 of 9 cells)",
        "training.steps 2 -> 3 (3 of 9 cells)",
    )
    counts = found.counts
    assert (counts["identical"], counts["paired"], counts["new"], counts["gone"]) == (3, 9, 3, 3)
    assert [(one.state, one.path, one.missing) for one in found.absences] == [
        ("gone", "stage0/maxk/group_mean/n4/k2", True),
        ("new", "stage0/maxk/subloo/n4/k2", False),
    ]
    paired = Counter(number.effect.paired for number in found.numbers)
    assert paired["seed and instance"] > 5
    assert paired["seed"] == 6  # Max@K and its gap, at three K
    # A row is found by its name where a parameter of the environment is another.
    found = compare(before.root, others["environment"].root)
    assert found.settings == ("environment.arms 4 -> 5",)
    assert len({id(one.pair) for one in found.numbers}) == 5
    assert {one.effect.paired for one in found.numbers if one.pair.kind == "gradient"} == {""}


def test_other_seeds_are_not_paired_and_their_intervals_are_wide(before, others):
    found = compare(before.root, others["seeds"].root)
    assert found.settings == ("seeds: added 7; removed 2",)
    compared = [number for number in found.numbers if number.verdict != "identical"]
    assert {number.effect.paired for number in compared} == {""}
    for number in compared:
        a, b = number.a.interval, number.b.interval
        if number.effect.interval.defined and not number.effect.ratio:
            assert number.effect.interval.width >= max(a.width, b.width)
    assert found.counts["gone"] == found.counts["new"] == 5


def test_other_seeds_alone_are_neither_better_nor_worse(before, others):
    """Of three seeds each nothing is decided, whatever intervals that hold the policies say."""
    found = compare(before.root, others["all_seeds"].root, tie=0)
    said = found.verdicts
    assert said["better"] == said["worse"] == said["differs"] == 0
    assert said["differs for these seeds"] > 0
    assert not found.worse
    assert "differs for these seeds" in terminal(found)


def test_many_other_seeds_decide_what_differs_in_all_of_them(tmp_path):
    one, other = (
        measured(
            tmp_path / name, f"seeds={seeds}", "gradient.grid.baseline=centred", sweep=GRADIENT
        )
        for name, seeds in (("a", [0, 1, 2, 3, 4]), ("b", [5, 6, 7, 8, 9]))
    )
    rewrite(other, times(4.0))
    found = compare(one.root, other.root, measures="variance")
    assert verdicts(found) == {"variance": "worse"}
    (number,) = found.numbers
    assert number.effect.ratio
    assert number.effect.interval.question == "seeds"
    assert number.effect.interval.low > 1
    assert compare(other.root, one.root, measures="variance").verdicts["better"] == 1


def test_other_code_and_origins_are_told(before, after):
    run = after(lambda record: replace(record, provenance={"git": {"commit": "two"}, "code": "x"}))
    found = compare(before.root, run.root)
    assert found.origins == ("git.commit one -> two", "code: x in B alone")
    assert not found.changed
    one, other = (
        before.spec().model_copy(update={"content": {"mine:short": {"sha256": letter * 64}}})
        for letter in "ab"
    )
    assert [*differences(settings(one), settings(other))] == [
        "code or files of mine:short changed (sha256 aaaaaaaaaaaa -> bbbbbbbbbbbb)"
    ]


def test_a_bundle_is_compared_and_loaded_as_its_run_is(before, tmp_path):
    bundle = tmp_path / "it.zip"
    write_bundle(before, bundle)
    found = compare(before.root, bundle)
    assert found.counts["identical"] == 15
    assert not found.changed
    columns = ["cell", "measure", "value", "low", "high"]
    own, bundled = (maxk_lab.load(run)[columns] for run in (before.root, bundle))
    assert own.equals(bundled)


def test_every_format_tells_the_same(before, after):
    run = after(times(2.0))
    done = lab(before.root, run.root)
    assert done.exit_code == 0
    files = {name: file for name, (_, file) in FORMATS.items() if file}
    text = {
        file: lab(before.root, run.root, "--format", name).stdout for name, file in files.items()
    }
    lines = list(csv.DictReader(io.StringIO(text["comparison.csv"])))
    (line,) = (one for one in lines if (one["measure"], one["verdict"]) == ("variance", "worse"))
    assert (float(line["change"]), line["change_of"]) == (pytest.approx(2), "ratio")
    assert len(lines) == len(compare(before.root, before.root).numbers)
    found = json.loads(text["comparison.json"])
    assert (found["worse"], found["cells"]["other_numbers"]) == (True, 3)
    assert any(one["verdict"] == "worse" for one in found["gradient"])
    assert "| × 2.00 [2.00, 2.00] |" in text["comparison.md"]
    assert "[2.00, 2.00]" in done.stdout
    assert "worse" in done.stdout


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("no_such", "run"), "no run"),
        (("RUN", "RUN", "--measure", "varianc"), "(did you mean variance?)"),
        (("RUN", "RUN", "--where", "baseline=none,k=9"), "no cell has k = 9"),
        (("RUN", "RUN", "--format", "html"), "unknown format 'html'"),
        (("RUN", "RUN", "--fail-on", "all"), "Invalid value"),
    ],
)
def test_a_mistake_is_told_and_exits_with_two(before, asked, said):
    done = lab(*(str(before.root) if word == "RUN" else word for word in asked))
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tie": 2.0}, "tie must be a share"),
        ({"tie": "x"}, "tie must be a share"),
        ({"level": 1.5}, "level must be a number between 0 and 1"),
        ({"alpha": 0}, "alpha must be a number between 0 and 1"),
        ({"alpha": 1e-300}, "alpha must be a number between 0 and 1"),
        ({"alpha": 2}, "alpha must be a number between 0 and 1"),
        ({"b": 3}, "a run is its name, folder or bundle, got 3"),
        ({"results": 3}, "a run is its name, folder or bundle, got 3"),
        ({"measures": 3}, "measures must be names"),
        ({"measures": ["variance", 3]}, "measures must be names"),
        ({"measures": "varianc"}, "did you mean variance"),
    ],
)
def test_a_wrong_argument_is_told(before, wrong, said):
    with pytest.raises(LabError, match=said):
        compare(**{"a": before.root, "b": before.root} | wrong)


def known(value, low, high, **how):
    question = how.pop("question", "fixed instances")
    interval = Interval(value, low, high, 0.975, question=question)
    return Estimate(interval, better="lower", **how)


TWO = known(2.0, 1.0, 4.0)
FIVE = known(5.0, 3.0, 8.0)


@pytest.mark.parametrize(
    ("a", "b", "ratio", "ends"),
    [
        (TWO, FIVE, False, (-1.0, 3.0, 7.0)),  # farthest apart
        (replace(TWO, as_ratio=True), FIVE, True, (0.75, 2.5, 8.0)),
        (known(2.0, 0.0, 4.0, as_ratio=True), FIVE, True, (0.75, 2.5, math.inf)),
        (known(2.0, -1.0, 4.0, as_ratio=True), FIVE, False, (-1.0, 3.0, 9.0)),
        (Estimate(exactly(2.0)), Estimate(exactly(5.0)), False, (3.0, 3.0, 3.0)),
    ],
)
def test_the_difference_of_two_intervals_or_their_ratio(a, b, ratio, ends):
    found = set_against(a, b, 0.95)
    assert (found.ratio, found.paired) == (ratio, "")
    assert (found.interval.low, found.interval.value, found.interval.high) == ends
    assert found.interval.question == a.interval.question


@pytest.mark.parametrize(
    ("b", "reason"),
    [
        (
            known(1.0, 0.5, 1.5, question="new instances"),
            "A's interval is about fixed instances, B's about new instances",
        ),
        (Estimate(undefined(0.95, "too few")), "too few"),
    ],
)
def test_what_says_something_else_is_not_set_against_it(b, reason):
    found = set_against(TWO, b, 0.95).interval
    assert (found.defined, found.reason) == (False, reason)


@pytest.mark.parametrize(("count", "others", "level"), [(4, 4, 0.95), (6, 5, 0.95), (9, 7, 0.999)])
def test_other_seeds_have_the_interval_that_mann_and_whitney_s_test_does_not_reject(
    count, others, level
):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=count), rng.normal(size=others)
    found = between_seeds(a, b, level, ratio=False)
    assert (found.interval.question, found.paired) == ("seeds", "")
    assert found.interval.value == np.median(np.subtract.outer(b, a))
    for end, away in ((found.interval.low, -1e-9), (found.interval.high, 1e-9)):
        beyond, within = (
            stats.mannwhitneyu(b - (end + step), a, method="exact").pvalue for step in (away, -away)
        )
        assert beyond <= 1 - level < within


def test_values_of_seeds_may_be_too_few_undefined_or_divided():
    three, four = np.arange(3.0), np.arange(4.0)
    found = between_seeds(three, three + 100, 0.95, ratio=False).interval
    assert (found.value, found.defined, found.reason) == (100, False, "3 and 3 seeds: too few")
    assert between_seeds(four, four + 100, 0.95, ratio=False).interval.defined
    holes = np.array([1.0, 2.0, 3.0, np.nan])
    found = between_seeds(holes, four, 0.95, ratio=False).interval
    assert (found.defined, found.reason) == (False, "not defined in every seed")
    a, b = np.array([1.0, 2.0, 4.0, 8.0]), np.array([10.0, 20.0, 40.0, 80.0])
    found = between_seeds(a, b, 0.95, ratio=True)
    assert (found.ratio, found.interval.value) == (True, 10.0)
    assert (found.interval.low, found.interval.high) == (1.25, 80.0)


@pytest.mark.parametrize("tied", [0.0, 1.0, -1.0], ids=["independent", "tied", "opposed"])
def test_the_interval_of_a_difference_covers_however_the_two_are_tied(tied):
    rng = np.random.default_rng(0)
    count, covered = 1000, 0
    for _ in range(count):
        mine, own = rng.standard_normal((2, 5))
        theirs = 0.3 + (tied * mine if tied else own)
        a, b = (Estimate(seed_mean(values, 0.975)) for values in (mine, theirs))
        found = set_against(a, b, 0.95).interval
        covered += found.low <= 0.3 <= found.high
    assert covered >= 0.94 * count


@pytest.mark.parametrize(
    ("low", "high", "ratio", "better", "said"),
    [
        (0.5, 2.0, False, "lower", "worse"),
        (-2.0, -0.5, False, "lower", "better"),
        (0.5, 2.0, False, "higher", "better"),
        (0.5, 2.0, False, "", "differs"),
        (-1.0, 2.0, False, "lower", "not significant"),
        (0.01, 0.09, False, "lower", "tie"),
        (0.01, 0.11, False, "lower", "worse"),
        (math.nan, math.nan, False, "lower", "not significant"),
        (1.5, 2.0, True, "lower", "worse"),
        (0.2, 0.9, True, "lower", "better"),
        (0.9, 1.1, True, "lower", "not significant"),
        (0.995, 1.005, True, "lower", "tie"),
    ],
)
def test_the_verdict_on_a_difference_or_ratio(low, high, ratio, better, said):
    effect = Effect(Interval(1.0 if ratio else 0.05, low, high, 0.95), ratio=ratio)
    a = Estimate(exactly(10.0 if ratio else -10.0), better=better)
    assert verdict(effect, a, a, tie=0.01) == said


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (5.3e-31, 8.0e-31, "tie"),
        (8.0e-31, 5.3e-31, "tie"),
        (0.0, 9.0e-19, "tie"),
        (9.0e-19, 1.1e-18, "tie"),
        (5.3e-31, 1.0e-2, "worse"),
        (1.0e-2, 5.3e-31, "better"),
        (1.0e-2, 1.0e-2 + 1e-17, "tie"),
    ],
)
def test_two_errors_of_rounding_are_a_tie_and_are_not_divided(a, b, said):
    one, other = (
        Estimate(exactly(value), better="lower", as_ratio=True, rounding=1e-18) for value in (a, b)
    )
    effect = set_against(one, other, 0.95)
    assert effect.ratio == (a > 1e-18)
    assert verdict(effect, one, other, tie=0.0) == said
