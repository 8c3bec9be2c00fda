"""Every kind of study reads back all that it writes: the model of a record and its writer agree."""

import json
from types import SimpleNamespace

import pytest
from sweep_files import measured_here

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
    "sampled, judged by a stand-in": f"{TSP}{GRADIENT}stages: [0, 1], "
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
# A key of each study whose value must be a number or a list.
NUMBERS = {"training": "steps", "objective": "parameter", "gradient": "replicates"}
NUMBERS["weights"] = "rewards"


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_record_is_read_back_and_a_damaged_one_is_refused(sweep, tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(f"name: small\nseeds: [0]\n{SWEEPS[sweep]}\n")
    cells, records = {}, {}
    for unit in make_plan(load_spec(path)).units:
        cells |= {cell.id: cell.as_dict() | {"study": unit.study} for cell in unit.cells}
        records |= measured_here(unit, tmp_path / "cache")
    kind = STUDIES.get(unit.study)
    model = kind.model(kind.record)
    for cell_id, metrics in records.items():
        cell, metrics = cells[cell_id], json.loads(json.dumps(metrics, allow_nan=False))
        read = model.model_validate(metrics)
        assert read.model_dump(by_alias=True, exclude_unset=True) == metrics
        assert content_of(cell, metrics) is not None
        # The record has the measures of the table.
        rows = measures_of(unit.study)
        measured = {row.name for row in rows if row.measured(off_policy="behaviour" in cell)}
        assert measured <= set(metrics)
        assert set(read.model_extra or ()) <= {*MEASURES.names()}
        if unit.study == "gradient":
            assert set(read.measures) == measured & {row.name for row in rows if row.per_unit}
    record = SimpleNamespace(cell=cell, metrics=metrics)
    assert model.of(record) == read
    fields = model.model_fields
    for key in (field.alias or name for name, field in fields.items() if field.is_required()):
        record.metrics = {name: value for name, value in metrics.items() if name != key}
        with pytest.raises(LabError, match=f"cell {cell['id']} .*: {key} is missing; run it again"):
            model.of(record)
    record.metrics = metrics | {(key := NUMBERS[unit.study]): {"no": "number"}}
    with pytest.raises(LabError, match=f": {key} .* got "):
        model.of(record)
    exact = metrics.get("reference", {})
    if "optima" in sweep:
        best = metrics["final"]["per_instance"][-1]
        low = {**exact, "per_instance": [best[0] - 1.0, *exact["per_instance"][1:]]}
        changed = metrics | {"reference": low}
        for rewards in ([], "linear", ["exact"]):
            with pytest.raises(ValueError, match="is above the optimum"):
                content_of(cell | {"environment": {"rewards": rewards}}, changed)
        content_of(cell | {"environment": {"rewards": ["exact", "mine:reward"]}}, changed)
