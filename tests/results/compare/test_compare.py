"""Two runs compared: identical, better, worse, new, gone; and what was changed."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from compared_runs import measured
from typer.testing import CliRunner

import maxk_lab
from maxk_lab.cli import app
from maxk_lab.errors import LabError
from maxk_lab.results.compare.changes import settings_changed
from maxk_lab.results.compare.comparison import ClaimChange, compare
from maxk_lab.results.compare.document import FORMATS, Document, rendered
from maxk_lab.studies.gradient.pool import ANATOMY
from maxk_lab.sweeps.run.bundle import write_bundle
from maxk_lab.sweeps.run.records import RunDirectory

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
GRADIENT = """\
name: small
seeds: [0]
environment: {name: bandit, arms: 4}
gradient:
  instances: 16
  pool: 64
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
tracking: {wandb: disabled}
"""
EVERYTHING = ("--fail-on", "worse", "--fail-on", "changed", "--fail-on", "missing")


def lab(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def times(factor, baseline="centred"):
    """A change of records: that many times the variance, on every instance."""

    def change(record):
        cell = record.cell
        if cell["study"] != "gradient" or cell["baseline"] != baseline:
            return record
        metrics = json.loads(json.dumps(record.metrics))
        units, within = metrics["units"], metrics["within"]
        for i, (m2, mean_square) in enumerate(zip(units["m2"], units["mean_square"], strict=True)):
            units["m2"][i] = mean_square + factor * (m2 - mean_square)
            within["m2"][i] = [
                norm + factor * (block - norm)
                for block, norm in zip(within["m2"][i], within["mean_square"][i], strict=True)
            ]
        return replace(record, metrics=metrics)

    return change


def verdicts(found, **axes):
    """The verdicts on the numbers of the rows on these axes."""
    return {
        number.measure: number.verdict
        for row in found.rows
        if all(row.axes.get(axis) == value for axis, value in axes.items())
        for number in row.numbers
    }


def test_a_run_measured_twice_is_identical(before, after):
    run = after()
    found = compare(before.root, run.root)
    assert found.counts["identical"] == 15
    assert all(row.identical for row in found.rows)
    assert set(verdicts(found).values()) == {"identical"}
    assert (found.worse, found.changed, found.missing) == (False, False, False)
    done = lab(before.root, run.root, *EVERYTHING)
    assert done.exit_code == 0
    assert "Cells: 15 identical to the last digit." in done.stdout


def test_twice_the_variance_is_worse_by_a_paired_ratio_of_exactly_two(before, after):
    run = after(times(2.0))
    found = compare(before.root, run.root)
    centred = {"study": "gradient", "baseline": "centred"}
    told = verdicts(found, **centred)
    assert told["variance"] == "worse"
    assert told["snr"] in ("worse", "not significant")  # it is divided by a weak signal
    assert told["scale"] == told["cosine"] == "identical"
    assert set(verdicts(found, study="gradient", baseline="none").values()) == {"identical"}
    (row,) = (
        row
        for row in found.rows
        if row.axes["baseline"] == "centred" and row.numbers[0].effect.ratio
    )
    change = row.numbers[0].effect
    assert change.paired == "seed and instance"
    interval = change.interval
    assert (interval.low, interval.value, interval.high) == pytest.approx((2, 2, 2))
    assert found.counts["other_numbers"] == 3
    assert lab(before.root, run.root, "--fail-on", "worse").exit_code == 1
    assert lab(run.root, before.root, "--fail-on", "worse").exit_code == 0
    assert lab(run.root, before.root, "--fail-on", "changed").exit_code == 1
    assert verdicts(compare(run.root, before.root), **centred)["variance"] == "better"


def test_what_is_surely_too_little_to_matter_is_a_tie(before, after):
    run = after(times(1.001))
    centred = {"study": "gradient", "baseline": "centred"}
    assert verdicts(compare(before.root, run.root), **centred)["variance"] == "tie"
    assert verdicts(compare(before.root, run.root, tie=0.0), **centred)["variance"] == "worse"


def noisy(record):
    """The record with every exact number moved by rounding, as on another processor."""
    metrics = json.loads(json.dumps(record.metrics))
    if record.cell["study"] == "gradient":
        largest = max(metrics["units"]["m2"])
        for values in metrics["units"].values():
            values[:] = [value + 1e-15 * largest for value in values]
        for name, values in metrics["measures"].items():
            if name in ANATOMY:
                values[:] = [value + 0.1 * metrics["tolerance"] * largest for value in values]
        for values in metrics["bias"].values():
            values[:] = [1.7 * one if one < 1e-20 else one * (1 + 1e-15) for one in values]
    elif record.cell["study"] == "weights":
        metrics["weights"][0][0] += 1e-15
        metrics["weight_sum"] += 5e-16
    return replace(record, metrics=metrics)


def test_rounding_is_neither_worse_nor_another_number(tmp_path):
    grid = "gradient.grid={estimator: maxk, baseline: [centred, group_mean], n: 4, k: 1}"
    small = ("gradient.complete=true", "gradient.instances=4", "seeds=[0]", "claims=[]", grid)
    one, other = (measured(tmp_path / name, *small) for name in "ab")
    for cell in other.ids():
        other.write(noisy(other.read(cell)))
    found = compare(one.root, other.root, tie=0.0)
    told = verdicts(found, study="gradient", baseline="centred")
    told |= verdicts(found, study="weights")
    assert {"squared_bias", "variance_cross", "weight_sum", "weight_min"} <= set(told)
    counts = found.verdicts
    assert (counts["worse"], counts["better"], counts["differs"]) == (0, 0, 0)
    assert counts["tie"] > 10
    assert lab(one.root, other.root, "--fail-on", "worse").exit_code == 0


def test_a_claim_that_loses_its_support_is_worse(before, after):
    found = compare(after(times(0.01)).root, before.root)
    (claim,) = found.claims
    assert (claim.name, claim.a, claim.b) == ("centring helps", "supported", "undecided")
    assert claim.worse
    assert found.worse
    text = rendered(Document(found), "terminal")
    assert "WORSE: centring helps: supported -> undecided" in " ".join(text.split())


def with_claim(run, name, **changed):
    """A copy of the run, in the folder beside it, with its claim said otherwise or without it."""
    other = RunDirectory(shutil.copytree(run.root, run.root.with_name(name)))
    spec = run.spec()
    claims = tuple(claim.model_copy(update=changed) for claim in spec.claims if changed)
    other.write_spec(spec.model_copy(update={"claims": claims}))
    return other


def test_a_claim_that_was_redefined_is_not_judged_by_its_name(after):
    supported = after(times(0.01))
    for bound in (0.5, 1000.0):  # loosened, then tightened until it is refuted
        other = with_claim(supported, f"of_{bound}", at_least=bound)
        found = compare(supported.root, other.root)
        (claim,) = found.claims
        assert claim.redefined == (f"at_least 1.0 -> {bound}",)
        assert (claim.worse, claim.missing) == (False, True)
        assert (found.worse, found.missing, found.changed) == (False, True, True)
        text = " ".join(rendered(Document(found), "terminal").split())
        assert f"not the same claim: at_least 1.0 -> {bound}" in text
    refuted = other
    found = compare(refuted.root, supported.root)
    assert (found.worse, found.missing, found.changed) == (False, False, True)


def test_a_supported_claim_that_is_gone_is_missing(after):
    supported = after(times(0.01))
    other = with_claim(supported, "without")
    found = compare(supported.root, other.root)
    assert (found.missing, found.worse) == (True, False)
    assert "MISSING: centring helps: supported -> not in this run" in " ".join(
        rendered(Document(found), "terminal").split()
    )
    assert lab(supported.root, other.root, "--fail-on", "missing").exit_code == 1


def test_seeds_of_a_that_b_does_not_plan_are_missing(before, others):
    fewer = others["one_seed"]
    found = compare(before.root, fewer.root)
    told = {one.path: (one.state, one.reason, one.missing) for one in found.absences}
    assert len(told) == 5
    assert set(told.values()) == {("gone", "B does not plan seeds 1, 2", True)}
    assert found.missing
    back = compare(fewer.root, before.root)
    assert (back.absences, back.missing, back.changed) == ((), False, True)


def test_what_is_new_in_b_is_changed_and_what_has_no_result_in_either_is_not(before, after):
    def fails(record):
        if record.cell["study"] == "training":
            return replace(record, status="failed", metrics=None, error="ValueError: why")
        return record

    failed = after(fails)
    mended = compare(failed.root, before.root)
    assert (mended.missing, mended.changed) == (False, True)
    again = compare(failed.root, failed.root)
    assert (again.counts["identical"], again.counts["neither"], again.changed) == (12, 3, False)
    done = lab(failed.root, before.root, "--where", "study=training", "--fail-on", "worse")
    assert done.exit_code == 0
    assert "nothing could be compared" in done.output


def test_rows_of_other_environments_do_not_stand_for_each_other(before, others):
    found = compare(before.root, others["problem"].root)
    assert (found.rows, found.verdicts["worse"]) == ((), 0)
    assert (found.counts["gone"], found.counts["new"]) == (15, 1)
    assert (found.missing, found.changed) == (True, True)


def test_what_failed_or_is_missing_in_b_is_told_and_can_be_asked_for(before, after):
    def change(record):
        if record.cell["study"] == "weights" and record.cell["seed"] == 1:
            return None
        if record.cell["study"] == "training" and record.cell["seed"] == 2:
            return replace(
                record, status="failed", metrics=None, error="Traceback\nValueError: why\nadvice"
            )
        return record

    run = after(change)
    found = compare(before.root, run.root)
    told = {one.path: one.reason for one in found.absences}
    assert told == {
        "training/maxk/centred/n4/k2": "B: seed 2 failed (ValueError: why)",
        "weights/maxk/centred/n4/k2": "B: seed 1 missing",
    }
    assert found.counts["without"] == 2
    assert lab(before.root, run.root, "--fail-on", "missing").exit_code == 1
    assert lab(before.root, run.root, "--fail-on", "worse").exit_code == 0
    assert lab(run.root, before.root, "--fail-on", "missing").exit_code == 0


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Runs of the sweep with other settings: of everything, of seeds, of the environment."""
    folder = tmp_path_factory.mktemp("others")
    settings = {
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
    found = {name: measured(folder / name, *overrides) for name, overrides in settings.items()}
    return found | {"problem": measured(folder / "problem", sweep=OTHER_PROBLEM)}


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
    paired = Counter(number.effect.paired for row in found.rows for number in row.numbers)
    assert paired["seed and instance"] > 5
    assert paired["seed"] == 6  # Max@K and its gap, at three K


def test_other_seeds_are_not_paired_and_their_intervals_are_wide(before, others):
    found = compare(before.root, others["seeds"].root)
    assert found.settings == ("seeds: added 7; removed 2",)
    compared = [
        number for row in found.rows for number in row.numbers if number.verdict != "identical"
    ]
    assert {number.effect.paired for number in compared} == {""}
    for number in compared:
        a, b = number.a.interval, number.b.interval
        if number.effect.interval.known and not number.effect.ratio:
            assert number.effect.interval.width >= max(a.width, b.width)
    assert found.counts["gone"] == found.counts["new"] == 5


def test_other_seeds_alone_are_neither_better_nor_worse(before, others):
    """Of three seeds each nothing is decided, whatever intervals that hold the policies say."""
    found = compare(before.root, others["all_seeds"].root, tie=0)
    said = found.verdicts
    assert said["better"] == said["worse"] == said["differs"] == 0
    assert said["differs for these seeds"] > 0
    assert lab(before.root, others["all_seeds"].root, "--fail-on", "worse").exit_code == 0
    text = " ".join(rendered(Document(found), "terminal").split())
    assert "differs for these seeds" in text


def test_many_other_seeds_decide_what_differs_in_all_of_them(tmp_path):
    one, other = (
        measured(tmp_path / name, f"seeds={seeds}", sweep=GRADIENT)
        for name, seeds in (("a", [0, 1, 2, 3, 4]), ("b", [5, 6, 7, 8, 9]))
    )
    for cell in other.ids():
        other.write(replace(times(4.0)(other.read(cell)), content=None))
    found = compare(one.root, other.root, measures="variance")
    assert verdicts(found) == {"variance": "worse"}
    (number,) = found.rows[0].numbers
    assert number.effect.ratio
    assert number.effect.interval.question == "seeds"
    assert number.effect.interval.low > 1
    assert compare(other.root, one.root, measures="variance").verdicts["better"] == 1


def test_a_claim_of_a_run_with_other_seeds_does_not_get_worse():
    kept = ClaimChange("a claim", "supported", "undecided", "")
    assert kept.worse
    assert not replace(kept, other_seeds=True).worse


def test_rows_of_another_environment_are_found_by_their_names(before, others):
    found = compare(before.root, others["environment"].root)
    assert found.settings == ("environment.arms 4 -> 5",)
    assert len(found.rows) == 5
    gradient = [row for row in found.rows if row.kind == "gradient"]
    assert {number.effect.paired for row in gradient for number in row.numbers} == {""}


def test_the_origin_of_records_is_told_where_it_is_another(before, after):
    run = after(lambda record: replace(record, provenance={"git": {"commit": "two"}, "code": "x"}))
    found = compare(before.root, run.root)
    assert found.origins == ("git.commit one -> two", "code: x in B alone")
    assert not found.changed


def test_changed_code_is_told_by_its_name(before):
    spec = before.spec()
    found = [
        spec.model_copy(update={"content": {"mine.rewards:short": {"sha256": letter * 64}}})
        for letter in "ab"
    ]
    assert settings_changed(*found) == (
        "code or files of mine.rewards:short changed (sha256 aaaaaaaaaaaa -> bbbbbbbbbbbb)",
    )


def test_a_bundle_is_compared_and_loaded_as_its_run_is(before, tmp_path):
    bundle = tmp_path / "it.zip"
    write_bundle(before, bundle)
    found = compare(before.root, bundle)
    assert found.counts["identical"] == 15
    assert not found.changed
    columns = ["cell", "measure", "value", "low", "high"]
    own, bundled = (maxk_lab.load(run)[columns] for run in (before.root, bundle))
    assert own.equals(bundled)


def test_the_selected_rows_and_measures_alone_are_compared(before, after):
    run = after(times(2.0))
    found = compare(before.root, run.root, where="study=gradient,baseline=none")
    assert [row.path for row in found.rows] == ["stage0/maxk/none/n4/k2"]
    found = compare(before.root, run.root, measures=["variance"])
    assert (found.tests, set(verdicts(found))) == (1, {"variance"})
    assert compare(before.root, run.root, measures="variance").tests == 1


@pytest.mark.parametrize("format", FORMATS.names())
def test_every_format_tells_the_same(before, after, format):
    text = rendered(Document(compare(before.root, after(times(2.0)).root), width=160), format)
    if format == "csv":
        lines = list(csv.DictReader(io.StringIO(text)))
        (line,) = (
            one for one in lines if (one["measure"], one["verdict"]) == ("variance", "worse")
        )
        assert float(line["change"]) == pytest.approx(2)
        assert line["change_of"] == "ratio"
        assert len(lines) == sum(len(row.numbers) for row in compare(before.root, before.root).rows)
    elif format == "json":
        found = json.loads(text)
        assert found["worse"]
        assert found["cells"]["other_numbers"] == 3
        assert any(one["verdict"] == "worse" for one in found["gradient"])
    else:
        assert "worse" in text
        assert "× 2.00 [2.00," in text


def test_the_files_are_written(before, after, tmp_path):
    done = lab(before.root, after().root, "--out", tmp_path / "told")
    assert done.exit_code == 0
    written = {path.name for path in (tmp_path / "told").iterdir()}
    assert written == {"comparison.md", "comparison.csv", "comparison.json"}
    refused = lab(before.root, before.root, "--out", before.spec_path)
    assert refused.exit_code == 2
    assert "cannot be written" in refused.output


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
