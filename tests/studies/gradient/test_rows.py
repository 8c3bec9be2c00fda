"""Pooling, bias verdicts and best marks: what was put into the records comes out, and no more."""

import math
from types import SimpleNamespace

import pytest

from maxk_lab.report import tables
from maxk_lab.report.summarise import summarise_records
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.measures import THESE
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.compare import ALARM
from maxk_lab.studies.gradient.pool import ALWAYS, FOUND_BIASED


def rows_of(summary, **axes):
    """The rows whose key has these values."""
    return [
        row
        for row in summary.studies["gradient"].rows
        if all(getattr(row.key, axis) == v for axis, v in axes.items())
    ]


@pytest.fixture(scope="module")
def plain(lab):
    """A finished study of two seeds."""
    cells = lab.cells(ns=(16,), ks=(2,))
    return cells, summarise_records(cells, [lab.record(cell) for cell in cells], name="plain")


def test_a_row_pools_the_seeds(plain, lab):
    cells, summary = plain
    (row,) = rows_of(summary, baseline="centred")
    own = [cell for cell in cells if cell["baseline"] == "centred"]
    assert dict(row.cells) == {cell["seed"]: cell["id"] for cell in own}
    units = Units.pool([Units.from_metrics(lab.record(cell).metrics) for cell in own])
    assert row.intervals == {name: interval(units, name) for name in ALWAYS}
    assert len(summary.studies["gradient"].rows) == 7


def test_verdicts_are_those_put_in(plain):
    _, summary = plain
    verdicts = {row.key.baseline: row.bias.verdict for row in summary.studies["gradient"].rows}
    assert verdicts.pop("group_mean") == "scale bias"
    assert set(verdicts.values()) == {"no bias seen"}


def test_best_is_the_least_of_the_unbiased(plain):
    """`group_mean` is scaled down to less variance than `affine`; it may not win by that."""
    _, summary = plain
    assert [row.key.baseline for row in summary.studies["gradient"].rows if row.best] == [
        "affine[0.5]"
    ]


def test_a_biased_baseline_of_less_variance_is_never_best(lab):
    cells = lab.cells(baselines=("group_mean", "centred", "pkpo_sloo"), ns=(8,), ks=(4,))
    summary = summarise_records(cells, [lab.record(cell) for cell in cells], name="shrunk")
    least = min(summary.studies["gradient"].rows, key=lambda row: row.intervals["variance"].value)
    assert least.key.baseline == "group_mean"
    assert [row.key.baseline for row in summary.studies["gradient"].rows if row.best] == ["centred"]


def test_a_bias_too_small_to_be_seen_still_bars_a_catalogued_biased_baseline(lab):
    cells = lab.cells(baselines=("group_mean", "centred", "none"), ns=(64,), ks=(1,))
    noise = {"group_mean": 100.0, "centred": 200.0, "none": 400.0}
    records = [lab.record(cell, noise=noise[cell["baseline"]]) for cell in cells]
    summary = summarise_records(cells, records, name="hidden")
    assert {row.bias.verdict for row in summary.studies["gradient"].rows} == {"no bias seen"}
    assert [row.key.baseline for row in summary.studies["gradient"].rows if row.best] == ["centred"]


def test_a_test_that_rejects_what_is_proven_is_an_alarm_and_bars_no_baseline(lab):
    cells = lab.cells(baselines=("centred", "affine[0.5]", "none"), ns=(16,), ks=(2,))
    records = [
        lab.record(c, bias_off_gradient=float(c["baseline"] == "affine[0.5]")) for c in cells
    ]
    summary = summarise_records(cells, records, name="alarm")
    (alarm,) = rows_of(summary, baseline="affine[0.5]")
    assert (alarm.bias.verdict, alarm.bias.reason) == ("alarm", ALARM)
    assert alarm.bias.p_value < 0.05
    assert tables.record("gradient", alarm, {})["bias_verdict"] == "alarm"
    assert alarm.best


@pytest.mark.parametrize("off", [0.0, 0.5, 1.0, 2.0])
def test_no_row_that_is_unbiased_by_proof_is_called_biased_by_a_test(lab, off):
    """The same records find the row of a baseline that is derived biased to be so."""
    baselines = ("group_mean", "centred", "affine[0.5]", "none")
    cells = lab.cells(baselines=baselines, ns=(8, 16), ks=(2, 4))
    records = [lab.record(cell, bias_off_gradient=off) for cell in cells]
    rows = summarise_records(cells, records, name="it").studies["gradient"].rows
    proven = {row.bias.verdict for row in rows if row.catalogued_unbiased}
    others = {row.bias.verdict for row in rows if not row.catalogued_unbiased}
    assert not proven & set(FOUND_BIASED)
    assert others <= set(FOUND_BIASED)
    assert proven == ({"alarm"} if off else {"no bias seen"})


def test_equal_baselines_have_no_winner(lab):
    cells = lab.cells(baselines=("centred", "subloo"), ns=(16,), ks=(2,))
    summary = summarise_records(
        cells, [lab.record(cell, noise=1.0) for cell in cells], name="equal"
    )
    assert not any(row.best for row in summary.studies["gradient"].rows)


def test_an_enumerated_cell_and_a_sampled_one_are_neither_beaten_nor_best(lab):
    """Near the limit of enumeration one baseline may be enumerated and another sampled."""
    cells = lab.cells(baselines=("centred", "subloo"), ns=(16,), ks=(2,))
    records = [
        lab.record(cell, noise=1.0)
        if cell["baseline"] == "subloo"
        else lab.record(cell, make=lab.exact)
        for cell in cells
    ]
    least, other = sorted(
        summarise_records(cells, records, name="mixed").studies["gradient"].rows,
        key=lambda row: row.key.baseline,
        reverse=True,
    )
    assert least.intervals["variance"].high < other.intervals["variance"].low
    assert not least.best
    assert not other.best
    assert "against centred: one was enumerated and one sampled" in least.best_note


@pytest.mark.parametrize(
    ("scale", "off", "verdict"),
    [(1.0, 0.0, "no bias seen"), (0.5, 0.0, "alarm"), (1.0, 0.5, "alarm")],
)
def test_enumerated_and_sampled_seeds_are_pooled_as_sampled_ones(lab, scale, off, verdict):
    """The enumerated instances have no error: the bias of that seed alone is found."""
    cells = lab.cells(baselines=("centred",), ns=(16,), ks=(2,))
    records = [lab.record(cells[0], make=lab.exact, scale=scale, off=off), lab.record(cells[1])]
    (row,) = summarise_records(cells, records, name="mixed").studies["gradient"].rows
    assert (row.against, row.enumerated) == ("exact", False)
    assert row.units.tolerance is None
    assert row.bias.verdict == verdict
    assert row.intervals["variance"].known
    assert row.intervals["scale"].known


def test_a_row_without_all_its_seeds_is_not_averaged(lab):
    cells = lab.cells(baselines=("none", "centred", "affine[0.5]"), ns=(16,), ks=(2,))
    lost = next(c for c in cells if c["baseline"] == "affine[0.5]" and c["seed"] == 1)
    records = [lab.record(c, status="failed" if c is lost else "done") for c in cells]
    summary = summarise_records(cells, records, name="partial")
    (row,) = rows_of(summary, baseline="affine[0.5]")
    assert (row.finished, row.all_finished, row.units) == ((0,), False, None)
    assert all(math.isnan(found.value) for found in row.intervals.values())
    assert (
        row.intervals["variance"].reason == row.bias.reason == "incomplete: 1 of 2 seeds finished"
    )
    assert not any(row.best for row in summary.studies["gradient"].rows), (
        "the missing row could be better"
    )
    (failure,) = summary.failed
    assert (failure.cell, failure.seed) == (lost["id"], 1)
    assert failure.error == "MemoryError: the pool did not fit"


def test_cells_without_a_record_are_missing(lab):
    cells = lab.cells(baselines=("centred",), ns=(8, 16), ks=(2,))
    records = [lab.record(cell) for cell in cells if cell["n"] == 8]
    summary = summarise_records(cells, records, name="young")
    assert set(summary.missing) == {cell["id"] for cell in cells if cell["n"] == 16}
    assert [row.all_finished for row in summary.studies["gradient"].rows] == [True, False]


def test_the_reference_is_not_judged_by_itself(lab):
    cells = lab.cells(baselines=("centred", "none"), ns=(16,), ks=(2,))
    records = [lab.record(cell, against="reference:centred") for cell in cells]
    summary = summarise_records(cells, records, name="reference")
    verdicts = {row.key.baseline: row.bias.verdict for row in summary.studies["gradient"].rows}
    assert verdicts == {"centred": "reference", "none": "no bias seen"}


def test_seeds_judged_against_different_gradients_are_not_pooled(lab):
    cells = lab.cells(baselines=("none",), ns=(16,), ks=(2,))
    records = [lab.record(c, against="exact" if c["seed"] else "reference:centred") for c in cells]
    (row,) = summarise_records(cells, records, name="mixed").studies["gradient"].rows
    assert row.units is None
    assert "cannot be pooled" in row.intervals["variance"].reason


def test_one_replicate_gives_no_variance(lab):
    cells = lab.cells(baselines=("centred",), ns=(16,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        record.metrics["units"]["mean_square"] = [None] * len(record.metrics["units"]["m2"])
    (row,) = summarise_records(cells, records, name="single").studies["gradient"].rows
    assert math.isnan(row.intervals["variance"].value)
    assert "two replicates" in row.intervals["variance"].reason


def test_a_difference_of_rounding_marks_no_best(lab):
    """One estimator written in two ways differs in the last digit, on every instance alike."""
    cells = lab.cells(baselines=("centred", "subloo"), ns=(8,), ks=(2,), seeds=(0,))
    first = lab.record(cells[0])
    scaled = {
        **first.metrics["units"],
        "m2": [m2 * (1 + 1e-14) for m2 in first.metrics["units"]["m2"]],
    }
    changed = {"cell": cells[1], "metrics": {**first.metrics, "units": scaled}}
    other = SimpleNamespace(**{**vars(first), **changed})
    summary = summarise_records(cells, [first, other], name="same")
    centred, subloo = (row.intervals["variance"].value for row in summary.studies["gradient"].rows)
    assert centred < subloo
    assert not any(row.best for row in summary.studies["gradient"].rows)


def rows_with(lab, change, other="centred"):
    """The rows of subloo and of another, with their units changed."""
    cells = lab.cells(baselines=(other, "subloo"), ns=(16,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        change(record)
    rows = summarise_records(cells, records, name="it").studies["gradient"].rows
    return {row.key.baseline: row for row in rows}


def test_no_star_where_one_instance_carries_the_mean(lab):
    def heavier(record):
        """A thousand times the variance on one instance of one seed."""
        if record.cell["seed"] == 0:
            units, within = record.metrics["units"], record.metrics["within"]
            units["m2"][3] += 999 * (units["m2"][3] - units["mean_square"][3])
            within["m2"][3] = [1000 * far for far in within["m2"][3]]

    rows = rows_with(lab, heavier, other="none")
    assert not any(row.best for row in rows.values())
    assert "of 32 instances carry the mean" in rows["subloo"].best_note
    # What is true of these instances is said all the same, and of the typical one.
    mean = rows["none"].over_least.mean
    assert (mean.fallen_back, mean.question) == (True, THESE)
    assert mean.low < 30 / 0.9 < mean.high
    assert rows["none"].over_least.typical.median.low > 1
    assert rows["none"].carrying["variance"] < 1.2
    assert rows["none"].intervals["variance"].fallen_back


def test_no_star_where_the_typical_instance_says_otherwise(lab):
    def turned(record):
        """Subloo has a bit more variance on most instances, and hardly any on the others."""
        if record.cell["baseline"] == "subloo":
            units = record.metrics["units"]
            for i, (m2, square) in enumerate(zip(units["m2"], units["mean_square"])):
                units["m2"][i] = square + (m2 - square) * (0.02 if i < 7 else 1.4)

    rows = rows_with(lab, turned)
    assert rows["subloo"].intervals["variance"].value < rows["centred"].intervals["variance"].value
    assert not any(row.best for row in rows.values())
    assert "the median over instances does not tell them apart" in rows["subloo"].best_note
    typical = rows["centred"].over_least.typical
    assert (typical.below, typical.instances) == (18, 32)


def test_a_ratio_that_cannot_be_had_has_no_ends(lab):
    """Seeds of different instances make no pairs: neither of means nor of the typical instance."""

    def fewer(record):
        if record.cell["baseline"] == "centred":
            record.metrics["units"] = {k: v[:12] for k, v in record.metrics["units"].items()}
            record.metrics["within"] = {k: v[:12] for k, v in record.metrics["within"].items()}
            for name in ("along", "anywhere", "beside"):
                part = record.metrics["deviations"][name]
                part.update({k: v[:12] for k, v in part.items() if k != "freedom"})
            record.metrics["deviations"]["trusted"] = [True] * 12

    over = rows_with(lab, fewer)["centred"].over_least
    assert over.typical is None
    assert not over.mean.known
    assert "different instances" in over.mean.reason
