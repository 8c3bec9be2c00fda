"""Every kind of study reads back all that it writes: the model of a record and its writer agree."""

import json
from types import SimpleNamespace

import pytest

from maxk_lab.errors import LabError
from maxk_lab.execution.record import content_of
from maxk_lab.planning.plan import make_plan
from maxk_lab.statistics.measures import MEASURES, measures_of
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.sweep_file.studies import STUDIES

BANDIT = "environment: {name: bandit, arms: 3}\n"
TSP = (
    "environment: {name: tsp, num_loc: 4}\n"
    "policy: {embed_dim: 16, num_encoder_layers: 1, num_heads: 2}\n"
)
TOY_LLM = (
    "environment: {name: toy_llm, max_length: 2, prompt_length: 2}\n"
    "policy: {embed_dim: 8, num_layers: 1}\n"
)
GAUSSIAN = "environment: {name: gaussian}\n"
GRADIENT = "gradient: {instances: 2, pool: 32, partitions: 2, "
COMPLETE = f"{BANDIT}{GRADIENT}complete: true, "
BOTH_POLICIES = "behaviour: {distance: [0, 0.5]}, "
OFF_POLICY = "estimator: [maxk, off_policy_maxk]"
TRAINING = "training: {steps: 2, batch: 8, grid: {estimator: maxk, baseline: centred, n: 4, k: 2}, "
EVALUATE = "evaluate: {instances: 2, samples: 4"
SWEEPS = {
    "sampled": f"{BANDIT}{GRADIENT}grid: {{estimator: [maxk, reinforce], "
    "baseline: [none, centred, 'affine[cross_fit]'], n: 4, k: [1, 2]}}",
    "sampled, judged by a stand-in": f"{TSP}{GRADIENT}stages: [0, 1, 2], "
    "warmup: {batch: 2, n: 2}, grid: {estimator: maxk, baseline: [centred, none], n: 4, k: 2}}",
    "sampled, from a behaviour policy": f"{BANDIT}{GRADIENT}{BOTH_POLICIES}"
    f"grid: {{{OFF_POLICY}, baseline: none, n: 4, k: 2}}}}",
    "enumerated": f"{COMPLETE}{BOTH_POLICIES}"
    f"grid: {{{OFF_POLICY}, baseline: [none, centred], n: 3, k: 2}}}}",
    "enumerated, fitted": f"{COMPLETE}"
    "grid: {estimator: maxk, baseline: ['affine[oracle]', 'ladder[cross_fit]'], n: 3, k: 2}}",
    "trained": f"{TOY_LLM}{TRAINING}{EVALUATE}}}}}",
    "trained, with extras and optima": f"{TSP}{TRAINING}{EVALUATE}, "
    "reference: exact, extras: [greedy, augmentation, multistart]}, snapshots: [1]}",
    "trained, with other ways of decoding, over several evaluations": f"{TSP}{TRAINING}{EVALUATE}, "
    "every: 1, last: 2, tuning: 2, temperatures: [0.5, 1, 2], extras: greedy}}",
    "objective": f"{GAUSSIAN}objective: {{parameter: policy.mean, from: -1, to: 3, points: 5, "
    "grid: {estimator: [maxk, reinforce], k: [1, 4]}}",
    "objective without an optimum": f"{GAUSSIAN}objective: {{parameter: policy.mean, "
    "from: 8, to: 9, points: 3, grid: {estimator: maxk, k: 2}}",
    "weights": f"{BANDIT}weights: {{groups: 3, "
    "grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}}",
}


@pytest.fixture(scope="module", params=SWEEPS, ids=lambda name: name)
def records(request, tmp_path_factory):
    """The records of a small sweep as they come back from a file: (study, cell, metrics)."""
    path = tmp_path_factory.mktemp("sweep") / "sweep.yaml"
    path.write_text(f"name: small\nseeds: [0]\n{SWEEPS[request.param]}\n")
    found, cache = [], path.parent / "cache"
    for unit in make_plan(load_spec(path)).units:
        cells = [cell.as_dict() for cell in unit.cells]
        by_id = {cell["id"]: cell for cell in cells}
        told = unit.as_dict()
        measure = STUDIES.get(unit.study).load_module("work").measure
        for cell, metrics in measure(told, cells, cache=cache, event=lambda *_: None):
            if isinstance(metrics, Exception):
                raise metrics
            metrics.pop("timings", None)  # a worker puts them beside the metrics
            found.append(
                (unit.study, by_id[cell], json.loads(json.dumps(metrics, allow_nan=False)))
            )
    assert found
    return found


def model_of(study):
    kind = STUDIES.get(study)
    return kind.model(kind.record)


def test_all_that_is_written_is_read_and_can_have_been_measured(records):
    for study, cell, metrics in records:
        read = model_of(study).model_validate(metrics)
        assert read.model_dump(by_alias=True, exclude_unset=True) == metrics
        assert content_of(cell | {"study": study}, metrics) is not None


def test_a_record_has_the_measures_of_the_table(records):
    for study, cell, metrics in records:
        read = model_of(study).model_validate(metrics)
        off_policy = "behaviour" in cell
        expected = {row.name for row in measures_of(study) if row.measured(off_policy=off_policy)}
        assert expected <= set(metrics)
        assert set(read.model_extra or ()) <= {*MEASURES.names()}
        if study == "gradient":
            of_units = {row.name for row in measures_of(study) if row.per_unit}
            assert set(read.measures) == expected & of_units


def test_what_is_missing_is_told(records):
    study, cell, metrics = records[0]
    whole = SimpleNamespace(cell=cell, metrics=metrics)
    fields = model_of(study).model_fields
    required = [field.alias or name for name, field in fields.items() if field.is_required()]
    for key in required:
        broken = {name: value for name, value in metrics.items() if name != key}
        with pytest.raises(LabError, match=f"cell {cell['id']} .*: {key} is missing; run it again"):
            model_of(study).of(SimpleNamespace(cell=cell, metrics=broken))
    assert model_of(study).of(whole) == model_of(study).model_validate(metrics)


def test_a_number_that_is_none_is_told(records):
    study, cell, metrics = records[0]
    key = {
        "training": "steps",
        "objective": "parameter",
        "gradient": "replicates",
        "weights": "rewards",
    }
    broken = SimpleNamespace(cell=cell, metrics=metrics | {key[study]: {"no": "number"}})
    with pytest.raises(LabError, match=f": {key[study]} .* got "):
        model_of(study).of(broken)


def test_a_reward_above_the_optimum_is_no_result(records):
    study, cell, metrics = records[0]
    exact = metrics.get("reference", {})
    if not exact.get("exact"):
        pytest.skip("has no exact optima")
    best = metrics["final"]["per_instance"][-1]
    low = {**exact, "per_instance": [best[0] - 1.0, *exact["per_instance"][1:]]}
    with pytest.raises(ValueError, match="is above the optimum"):
        content_of(cell | {"study": study}, metrics | {"reference": low})
