"""Pooling, bias verdicts and best marks: what was put into the records comes out, and no more."""

import math
import re

import pytest

from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report
from maxk_lab.statistics.bias import TOO_FEW_DRAWS
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.log_ratios import RARE_GROUPS
from maxk_lab.statistics.measures import FIXED
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.contests import FEW, SAME
from maxk_lab.studies.gradient.pool import ALWAYS
from maxk_lab.studies.gradient.row import FOUND_BIASED
from maxk_lab.studies.gradient.spec import Study
from maxk_lab.studies.gradient.table import ALARM

PAIR = {"baselines": ("centred", "subloo"), "ns": (16,), "ks": (2,)}


def summary_of(lab, change=lambda record: None, status=lambda cell: "done", make=None, **axes):
    """The summary of cells with these axes, whose records were changed."""
    cells = lab.cells(**{"ns": (16,), "ks": (2,), **axes})
    how = make or (lambda cell: {})
    records = [lab.record(cell, status=status(cell), **how(cell)) for cell in cells]
    for record in records:
        change(record)
    return make_report(cells, records, name="it")


def rows_of(*arguments, **how):
    """The rows of such a summary, by their baseline where each has one."""
    rows = summary_of(*arguments, **how).studies["gradient"].rows
    return {row.key.baseline: row for row in rows}


def best(rows):
    return [row.key.baseline for row in rows.values() if row.best]


def test_rows_pool_their_seeds_and_have_the_verdicts_that_were_put_in(lab):
    """`group_mean` is scaled down to less variance than `affine`; it may not win by that."""
    rows = rows_of(lab)
    records = [lab.record(cell) for cell in lab.cells(baselines=("centred",), ns=(16,), ks=(2,))]
    units = Units.pool([Units.from_metrics(record.metrics) for record in records])
    centred = rows["centred"]
    assert centred.intervals == {name: interval(units, name) for name in ALWAYS}
    assert dict(centred.cells) == {r.cell["seed"]: r.cell["id"] for r in records}
    verdicts = {name: row.bias.verdict for name, row in rows.items()}
    assert verdicts.pop("group_mean") == "scale bias"
    assert set(verdicts.values()) == {"no bias seen"}
    assert best(rows) == ["affine[0.5]"]


def test_a_baseline_that_is_derived_biased_is_never_best(lab):
    """Its bias is too small to be seen, and known all the same."""
    noise = {"group_mean": 100.0, "centred": 200.0, "none": 400.0}
    make = {"make": lambda cell: {"noise": noise[cell["baseline"]]}}
    rows = rows_of(lab, **make, baselines=tuple(noise), ns=(64,), ks=(1,))
    least = min(rows.values(), key=lambda row: row.intervals["variance"].value)
    assert least.key.baseline == "group_mean"
    assert {row.bias.verdict for row in rows.values()} == {"no bias seen"}
    assert best(rows) == ["centred"]


@pytest.mark.parametrize("off", [0.0, 0.5, 2.0])
def test_no_row_that_is_unbiased_by_proof_is_called_biased_by_a_test(lab, off):
    """The same records find the row of a baseline that is derived biased to be so."""
    axes = {"baselines": ("group_mean", "centred", "affine[0.5]", "none"), "ns": (8, 16)}
    summary = summary_of(lab, make=lambda cell: {"bias_off_gradient": off}, **axes)
    rows = summary.studies["gradient"].rows
    proven = [row for row in rows if row.catalogued_unbiased]
    others = {row.bias.verdict for row in rows if not row.catalogued_unbiased}
    assert others <= set(FOUND_BIASED)
    assert {row.bias.verdict for row in proven} == {"alarm" if off else "no bias seen"}
    assert {row.bias.reason for row in proven} == {ALARM if off else ""}
    # An alarm bars no baseline.
    assert {row.key.baseline for row in rows if row.best} == {"affine[0.5]"}


@pytest.mark.parametrize("alike", [1.0, 1 + 1e-14])
def test_equal_baselines_have_no_winner(lab, alike):
    """One estimator written in two ways differs in the last digit, on every instance alike."""
    shared = {}

    def change(record):
        units = shared.setdefault(record.cell["seed"], record).metrics
        scaled = units["units"] | {"m2": [m2 * alike for m2 in units["units"]["m2"]]}
        if record.cell["baseline"] == "subloo":
            record.metrics.update(units | {"units": scaled})

    rows = rows_of(lab, change, **PAIR)
    centred, subloo = (row.intervals["variance"].value for row in rows.values())
    assert (centred < subloo) == (alike > 1)
    assert best(rows) == []
    assert [row.over_least.line.reason for row in rows.values() if row.over_least] == [SAME]


def test_an_enumerated_cell_and_a_sampled_one_are_neither_beaten_nor_best(lab):
    """Near the limit of enumeration one baseline may be enumerated and another sampled."""
    how = {"subloo": {"noise": 1.0}, "centred": {"make": lab.exact}}
    rows = rows_of(lab, make=lambda cell: how[cell["baseline"]], **PAIR)
    least, other = rows["subloo"], rows["centred"]
    assert least.intervals["variance"].high < other.intervals["variance"].low
    assert best(rows) == []
    assert (other.over_least.baseline, other.over_least.line.verdict) == ("subloo", "open")


@pytest.mark.parametrize(
    ("scale", "off", "verdict"),
    [(1.0, 0.0, "no bias seen"), (0.5, 0.0, "alarm"), (1.0, 0.5, "alarm")],
)
def test_enumerated_and_sampled_seeds_are_pooled_as_sampled_ones(lab, scale, off, verdict):
    """The enumerated instances have no error: the bias of that seed alone is found."""
    exact = {"make": lab.exact, "scale": scale, "off": off}
    make = {"make": lambda cell: exact if cell["seed"] == 0 else {}}
    (row,) = rows_of(lab, baselines=("centred",), **make).values()
    assert (row.against, row.enumerated, row.units.tolerance) == ("exact", False, None)
    assert row.bias.verdict == verdict
    assert row.intervals["variance"].defined


def test_a_row_without_all_its_seeds_is_not_averaged_and_leaves_no_winner(lab):
    def status(cell):
        return "failed" if (cell["baseline"], cell["seed"]) == ("affine[0.5]", 1) else "done"

    summary = summary_of(lab, status=status, baselines=("none", "centred", "affine[0.5]"))
    rows = {row.key.baseline: row for row in summary.studies["gradient"].rows}
    row = rows["affine[0.5]"]
    assert (row.finished, row.all_finished, row.units) == ((0,), False, None)
    assert all(math.isnan(found.value) for found in row.intervals.values())
    assert (
        row.intervals["variance"].reason == row.bias.reason == ("incomplete: 1 of 2 seeds finished")
    )
    assert best(rows) == [], "the missing row could be better"
    assert summary.origin.failed == {
        f"{row.key.path} seed 1 (cell {row.cells[1]})": "MemoryError: the pool did not fit"
    }


def test_what_stands_in_for_the_gradient(lab):
    """The reference is not judged by itself; seeds judged by different gradients make no row."""

    def of(against):
        make = {"make": lambda cell: {"against": against[cell["seed"]]}}
        return rows_of(lab, baselines=("centred", "subloo"), **make)

    verdicts = {name: row.bias.verdict for name, row in of(2 * ["reference:centred"]).items()}
    assert verdicts == {"centred": "reference", "subloo": "no bias seen"}
    row = of(["exact", "reference:centred"])["subloo"]
    assert row.units is None
    assert "cannot be pooled" in row.intervals["variance"].reason


def test_no_star_where_one_instance_carries_the_mean(lab):
    def heavier(record):
        """A thousand times the variance on one instance of one seed."""
        if record.cell["seed"] == 0:
            units, within = record.metrics["units"], record.metrics["within"]
            units["m2"][3] += 999 * (units["m2"][3] - units["mean_square"][3])
            within["m2"][3] = [1000 * far for far in within["m2"][3]]

    rows = rows_of(lab, heavier, **PAIR | {"baselines": ("none", "subloo")})
    assert best(rows) == []
    over = rows["none"].over_least
    assert (over.line.reason, over.line.fixed) == (FEW, True)
    # What is true of these instances is said all the same, and of the typical one.
    assert (over.mean.fallen_back, over.mean.question) == (True, FIXED)
    assert over.mean.low < 30 / 0.9 < over.mean.high
    assert over.typical.median.low > 1
    assert rows["none"].carrying["variance"] < 1.2


def test_no_star_where_the_typical_instance_says_otherwise(lab):
    def turned(record):
        """Subloo has a bit more variance on most instances, and hardly any on the others."""
        if record.cell["baseline"] == "subloo":
            units = record.metrics["units"]
            for i, (m2, square) in enumerate(zip(units["m2"], units["mean_square"], strict=True)):
                units["m2"][i] = square + (m2 - square) * (0.02 if i < 7 else 1.4)

    rows = rows_of(lab, turned, **PAIR)
    assert rows["subloo"].intervals["variance"].value < rows["centred"].intervals["variance"].value
    assert best(rows) == []
    assert "median over instances disagree" in rows["centred"].over_least.line.reason
    typical = rows["centred"].over_least.typical
    assert (typical.below, typical.instances) == (18, 32)


@pytest.mark.parametrize(("carrying", "tested"), [(1.0, False), (8.0, True), (None, True)])
def test_a_row_that_too_few_groups_are_expected_to_carry_has_no_verdict(lab, carrying, tested):
    def change(record):
        if carrying is not None:
            record.metrics["carrying"] = [carrying] * record.cell["instances"]

    row = rows_of(lab, change, **PAIR)["centred"]
    assert row.bias.verdict == ("no bias seen" if tested else "undefined")
    assert tested or row.bias.reason == TOO_FEW_DRAWS


def test_a_ratio_that_groups_too_rare_to_be_drawn_decide_is_withheld(lab):
    """No star, no ratio and no median; groups that add as much to both leave all as it is."""
    shares = {"none": 0.0, "subloo": 0.0, "centred": 0.0}

    def change(record):
        units, share = record.metrics["units"], shares[record.cell["baseline"]]
        moments = zip(units["m2"], units["mean_square"], strict=True)
        record.metrics["rare"] = [share * (m2 - square) for m2, square in moments]

    axes = {"baselines": ("none", "centred"), "instances": 64}
    before = rows_of(lab, change, **axes)
    least, (other,) = best(before), set(before) - set(best(before))
    shares |= dict.fromkeys(shares, 9.0)
    same = rows_of(lab, change, **axes)
    assert (best(same), same[other].over_least.mean) == (least, before[other].over_least.mean)
    shares[least[0]] = 99.0
    rare = rows_of(lab, change, **axes)
    over = rare[other].over_least
    assert (best(rare), over.line.verdict, over.close) == ([], "open", True)
    for found in (over.mean, over.typical.median, over.line):
        assert found.reason == RARE_GROUPS
    assert not over.mean.defined
    assert "lower_on" not in rare[other].ratios


LENGTH = {0: [0.1, 0.2, 0.3, 0.4], 1: [0.5, None, 0.7, 0.6]}


def proxies(lab, proxies_of, lost=lambda cell: False):
    """The summary of four cells with these proxies by seed, and the rows of these."""

    def change(record):
        if record.metrics is not None:
            record.metrics["proxies"] = proxies_of(record.cell["seed"])

    def status(cell):
        return "failed" if lost(cell) else "done"

    axes = {"baselines": ("none", "centred"), "instances": 4}
    summary = summary_of(lab, change, status, **axes)
    return summary, summary.studies["gradient"].proxies


def test_the_correlation_of_a_proxy_is_the_mean_over_the_instances_of_each_seed_alike(lab):
    def both(seed):
        return {"length": LENGTH[seed], "logit_proxy": [1.0] * 4}

    _, (length, logit) = proxies(lab, both)
    assert (length.key.environment, length.key.path) == ("tsp(num_loc=20)", "stage0/length")
    assert (len(length.cells), length.instances, length.without) == (2, 8, 1)
    assert length.correlation.value == pytest.approx((0.25 + 0.6) / 2)
    assert length.correlation.low < length.correlation.value < length.correlation.high
    assert (logit.correlation.value, logit.correlation.defined) == (1.0, False)
    assert logit.correlation.reason == "the same on all 8 instances: no interval"
    # Any cell of a seed tells them.
    _, part = proxies(lab, both, lambda cell: cell["baseline"] == "none")
    assert [repr(row.correlation) for row in part] == [repr(r.correlation) for r in (length, logit)]


def test_a_proxy_that_a_seed_lacks_or_that_never_varies_is_undefined(lab):
    summary, (row,) = proxies(lab, lambda seed: {"length": LENGTH[seed]}, lambda c: c["seed"] == 1)
    assert row.correlation.reason == "incomplete: 1 of 2 seeds finished"
    text = " ".join(rendered(summary, "terminal", full=True).split())
    assert re.search("incomplete: 1 of 2 seeds finished: all numbers of .* stage0/length", text)
    summary, (row,) = proxies(lab, lambda seed: {"length": [None] * 4})
    assert "constant" in row.correlation.reason
    lines = summary.tables.estimates.query("measure == 'correlation'")
    assert lines.value.isna().all()
    assert [*lines.proxy] == ["length"]


GRID = {"estimator": ["maxk"], "baseline": ["centred"], "n": [8, 16], "k": [2]}
ADVICE = [
    (16, 1024, {}, "instances: 64, pool: 256"),
    (32, 1024, {}, "instances: 64, pool: 512"),
    (64, 256, {}, ""),  # enough instances
    (16, 512, {}, ""),  # a fourth of it would hold eight groups of 16
    (16, 256, {"stages": [0]}, ""),  # not trained
    (16, 256, {"complete": True}, ""),  # no pool is drawn
    (1, 4096, {}, ""),  # a single instance is a choice
    (64, 32, {"stages": [0]}, "a pool of 32 holds 2 groups of n = 16"),
]


@pytest.mark.parametrize(("instances", "pool", "more", "said"), ADVICE)
def test_the_advice_on_a_design(instances, pool, more, said):
    design = {"instances": instances, "pool": pool, "stages": [0, 50], "grid": GRID} | more
    advice = Study.model_validate(design).advice()
    assert len(advice) == bool(said)
    assert said in "".join(advice)
