"""Correlations of proxies come out as they went in, over all instances and seeds, or not at all."""

import csv
import io
import json
import math

import numpy as np
import pytest

from maxk_lab.report.document import compact
from maxk_lab.report.formats.render import render
from maxk_lab.report.summarise import summarise_records

LENGTH = {0: [0.1, 0.2, 0.3, 0.4], 1: [0.5, None, 0.7, 0.6]}
LOGIT = {0: [1.0] * 4, 1: [1.0] * 4}


@pytest.fixture
def study(lab):
    """Cells of two baselines and two stages, and their records; only stage 0 has proxies."""
    cells = lab.cells(baselines=("none", "centred"), ns=(8,), ks=(2,), stages=(0, 200), instances=4)

    def records(lost=()):
        made = [lab.record(c, status="failed" if c["id"] in lost else "done") for c in cells]
        for record in made:
            if record.metrics is not None and record.cell["stage"] == 0:
                seed = record.cell["seed"]
                record.metrics["proxies"] = {"length": LENGTH[seed], "logit_proxy": LOGIT[seed]}
        return made

    return cells, records


def test_the_mean_is_over_the_instances_of_each_seed_alike(study):
    cells, records = study
    length, logit = summarise_records(cells, records(), name="it").studies["gradient"].proxies
    assert (length.key.environment, length.key.path) == ("tsp(num_loc=20)", "stage0/length")
    assert (len(length.cells), length.instances, length.without) == (2, 8, 1)
    assert length.correlation.value == pytest.approx((0.25 + 0.6) / 2)
    assert length.correlation.low < length.correlation.value < length.correlation.high
    assert logit.correlation.value == 1.0
    assert not logit.correlation.known
    assert logit.correlation.reason == "the same on all 8 instances: no interval"


def test_any_cell_of_the_seed_tells_them(study):
    cells, records = study
    lost = [cell["id"] for cell in cells if cell["baseline"] == "none"]
    whole, part = (
        summarise_records(cells, records(gone), name="it").studies["gradient"].proxies
        for gone in ((), lost)
    )
    # As text: since Python 3.13 a dataclass that holds NaN is not equal to its like.
    assert [repr(row.correlation) for row in whole] == [repr(row.correlation) for row in part]


@pytest.mark.slow
def test_a_seed_without_any_cell_leaves_them_undefined(study):
    cells, records = study
    lost = [cell["id"] for cell in cells if cell["seed"] == 1]
    summary = summarise_records(cells, records(lost), name="it")
    assert {row.correlation.reason for row in summary.studies["gradient"].proxies} == {
        "incomplete: 1 of 2 seeds finished"
    }
    assert "incomplete: 1 of 2 seeds finished: all of stage0/length" in render(summary, "terminal")


def test_a_proxy_that_never_varies_has_no_correlation(study):
    cells, records = study
    made = records()
    for record in made:
        if "proxies" in record.metrics:
            record.metrics["proxies"] = {"length": [None] * 4}
    (row,) = summarise_records(cells, made, name="it").studies["gradient"].proxies
    assert math.isnan(row.correlation.value)
    assert "constant" in row.correlation.reason


def test_an_environment_whose_proxies_never_vary_has_no_sheet(study):
    cells, records = study
    made = records()
    for record in made:
        if "proxies" in record.metrics:
            record.metrics["proxies"] = {"length": [None] * 4, "logit_proxy": [None] * 4}
    summary = summarise_records(cells, made, name="it")
    assert "Proxies: " not in render(summary, "terminal")
    assert len(json.loads(render(summary, "json"))["proxies"]) == 2


def test_the_interval_is_over_instances_with_the_seeds_held_fixed(lab):
    """Two seeds of very different correlation: resampling within each does not see the gap."""
    cells = lab.cells(baselines=("none",), ns=(8,), ks=(2,), instances=50)
    records = [lab.record(cell) for cell in cells]
    noise = np.random.default_rng(0).normal(0, 0.01, (2, 50))
    for record in records:
        seed = record.cell["seed"]
        record.metrics["proxies"] = {"length": (0.8 * seed + noise[seed]).tolist()}
    (row,) = summarise_records(cells, records, name="it").studies["gradient"].proxies
    assert row.correlation.width == pytest.approx(2 * 1.96 * 0.01 / 10, rel=0.3)


def test_every_format_has_them(study):
    cells, records = study
    summary = summarise_records(cells, records(), name="it")
    for format in ("terminal", "markdown", "latex"):
        text = render(summary, format)
        assert compact(summary.studies["gradient"].proxies[0].correlation) in text
        assert "Proxies: " in text
    lines = [line for line in csv.DictReader(io.StringIO(render(summary, "csv"))) if line["proxy"]]
    (in_json, _) = json.loads(render(summary, "json"))["proxies"]
    assert [(line["section"], line["proxy"], line["stage"]) for line in lines] == [
        ("proxies", "length", "0"),
        ("proxies", "logit_proxy", "0"),
    ]
    for name, value in (("", "value"), ("_low", "low"), ("_high", "high")):
        wanted = getattr(summary.studies["gradient"].proxies[0].correlation, value)
        assert float(lines[0][f"correlation{name}"]) == in_json[f"correlation{name}"] == wanted


def test_whole_numbers_stay_whole_in_csv_where_another_study_leaves_the_column_empty(study):
    cells, records = study
    summary = summarise_records(cells, records(), name="it")
    lines = list(csv.DictReader(io.StringIO(render(summary, "csv"))))
    assert {line["section"] for line in lines} == {"gradient", "proxies"}
    (first, *_) = (line for line in lines if line["section"] == "gradient")
    whole = ("stage", "n", "k", "seeds_finished", "seeds", "instances", "pool")
    row = next(
        r
        for r in json.loads(render(summary, "json"))["gradient"]
        if r["baseline"] == first["baseline"]
    )
    assert {name: first[name] for name in whole} == {name: str(row[name]) for name in whole}
