"""Two runs compared: identical, tied, better, worse, lost; and what was changed."""

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
from maxk_lab.reports.tables import Tables
from maxk_lab.results.changes import differences
from maxk_lab.results.compare import (
    PLACE,
    _findings,
    compare,
    least_seeds,
    rank_p_value,
    verdict,
)
from maxk_lab.results.text import FORMATS

GRADIENT = SWEEP.partition("training:")[0] + "tracking: {wandb: disabled}\n"
CENTRED = "stage0/maxk/centred/n4/k2"
CHANGES = ("gradient.pool=128", "gradient.grid.baseline=[none,centred,subloo]", "training.steps=3")


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The run that others are compared with; no test changes it."""
    return measured(tmp_path_factory.mktemp("compared") / "before")


@pytest.fixture
def after(before, tmp_path):
    """A copy of the run, each record changed by `change`; records that become None are removed."""

    def copy(change=lambda record: record):
        run = RunDirectory(shutil.copytree(before.root, tmp_path / f"after{change.__name__}"))
        rewrite(run, change)
        return run

    return copy


def rewrite(run, change):
    for cell in run.ids():
        record = run.read(cell)
        changed = change(record)
        if changed is None:
            forget(run.root, cell)
        elif changed is not record:
            run.write(replace(changed, content=None))


def times(factor):
    """A change of records: the variance of `centred` is multiplied by the factor."""

    def change(record):
        if (record.cell["study"], record.cell["baseline"]) != ("gradient", "centred"):
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
            values[:] = [1.7 * value if value < 1e-20 else value for value in values]
    elif record.cell["study"] == "weights":
        metrics["weights"][0][0] += 1e-15
        metrics["weight_sum"] += 5e-16
    return replace(record, metrics=metrics)


def lab(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def verdicts(comparison, row=CENTRED):
    """The verdicts on the numbers of a row by their measure."""
    numbers = comparison.numbers
    return dict(numbers[numbers.row == row].set_index("measure").verdict)


def alarms(comparison):
    return comparison.worse, comparison.missing, comparison.changed


def findings(comparison, *columns):
    return [*comparison.findings[list(columns)].itertuples(index=False, name=None)]


def test_a_run_measured_twice_is_identical(before, after):
    run = after()
    comparison = compare(before.root, run.root)
    assert comparison.verdicts["identical"] == len(comparison.numbers) > 30
    assert (comparison.tests, comparison.changes) == (0, ())
    assert alarms(comparison) == (False, False, False)
    done = lab(before.root, run.root, *(f"--fail-on={name}" for name in ("worse", "changed")))
    assert done.exit_code == 0
    assert "Changed: nothing in sweep and versions." in done.stdout


def test_more_variance_is_worse_with_the_intervals_of_both_runs(before, after):
    run = after(times(30.0))
    comparison = compare(before.root, run.root)
    assert verdicts(comparison)["variance"] == "worse"
    assert verdicts(comparison)["scale"] == "identical"
    assert set(verdicts(comparison, "stage0/maxk/none/n4/k2").values()) == {"identical"}
    assert alarms(comparison)[::2] == (True, True)
    assert lab(before.root, run.root, "--fail-on", "worse").exit_code == 1
    back = compare(run.root, before.root)
    assert verdicts(back)["variance"] == "better"
    assert alarms(back)[:2] == (False, False)
    only = compare(before.root, run.root, where="study=gradient,baseline=none")
    assert set(only.numbers.row) == {"stage0/maxk/none/n4/k2"}
    for measures in (["variance"], "variance"):
        only = compare(before.root, run.root, measures=measures)
        assert (only.tests, set(only.numbers.measure)) == (1, {"variance"})
    # The interval of the difference is made from both intervals at the corrected level.
    (line,) = only.numbers[only.numbers.verdict == "worse"].to_dict("records")
    assert line["level"] == 0.95
    a, b = (
        maxk_lab.load(each, over="seeds", level=0.95).query(
            f"row == '{CENTRED}' and measure == 'variance'"
        )
        for each in (before, run)
    )
    below = math.hypot(b.value.item() - b.low.item(), a.high.item() - a.value.item())
    assert line["low"] == pytest.approx(b.value.item() - a.value.item() - below)


def test_numbers_equal_up_to_rounding_are_identical(tmp_path):
    grid = "gradient.grid={estimator: maxk, baseline: [centred, group_mean], n: 4, k: 1}"
    small = ("gradient.complete=true", "gradient.instances=4", "seeds=[0]", "claims=[]", grid)
    a, b = (measured(tmp_path / name, *small) for name in "ab")
    rewrite(b, noisy)
    comparison = compare(a.root, b.root)
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


def test_a_row_with_fewer_seeds_in_b_is_lost(before, tmp_path):
    fewer = measured(tmp_path / "fewer", "seeds=[0]")
    comparison = compare(before.root, fewer.root)
    lines = findings(comparison, "kind", "a", "b", "state")
    rows = [line for line in lines if line[0] == "row"]
    assert set(rows) == {("row", "3 of 3 seeds", "1 of 1 seeds", "lost")}
    assert len(rows) >= 5
    assert comparison.changes[0] == "seeds 0, 1, 2 -> 0"
    back = compare(fewer.root, before.root)
    assert alarms(back) == (False, False, True)


def test_cells_without_a_result_are_counted(before, after):
    def gone(record):
        if record.cell["study"] == "training":
            return replace(record, status="failed", metrics=None, error="Traceback\nValueError: x")
        return None if (record.cell["study"], record.cell["seed"]) == ("weights", 1) else record

    run = after(gone)
    comparison = compare(before.root, run.root)
    rows = [line for line in findings(comparison, "kind", "b", "state") if line[0] == "row"]
    assert rows == [("row", f"{n} of 3 seeds", "lost") for n in (0, 2)]
    assert alarms(compare(run.root, before.root)) == (False, False, True)
    assert not compare(run.root, run.root).changed
    done = lab(run.root, before.root, "--where", "study=training", "--fail-on", "worse")
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
    assert len(comparison.to("terminal").splitlines()) <= 25
    # Rows of another environment are other rows.
    arms = compare(before.root, measured(tmp_path / "arms", "environment.arms=5").root)
    assert arms.numbers.empty
    assert len(arms.findings) >= 10


def test_other_seeds_alone_are_neither_better_nor_worse(before, tmp_path):
    comparison = compare(before.root, measured(tmp_path / "seeds", "seeds=[11,12,13]").root)
    counts = comparison.verdicts
    assert counts["better"] == counts["worse"] == counts["differs"] == counts["tied"] == 0
    assert counts["not significant"] > 20
    assert "seeds in each run" in comparison.to("terminal")
    assert len(comparison.to("terminal").splitlines()) <= 25


def test_many_other_seeds_decide_by_ranks(tmp_path):
    settings = "gradient.grid.baseline=centred", "gradient.instances=8"
    a, b = (
        measured(tmp_path / name, f"seeds={seeds}", *settings, sweep=GRADIENT)
        for name, seeds in (("a", [0, 1, 2, 3]), ("b", [5, 6, 7, 8]))
    )
    rewrite(b, times(30.0))
    assert verdicts(compare(a.root, b.root, measures="variance")) == {"variance": "worse"}
    assert verdicts(compare(b.root, a.root, measures="variance")) == {"variance": "better"}


def test_versions_and_code_are_compared(before, after):
    def commit(record):
        return replace(record, provenance={"git": {"commit": "two"}, "versions": {"torch": "9"}})

    comparison = compare(before.root, after(commit).root)
    assert comparison.changes == ("git commit one -> two", "torch null -> 9")
    assert not comparison.changed
    assert [*differences({"f": {"sha256": "a" * 64}}, {"f": {"sha256": "b" * 64}})] == [
        'f {"sha256": "aaaaaaaaaa"} -> {"sha256": "bbbbbbbbbb"}'
    ]


def test_a_bundle_is_compared_and_loaded_as_its_run_is(before, tmp_path):
    bundle = tmp_path / "it.zip"
    write_bundle(before, bundle)
    assert not compare(before.root, bundle).changed
    columns = ["cell", "measure", "value", "low", "high"]
    run, bundled = (maxk_lab.load(each)[columns] for each in (before.root, bundle))
    assert run.equals(bundled)


def test_every_format_has_the_same_numbers(before, after):
    run = after(times(30.0))
    text = {name: lab(before.root, run.root, "--format", name).stdout for name in FORMATS}
    numbers = compare(before.root, run.root).numbers
    lines = list(csv.DictReader(io.StringIO(text["csv"])))
    assert [line["verdict"] for line in lines] == [*numbers.verdict]
    (line,) = (line for line in lines if (line["measure"], line["row"]) == ("variance", CENTRED))
    assert float(line["b"]) > 20 * float(line["a"])
    content = json.loads(text["json"])
    assert (content["worse"], len(content["numbers"])) == (True, len(numbers))
    for name in ("terminal", "markdown"):
        assert {"worse", CENTRED} <= set(text[name].split())
        assert len(text[name].splitlines()) <= 35
    assert len(text["terminal"].splitlines()) <= 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no_such", "run"), "no run"),
        (("RUN", "RUN", "--measure", "varianc"), "(did you mean variance?)"),
        (("RUN", "RUN", "--where", "baseline=none,k=9"), "no cell has k = 9"),
        (("RUN", "RUN", "--format", "html"), "unknown format 'html'"),
        (("RUN", "RUN", "--fail-on", "all"), "Invalid value"),
    ],
)
def test_a_mistake_exits_with_two(before, arguments, message):
    done = lab(*(str(before.root) if word == "RUN" else word for word in arguments))
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": 0}, "alpha must be a number between 0 and 1"),
        ({"alpha": 2}, "alpha must be a number between 0 and 1"),
        ({"b": 3}, "a run is its name, folder or bundle, got 3"),
        ({"results": 3}, "a run is its name, folder or bundle, got 3"),
        ({"measures": ["variance", 3]}, "the measure 3"),
        ({"measures": "varianc"}, "did you mean variance"),
    ],
)
def test_a_wrong_argument_is_refused(before, wrong, message):
    with pytest.raises(LabError, match=message):
        compare(**{"a": before.root, "b": before.root} | wrong)


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
    assert verdict(line | {"value_a": 1000.0, "low": -10, "high": 9.9}, 0.05)[0] == "tied"
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
