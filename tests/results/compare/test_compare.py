"""Two runs compared: identical, better, worse, new, gone; and what was changed."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import replace

import pytest
from compared_runs import measured
from typer.testing import CliRunner

import maxk_lab
from maxk_lab.cli import app
from maxk_lab.errors import LabError
from maxk_lab.results.compare.changes import settings_changed
from maxk_lab.results.compare.comparison import compare
from maxk_lab.results.compare.document import Document
from maxk_lab.results.compare.formats import FORMATS, rendered
from maxk_lab.sweeps.run.bundles.write import write_bundle

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
    assert found.counts.identical == 15
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
    assert told["snr"] in ("worse", "cannot tell")  # it is divided by a weak signal
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
    assert found.counts.other_numbers == 3
    assert lab(before.root, run.root, "--fail-on", "worse").exit_code == 1
    assert lab(run.root, before.root, "--fail-on", "worse").exit_code == 0
    assert lab(run.root, before.root, "--fail-on", "changed").exit_code == 1
    assert verdicts(compare(run.root, before.root), **centred)["variance"] == "better"


def test_what_is_surely_too_little_to_matter_is_a_tie(before, after):
    run = after(times(1.001))
    centred = {"study": "gradient", "baseline": "centred"}
    assert verdicts(compare(before.root, run.root), **centred)["variance"] == "tie"
    assert verdicts(compare(before.root, run.root, tie=0.0), **centred)["variance"] == "worse"


def test_a_claim_that_loses_its_support_is_worse(before, after):
    found = compare(after(times(0.01)).root, before.root)
    (claim,) = found.claims
    assert (claim.name, claim.a, claim.b) == ("centring helps", "supported", "undecided")
    assert claim.worse
    assert found.worse
    text = rendered(Document(found), "terminal")
    assert "WORSE: centring helps: supported -> undecided" in " ".join(text.split())


def test_what_failed_or_is_missing_in_b_is_told_and_can_be_asked_for(before, after):
    def change(record):
        if record.cell["study"] == "weights" and record.cell["seed"] == 1:
            return None
        if record.cell["study"] == "training" and record.cell["seed"] == 2:
            return replace(record, status="failed", metrics=None, error="no\nValueError: why")
        return record

    run = after(change)
    found = compare(before.root, run.root)
    told = {one.path: one.reason for one in found.absences}
    assert told == {
        "training/maxk/centred/n4/k2": "B: seed 2 failed (ValueError: why)",
        "weights/maxk/centred/n4/k2": "B: seed 1 missing",
    }
    assert found.counts.without == 2
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
        "environment": ("environment.arms=5",),
    }
    return {name: measured(folder / name, *overrides) for name, overrides in settings.items()}


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
    assert (counts.identical, counts.paired, counts.new, counts.gone) == (3, 9, 3, 3)
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
    assert found.counts.gone == found.counts.new == 5


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
    assert found.counts.identical == 15
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


def test_a_tie_is_a_share(before):
    with pytest.raises(LabError, match="tie must be a share"):
        compare(before.root, before.root, tie=2.0)
