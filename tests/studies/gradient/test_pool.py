"""Pooling, bias verdicts and best marks: what was put into the records comes out, and no more."""

import math
import re

import pytest

from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.log_ratios import RARE_GROUPS
from maxk_lab.statistics.measures import FIXED
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.contests import FEW, SAME
from maxk_lab.studies.gradient.pool import ALWAYS
from maxk_lab.studies.gradient.spec import Study

PAIR = {"baselines": ("centred", "subloo")}
INCOMPLETE = "incomplete: 1 of 2 seeds finished"


def report_of(lab, change=lambda record: None, make=lambda cell: {}, **axes):
    """The report of cells with these axes; `make` is how, by cell, and `change` edits a record."""
    cells = lab.cells(**{"ns": (16,), "ks": (2,), **axes})
    records = [lab.record(cell, **make(cell)) for cell in cells]
    for record in records:
        change(record)
    return make_report(cells, records, name="it")


def rows_of(*arguments, **options):
    """The rows of such a report, by baseline."""
    rows = report_of(*arguments, **options).studies["gradient"].rows
    return {row.key.baseline: row for row in rows}


def best(rows):
    return [row.key.baseline for row in rows.values() if row.best]


def variance(row):
    return row.intervals["variance"].value


def test_rows_pool_their_seeds_and_have_the_verdicts_that_were_put_in(lab):
    """`group_mean` is scaled down to less variance than `affine`; it may not win by that."""
    rows = rows_of(lab)
    records = [lab.record(cell) for cell in lab.cells(baselines=("centred",), ns=(16,), ks=(2,))]
    units = Units.pool([Units.from_metrics(record.metrics) for record in records])
    assert rows["centred"].intervals == {name: interval(units, name) for name in ALWAYS}
    assert dict(rows["centred"].cells) == {r.cell["seed"]: r.cell["id"] for r in records}
    verdicts = {name: row.bias.verdict for name, row in rows.items()}
    assert verdicts.pop("group_mean") == "scale bias"
    assert set(verdicts.values()) == {"no bias seen"}
    assert best(rows) == ["affine[0.5]"]


def test_a_baseline_that_is_derived_biased_is_never_best(lab):
    """Its bias is too small to be seen, but derived."""
    noise = {"group_mean": 100.0, "centred": 200.0, "none": 400.0}
    make = {"make": lambda cell: {"noise": noise[cell["baseline"]]}}
    rows = rows_of(lab, **make, baselines=tuple(noise), ns=(64,), ks=(1,))
    assert min(rows, key=lambda name: variance(rows[name])) == "group_mean"
    assert {row.bias.verdict for row in rows.values()} == {"no bias seen"}
    assert best(rows) == ["centred"]


@pytest.mark.parametrize("factor", [1.0, 1 + 1e-14])
def test_equal_baselines_have_no_winner(lab, factor):
    """One estimator written in two ways differs in the last digit, on every instance alike."""
    shared = {}

    def change(record):
        metrics = shared.setdefault(record.cell["seed"], record).metrics
        scaled = metrics["units"] | {"m2": [m2 * factor for m2 in metrics["units"]["m2"]]}
        if record.cell["baseline"] == "subloo":
            record.metrics.update(metrics | {"units": scaled})

    rows = rows_of(lab, change, **PAIR)
    assert (variance(rows["centred"]) < variance(rows["subloo"])) == (factor > 1)
    assert best(rows) == []
    assert [row.over_least.line.reason for row in rows.values() if row.over_least] == [SAME]


def test_enumerated_and_sampled_cells_are_pooled_but_not_compared(lab):
    """Near the limit of enumeration, one seed or baseline may be enumerated and another sampled."""
    how = {"subloo": {"noise": 1.0}, "centred": {"make": lab.exact}}
    rows = rows_of(lab, make=lambda cell: how[cell["baseline"]], **PAIR)
    over = rows["centred"].over_least
    assert rows["subloo"].intervals["variance"].high < rows["centred"].intervals["variance"].low
    assert (best(rows), over.baseline, over.line.verdict) == ([], "subloo", "open")
    for scale, verdict in ((1.0, "no bias seen"), (0.5, "alarm")):
        by_seed = [{"make": lab.exact, "scale": scale}, {}]
        row = rows_of(lab, make=lambda cell, how=by_seed: how[cell["seed"]], **PAIR)["centred"]
        assert (row.against, row.enumerated, row.units.tolerance) == ("exact", False, None)
        assert (row.bias.verdict, row.intervals["variance"].defined) == (verdict, True)


def test_a_row_without_all_its_seeds_is_not_averaged_and_leaves_no_winner(lab):
    def make(cell):
        failed = (cell["baseline"], cell["seed"]) == ("affine[0.5]", 1)
        return {"status": "failed" if failed else "done"}

    report = report_of(lab, make=make, baselines=("none", "centred", "affine[0.5]"))
    rows = {row.key.baseline: row for row in report.studies["gradient"].rows}
    row = rows["affine[0.5]"]
    assert (row.finished, row.all_finished, row.units) == ((0,), False, None)
    assert all(math.isnan(result.value) for result in row.intervals.values())
    assert row.intervals["variance"].reason == row.bias.reason == INCOMPLETE
    assert best(rows) == [], "the missing row could be better"
    name = f"{row.key.path} seed 1 (cell {row.cells[1]})"
    assert report.origin.failed == {name: "MemoryError: the pool did not fit"}


def test_the_reference_is_not_judged_by_itself(lab):
    """Seeds that were judged by different gradients make no row."""
    for against, expected in (
        (2 * ["reference:centred"], {"centred": "reference", "subloo": "no bias seen"}),
        (["exact", "reference:centred"], {"centred": "undefined", "subloo": "undefined"}),
    ):
        how = {"make": lambda cell, against=against: {"against": against[cell["seed"]]}}
        rows = rows_of(lab, **how, **PAIR)
        assert {name: row.bias.verdict for name, row in rows.items()} == expected
    assert rows["subloo"].units is None
    assert "cannot be pooled" in rows["subloo"].intervals["variance"].reason


def test_no_star_where_one_instance_carries_the_mean(lab):
    """The ratio holds for the fixed instances, and for the typical one."""

    def heavier(record):
        if record.cell["seed"] == 0:
            units, within = record.metrics["units"], record.metrics["within"]
            units["m2"][3] += 999 * (units["m2"][3] - units["mean_square"][3])
            within["m2"][3] = [1000 * distance for distance in within["m2"][3]]

    rows = rows_of(lab, heavier, baselines=("none", "subloo"))
    over = rows["none"].over_least
    assert (best(rows), over.line.reason, over.line.fixed) == ([], FEW, True)
    assert (over.mean.fallen_back, over.mean.question) == (True, FIXED)
    assert over.mean.low < 30 / 0.9 < over.mean.high
    assert over.typical.median.low > 1
    assert rows["none"].carrying["variance"] < 1.2


def test_no_star_where_the_typical_instance_says_otherwise(lab):
    """Subloo has a bit more variance on most instances, and hardly any on the others."""

    def turned(record):
        if record.cell["baseline"] == "subloo":
            units = record.metrics["units"]
            for i, (m2, square) in enumerate(zip(units["m2"], units["mean_square"], strict=True)):
                units["m2"][i] = square + (m2 - square) * (0.02 if i < 7 else 1.4)

    rows = rows_of(lab, turned, **PAIR)
    assert variance(rows["subloo"]) < variance(rows["centred"])
    over = rows["centred"].over_least
    assert (best(rows), "median over instances disagree" in over.line.reason) == ([], True)
    assert (over.typical.below, over.typical.instances) == (18, 32)


def test_a_ratio_that_groups_too_rare_to_be_drawn_decide_is_withheld(lab):
    """Rare groups that add as much to both sides change nothing."""

    def rows_with(**shares):
        def change(record):
            units, share = record.metrics["units"], shares[record.cell["baseline"]]
            moments = zip(units["m2"], units["mean_square"], strict=True)
            record.metrics["rare"] = [share * (m2 - square) for m2, square in moments]

        return rows_of(lab, change, baselines=("none", "centred"), instances=64)

    before, same = rows_with(none=0.0, centred=0.0), rows_with(none=9.0, centred=9.0)
    rare = rows_with(none=9.0, centred=99.0)
    assert (best(before), best(same), best(rare)) == (["centred"], ["centred"], [])
    assert same["none"].over_least.mean == before["none"].over_least.mean
    over = rare["none"].over_least
    assert (over.line.verdict, over.close, over.mean.defined) == ("open", True, False)
    for result in (over.mean, over.typical.median, over.line):
        assert result.reason == RARE_GROUPS
    assert "lower_on" not in rare["none"].ratios


LENGTH = {0: [0.1, 0.2, 0.3, 0.4], 1: [0.5, None, 0.7, 0.6]}


def test_the_correlation_of_a_proxy_is_the_mean_over_the_instances_of_each_seed_alike(lab):
    """A seed's numbers are in every cell of the seed; a seed without numbers leaves none."""

    def report(make=lambda cell: {}, **values):
        def change(record):
            if record.metrics is not None:
                seed = record.cell["seed"]
                record.metrics["proxies"] = {name: of[seed] for name, of in values.items()}

        return report_of(lab, change, make, baselines=("none", "centred"), instances=4)

    both = {"length": LENGTH, "logit_proxy": [[1.0] * 4] * 2}
    length, logit = report(**both).studies["gradient"].proxies
    assert (length.key.environment, length.key.path) == ("tsp(num_loc=20)", "stage0/length")
    assert (len(length.cells), length.instances, length.without) == (2, 8, 1)
    assert length.correlation.value == pytest.approx((0.25 + 0.6) / 2)
    assert length.correlation.low < length.correlation.value < length.correlation.high
    assert (logit.correlation.value, logit.correlation.defined) == (1.0, False)
    assert logit.correlation.reason == "the same on all 8 instances: no interval"
    lost = {"none": {"status": "failed"}, "centred": {}}
    part = report(lambda cell: lost[cell["baseline"]], **both).studies["gradient"].proxies
    assert [repr(row.correlation) for row in part] == [repr(r.correlation) for r in (length, logit)]
    seed = report(lambda cell: [{}, {"status": "failed"}][cell["seed"]], length=LENGTH)
    assert seed.studies["gradient"].proxies[0].correlation.reason == INCOMPLETE
    text = " ".join(rendered(seed, "terminal", full=True).split())
    assert re.search(f"{INCOMPLETE}: all numbers of .* stage0/length", text)
    constant = report(length=[[None] * 4] * 2)
    assert "constant" in constant.studies["gradient"].proxies[0].correlation.reason
    lines = constant.tables.estimates.query("measure == 'correlation'")
    assert (lines.value.isna().all(), [*lines.proxy]) == (True, ["length"])


GRID = {"estimator": ["maxk"], "baseline": ["centred"], "n": [8, 16], "k": [2]}


def test_the_advice_on_a_design():
    for instances, pool, more, advice in (
        (16, 1024, {}, "instances: 64, pool: 256"),
        (32, 1024, {}, "instances: 64, pool: 512"),
        (64, 256, {}, ""),  # enough instances
        (16, 512, {}, ""),  # a fourth of it would hold eight groups of 16
        (16, 256, {"stages": [0]}, ""),  # not trained
        (16, 256, {"complete": True}, ""),  # no pool is drawn
        (1, 4096, {}, ""),  # a single instance is a choice
        (64, 32, {"stages": [0]}, "a pool of 32 holds 2 groups of n = 16"),
    ):
        design = {"instances": instances, "pool": pool, "stages": [0, 50], "grid": GRID} | more
        lines = Study.model_validate(design).advice()
        assert (len(lines), advice in "".join(lines)) == (bool(advice), True), design
