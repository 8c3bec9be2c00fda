"""`make remeasure` finds a changed, a lost and an unplanned value; rounding errors pass."""

from __future__ import annotations

import copy
import json
from itertools import islice
from typing import Any

import golden
import pytest
import remeasure


@pytest.fixture(scope="module")
def sampled() -> dict[str, Any]:
    return dict(islice(remeasure.records_in(golden.bundle_of("pkpo_figure4")).items(), 5))


@pytest.fixture(scope="module")
def enumerated() -> dict[str, Any]:
    return dict(islice(remeasure.records_in(golden.bundle_of("quick")).items(), 5))


def with_metric(records: dict[str, Any], path: str, factor: float) -> dict[str, Any]:
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


def test_golden_records_agree_with_themselves(
    sampled: dict[str, Any], enumerated: dict[str, Any]
) -> None:
    assert remeasure.compare(sampled, sampled) == []
    assert remeasure.compare(enumerated, enumerated) == []


@pytest.mark.parametrize("path", ["variance", "objective", "units.m2", "measures.value_variance"])
def test_a_changed_value_is_a_difference(
    path: str, sampled: dict[str, Any], enumerated: dict[str, Any]
) -> None:
    for records, tolerance in ((sampled, 1e-6), (enumerated, 1e-9)):
        (problem,) = remeasure.compare(records, with_metric(records, path, 1 + 2 * tolerance))
        assert f": {path}: " in problem
        assert remeasure.compare(records, with_metric(records, path, 1 + tolerance / 2)) == []


def test_a_rounded_value_may_differ_in_its_last_digit(sampled: dict[str, Any]) -> None:
    path = "deviations.along.mean"
    assert remeasure.compare(sampled, with_metric(sampled, path, 1 + 9e-6)) == []
    assert len(remeasure.compare(sampled, with_metric(sampled, path, 1 + 2e-4))) == 1


def test_a_lost_metric_needs_a_reason(
    sampled: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = with_metric(sampled, "variance", 1)
    (record,) = records.values()
    del record["metrics"]["within"], record["metrics"]["deviations"]["along"]["third"]
    record["metrics"]["new"] = 1.0
    problems = remeasure.compare(sampled, records)
    assert [problem.split(": ")[1] for problem in problems] == ["deviations.along.third", "within"]
    reasons = {"within": "it goes", "deviations.*.third": "it goes"}
    monkeypatch.setattr(remeasure, "REMOVED_METRICS", reasons)
    assert remeasure.compare(sampled, records) == []


def test_a_cell_needs_a_golden_record_and_metrics(sampled: dict[str, Any]) -> None:
    first, *others = sampled
    fewer = {cell: sampled[cell] for cell in others}
    assert remeasure.compare(sampled, fewer) == []
    (problem,) = remeasure.compare(fewer, sampled)
    assert problem.startswith(first)
    assert problem.endswith("no golden record")
    failed = {first: sampled[first] | {"metrics": None, "error": "ValueError: no"}}
    (problem,) = remeasure.compare(sampled, failed)
    assert problem.endswith("ValueError: no")


def test_a_deviation_of_an_untested_instance_is_no_difference(sampled: dict[str, Any]) -> None:
    before = copy.deepcopy(sampled)
    for record in before.values():
        along = record["metrics"]["deviations"]["along"]
        along["mean"] = [0.0, *along["mean"][1:]]
    assert remeasure.compare(before, sampled) == []
    assert len(remeasure.compare(sampled, before)) == len(sampled)


def test_a_changed_or_lost_tensor_is_a_difference() -> None:
    frozen = json.loads(remeasure.PARAMETERS.read_text(encoding="utf-8"))
    assert list(frozen) == [" ".join(map(str, row[:-1])) for row in remeasure.ROWS]
    tensors = next(iter(frozen.values()))
    assert remeasure.compare_parameters(tensors, tensors) == []
    name, (total, norm, projection) = max(tensors.items(), key=lambda item: item[1][1])
    for factor, differences in ((0.5, 0), (2, 1)):
        changed = tensors | {name: [total, norm, projection + factor * 1e-5 * norm]}
        assert len(remeasure.compare_parameters(tensors, changed)) == differences
    lost = {key: values for key, values in tensors.items() if key != name}
    assert len(remeasure.compare_parameters(tensors, lost)) == 1
    assert len(remeasure.compare_parameters(lost, tensors)) == 1
