"""`make remeasure` finds a changed, a lost and an unplanned value; rounding errors pass."""

import copy
import json
from itertools import islice

import golden
import pytest
import remeasure

# Golden records of cells: sampled ones, and enumerated ones.
SAMPLED, ENUMERATED = (
    dict(islice(remeasure.records_in(golden.bundle_of(name)).items(), 5))
    for name in ("pkpo_figure4", "quick")
)


def with_metric(records, path, factor):
    """Return the first record only, with a metric, or the first value of a list, multiplied."""
    (cell, record), *_ = copy.deepcopy(records).items()
    *above, key = path.split(".")
    block = record["metrics"]
    for step in above:
        block = block[step]
    if isinstance(block[key], list):
        block, key = block[key], block[key].index(max(block[key]))
    block[key] *= factor
    return {cell: record}


MEASURES = ("variance", "objective", "units.m2", "measures.value_variance")


@pytest.mark.parametrize(
    ("records", "path", "passing", "differing"),
    [
        *((SAMPLED, path, 0.5e-6, 2e-6) for path in MEASURES),
        *((ENUMERATED, path, 0.5e-9, 2e-9) for path in MEASURES),
        (SAMPLED, "deviations.along.mean", 9e-6, 2e-4),
    ],
)
def test_a_difference_is_more_than_rounding(records, path, passing, differing):
    assert remeasure.compare(records, records) == []
    assert remeasure.compare(records, with_metric(records, path, 1 + passing)) == []
    (problem,) = remeasure.compare(records, with_metric(records, path, 1 + differing))
    assert f": {path}: " in problem


def test_a_lost_metric_needs_a_reason(monkeypatch):
    records = with_metric(SAMPLED, "variance", 1)
    (record,) = records.values()
    del record["metrics"]["within"], record["metrics"]["deviations"]["along"]["third"]
    record["metrics"]["new"] = 1.0
    problems = remeasure.compare(SAMPLED, records)
    assert [problem.split(": ")[1] for problem in problems] == ["deviations.along.third", "within"]
    reasons = {"within": "it goes", "deviations.*.third": "it goes"}
    monkeypatch.setattr(remeasure, "REMOVED_METRICS", reasons)
    assert remeasure.compare(SAMPLED, records) == []


def test_a_cell_needs_a_golden_record_and_metrics():
    first, *others = SAMPLED
    fewer = {cell: SAMPLED[cell] for cell in others}
    assert remeasure.compare(SAMPLED, fewer) == []
    failed = {first: SAMPLED[first] | {"metrics": None, "error": "ValueError: no"}}
    for golden_records, records, reason in (
        (fewer, SAMPLED, "no golden record"),
        (SAMPLED, failed, "ValueError: no"),
    ):
        (problem,) = remeasure.compare(golden_records, records)
        assert problem.startswith(first)
        assert problem.endswith(reason)


def test_a_deviation_of_an_untested_instance_is_no_difference():
    before = copy.deepcopy(SAMPLED)
    for record in before.values():
        record["metrics"]["deviations"]["along"]["mean"][0] = 0.0
    assert remeasure.compare(before, SAMPLED) == []
    assert len(remeasure.compare(SAMPLED, before)) == len(SAMPLED)


def test_a_changed_or_lost_tensor_is_a_difference():
    frozen = json.loads(remeasure.PARAMETERS.read_text(encoding="utf-8"))
    assert list(frozen) == [" ".join(map(str, row[:-1])) for row in remeasure.ROWS]
    tensors = next(iter(frozen.values()))
    name, (total, norm, projection) = max(tensors.items(), key=lambda item: item[1][1])
    for factor, differences in ((0, 0), (0.5, 0), (2, 1)):
        changed = tensors | {name: [total, norm, projection + factor * 1e-5 * norm]}
        assert len(remeasure.compare_parameters(tensors, changed)) == differences
    lost = {key: values for key, values in tensors.items() if key != name}
    assert len(remeasure.compare_parameters(tensors, lost)) == 1
    assert len(remeasure.compare_parameters(lost, tensors)) == 1
