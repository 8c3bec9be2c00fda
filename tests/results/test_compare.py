"""Two runs compared: identical, equivalent, better, worse, lost; and the changes between them."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
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
from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Tables
from maxk_lab.results.changes import changes, differences
from maxk_lab.results.compare import PLACE, _findings, compare, least_seeds, rank_p_value, verdict
from maxk_lab.results.text import _texts

GRADIENT = SWEEP.partition("training:")[0] + "tracking: {wandb: disabled}\n"
CENTRED = "stage0/maxk/centred/n4/k2"
CHANGES = ("gradient.pool=128", "gradient.grid.baseline=[none,centred,subloo]", "training.steps=3")


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The run that others are compared with; no test changes it."""
    return measured(tmp_path_factory.mktemp("compared") / "before")


def copied(run, folder, change):
    """Return a copy of the run, each record changed; records that become None are removed."""
    copy = RunDirectory(shutil.copytree(run.root, folder / "after"))
    for cell in copy.ids():
        record = copy.read(cell)
        changed = change(record)
        if changed is None:
            forget(copy.root, cell)
        elif changed is not record:
            copy.write(replace(changed, content=None))
    return copy


def noisier(record):
    """The record with 30 times the variance of `centred`."""
    if (record.cell["study"], record.cell["baseline"]) != ("gradient", "centred"):
        return record
    metrics = json.loads(json.dumps(record.metrics))
    metrics["rare"] = [30 * added for added in metrics["rare"]]
    for moments in (metrics["units"], metrics["within"]):
        m2, square = np.array(moments["m2"]), np.array(moments["mean_square"])
        moments["m2"] = (square + 30 * (m2 - square)).tolist()
    return replace(record, metrics=metrics)


def rounded(record):
    """The record with every number moved by rounding, as on another processor."""
    moved = json.loads(json.dumps(record.metrics), parse_float=lambda text: float(text) + 1e-15)
    return replace(record, metrics=moved)


def lab(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def verdicts(comparison, row=CENTRED):
    """Return the verdicts on the numbers of a row by their measure."""
    numbers = comparison.numbers
    return dict(numbers[numbers.row == row].set_index("measure").verdict)


def alarms(comparison):
    return comparison.worse, comparison.missing, comparison.changed


def findings(comparison, *columns):
    return [*comparison.findings[list(columns)].itertuples(index=False, name=None)]


def test_a_run_and_its_bundle_are_identical(before, tmp_path):
    bundle = tmp_path / "it.zip"
    write_bundle(before, bundle)
    done = lab(before.root, bundle, "--format=json", "--fail-on=worse", "--fail-on=changed")
    assert done.exit_code == 0
    content = json.loads(done.stdout)
    assert content["verdicts"]["identical"] == len(content["numbers"]) > 30
    assert (content["tests"], content["changes"]) == (0, [])
    assert not content["worse"] | content["missing"] | content["changed"]
    columns = ["cell", "measure", "value", "low", "high"]
    run, bundled = (maxk_lab.load(each)[columns] for each in (before.root, bundle))
    assert run.equals(bundled)


@pytest.fixture(scope="module")
def after(before, tmp_path_factory):
    """A copy of the run with a larger variance of `centred`."""
    return copied(before, tmp_path_factory.mktemp("noisier"), noisier)


@pytest.fixture(scope="module")
def worse(before, after):
    """The comparison of the copy with the run."""
    return compare(before.root, after.root)


def test_a_larger_variance_is_worse(before, after, worse):
    assert verdicts(worse)["variance"] == "worse"
    assert verdicts(worse)["scale"] == "identical"
    assert set(verdicts(worse, "stage0/maxk/none/n4/k2").values()) == {"identical"}
    assert alarms(worse)[::2] == (True, True)
    back = compare(after.root, before.root, where="study=gradient,baseline=centred")
    assert verdicts(back)["variance"] == "better"
    assert alarms(back)[:2] == (False, False)
    assert set(back.numbers.row) == {CENTRED}


def test_the_interval_of_a_difference_is_made_from_the_intervals_of_both_runs(before, after):
    options = ("--measure=variance", "--fail-on=worse", "--format=json")
    done = lab(before.root, after.root, *options)
    assert done.exit_code == 1
    content = json.loads(done.stdout)
    assert (content["tests"], {line["measure"] for line in content["numbers"]}) == (1, {"variance"})
    (line,) = (line for line in content["numbers"] if line["verdict"] == "worse")
    assert line["level"] == 0.95
    ends = ("a", "a_high", "b", "b_low")
    a, a_high, b, b_low = (line[end] for end in ends)
    assert line["low"] == pytest.approx(b - a - math.hypot(b - b_low, a_high - a))
    (run,) = (
        maxk_lab.load(after, over="seeds")
        .query("row == @CENTRED and measure == 'variance'")[["value", "low"]]
        .itertuples(index=False)
    )
    assert run == (b, b_low)


def test_every_format_has_the_same_numbers(worse):
    lines = list(csv.DictReader(io.StringIO(worse.to("csv"))))
    assert [line["verdict"] for line in lines] == [*worse.numbers.verdict]
    (line,) = (line for line in lines if (line["measure"], line["row"]) == ("variance", CENTRED))
    assert float(line["b"]) > 20 * float(line["a"])
    content = json.loads(worse.to("json"))
    assert (content["worse"], len(content["numbers"])) == (True, len(worse.numbers))
    for name, most in (("terminal", 25), ("markdown", 35)):
        text = worse.to(name)
        assert {"worse", CENTRED} <= {*text.split()}
        assert "Changed: nothing in sweep and versions." in text
        assert len(text.splitlines()) <= most


def test_zero_is_a_number_and_undefined_is_a_dash():
    line = dict.fromkeys(("verdict", "row", "measure", "a_low", "b", "b_low", "b_high"))
    texts = _texts({**line, "a": 0.0, "a_high": 1.0})
    assert (texts["A"], texts["B"]) == ("0.00 [—, 1.00]", "— [—, —]")


def test_numbers_equal_up_to_rounding_are_identical(tmp_path):
    grid = "gradient.grid={estimator: maxk, baseline: [centred, group_mean], n: 4, k: 1}"
    small = ("gradient.complete=true", "gradient.instances=4", "seeds=[0]", "claims=[]", grid)
    run = measured(tmp_path / "run", *small)
    comparison = compare(run.root, copied(run, tmp_path, rounded).root)
    assert {"squared_bias", "weight_sum", "weight_min"} <= set(comparison.numbers.measure)
    assert comparison.verdicts["identical"] == len(comparison.numbers)


@pytest.mark.parametrize(
    ("before", "after", "redefined", "other_seeds", "states"),
    [
        ("supported", "supported", False, False, []),
        ("supported", "undecided", False, False, ["worse"]),
        ("supported", "undecided", False, True, ["changed"]),
        ("undecided", "supported", False, False, ["changed"]),
        ("supported", "supported", True, False, ["lost"]),
        ("refuted", "supported", True, False, ["redefined"]),
        ("supported", None, False, False, ["lost"]),
        (None, "supported", False, False, ["changed"]),
    ],
)
def test_a_claim_is_worse_lost_redefined_or_changed(before, after, redefined, other_seeds, states):
    runs, tables = [], []
    for verdict_of_run, bound in ((before, 1.0), (after, 0.5 if redefined else 1.0)):
        names = ["helps"] if verdict_of_run else []
        claims = [SimpleNamespace(name=name, at_least=bound) for name in names]
        runs.append(SimpleNamespace(plan=SimpleNamespace(spec=SimpleNamespace(claims=claims))))
        table = pd.DataFrame({"name": names, "verdict": [verdict_of_run] * len(names)})
        tables.append(Tables(pd.DataFrame(columns=PLACE), pd.DataFrame(), table))
    lines = _findings(runs, tables, other_seeds)
    assert [*lines.state] == states
    assert {*lines.kind} <= {"claim"}


def test_cells_without_a_result_are_counted(before, tmp_path):
    def incomplete(record):
        if record.cell["study"] == "training":
            return replace(record, status="failed", metrics=None, error="Traceback\nValueError: x")
        return None if (record.cell["study"], record.cell["seed"]) == ("weights", 1) else record

    run = copied(before, tmp_path, incomplete)
    comparison = compare(before.root, run.root)
    rows = [line for line in findings(comparison, "kind", "b", "state") if line[0] == "row"]
    assert rows == [("row", f"{n} of 3 seeds", "lost") for n in (0, 2)]
    assert alarms(compare(run.root, before.root)) == (False, False, True)
    done = lab(run.root, run.root, "--where", "study=training", "--fail-on", "changed")
    assert done.exit_code == 0
    assert "nothing could be compared" in done.output


def test_changed_settings_are_listed_and_rows_matched_by_key(before, tmp_path):
    comparison = compare(before.root, measured(tmp_path / "settings", *CHANGES).root)
    assert set(comparison.changes) == {
        "gradient.pool 64 -> 128",
        "gradient.grid.baseline none, centred, group_mean -> none, centred, subloo",
        "training.steps 2 -> 3",
    }
    lines = findings(comparison, "a", "b", "state")
    assert ("3 of 3 seeds", "absent", "lost") in lines
    assert ("absent", "3 of 3 seeds", "changed") in lines
    # Rows of another environment are other rows.
    arms = measured(tmp_path / "arms", "environment.arms=5", sweep=GRADIENT)
    comparison = compare(before.root, arms.root)
    assert comparison.numbers.empty
    assert len(comparison.findings) >= 8


def test_three_other_seeds_decide_nothing(before, tmp_path):
    comparison = compare(before.root, measured(tmp_path / "seeds", "seeds=[11,12,13]").root)
    counts = comparison.verdicts
    assert counts["better"] == counts["worse"] == counts["differs"] == counts["equivalent"] == 0
    assert counts["not significant"] > 20
    assert comparison.changes == ("seeds 0, 1, 2 -> 11, 12, 13",)
    text = comparison.to("terminal")
    assert "seeds in each run" in text
    assert len(text.splitlines()) <= 25


def test_many_other_seeds_decide_by_ranks(tmp_path):
    settings = "gradient.grid.baseline=centred", "gradient.instances=8"
    a, b = (
        measured(tmp_path / name, f"seeds={seeds}", *settings, sweep=GRADIENT)
        for name, seeds in (("a", [0, 1, 2, 3]), ("b", [5, 6, 7, 8]))
    )
    b = copied(b, tmp_path, noisier)
    assert verdicts(compare(a.root, b.root, measures=["variance"])) == {"variance": "worse"}


def test_versions_and_code_are_compared(before):
    origins = Origin(commits=("one",)), Origin(commits=("two",), versions={"torch": ("9",)})
    assert changes([before.spec()] * 2, origins) == ("git commit one -> two", "torch null -> 9")
    assert [*differences({"f": {"sha256": "a" * 64}}, {"f": {"sha256": "b" * 64}})] == [
        'f {"sha256": "aaaaaaaaaa"} -> {"sha256": "bbbbbbbbbb"}'
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": 0}, "alpha must be a number between 0 and 1"),
        ({"results": 3}, "a run is its name, folder or bundle, got 3"),
        ({"measures": ["variance", 3]}, "the measure 3"),
        ({"measures": "varianc"}, r"\(did you mean variance\?\)"),
        ({"where": "baseline=none,k=9"}, "no cell has k = 9"),
    ],
)
def test_a_wrong_argument_is_refused(before, worse, wrong, message):
    with pytest.raises(LabError, match=message):
        compare(**{"a": before.root, "b": before.root} | wrong)
    with pytest.raises(LabError, match="unknown format 'html'"):
        worse.to("html")


@pytest.mark.parametrize(
    ("low", "high", "better", "word"),
    [
        (0.5, 2.0, "lower", "worse"),
        (0.5, 2.0, "higher", "better"),
        (0.5, 2.0, "", "differs"),
        (-1.0, 3.0, "lower", "not significant"),
        (0.0, 0.9, "lower", "not significant"),
        (-0.1, 0.9, "lower", "not significant"),
        (math.nan, math.nan, "lower", "not significant"),
    ],
)
def test_the_verdict_on_a_difference(low, high, better, word):
    line = {"value_a": 10.0, "value_b": 11.0, "low": low, "high": high, "better": better}
    line |= {"rounding": 1e-9, "other_draws": False, "p_value": math.nan}
    assert verdict(line, 0.05)[0] == word
    # A tie is below 1 % of A, whatever the sign; a difference of rounding is none.
    assert verdict(line | {"value_a": 1000.0, "low": -10, "high": 9.9}, 0.05)[0] == "equivalent"
    assert verdict(line | {"value_b": 10.0 + 1e-10}, 0.05)[0] == "identical"
    assert verdict(line | {"value_b": math.nan}, 0.05) == ("not significant", "undefined in B")


def test_the_rank_test_is_exact_and_ties_count_against_a_difference():
    rng = np.random.default_rng(0)
    for n, m in ((6, 5), (1, 4), (12, 9)):
        a, b = rng.normal(size=n), rng.normal(size=m)
        expected = stats.mannwhitneyu(a, b, method="exact").pvalue
        assert rank_p_value(a, b, 1e-12) == pytest.approx(expected)
    assert rank_p_value([0.0] * 4, [0.0] * 4, 1e-9) == 1.0
    apart, touching = ([x, 4.0, 5.0, 6.0] for x in (3.5, 3.0))
    p_values = [rank_p_value([0.0, 1.0, 2.0, 3.0], b, 1e-9) for b in (apart, touching)]
    assert p_values == pytest.approx([2 / 70, 4 / 70])
    assert math.isnan(rank_p_value([0.0, math.nan], [1.0, 2.0], 0.0))
    assert [least_seeds(alpha) for alpha in (0.05, 0.01, 1e-3)] == [4, 5, 7]
