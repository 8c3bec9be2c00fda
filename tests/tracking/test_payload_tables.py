"""The tables of every study tell its records, with a column for whatever varies."""

from types import SimpleNamespace

import pytest

from maxk_lab.report.summarise import summarise_records
from maxk_lab.tracking.payload import payloads, tables_of_single_cells


def record(study, metrics, *, status="done", **cell):
    """A record with the attributes that tracking reads."""
    base = {
        "identity_version": 1,
        "study": study,
        "seed": 0,
        "environment": {"name": "bandit"},
        "policy": {},
    }
    point = {"estimator": "maxk", "baseline": "none", "n": 4, "k": 2}
    cell = base | point | cell
    return SimpleNamespace(
        cell=cell | {"id": str(sorted(cell.items(), key=str))},
        status=status,
        metrics=metrics,
        provenance={},
        timings={},
        error=None if status == "done" else "Traceback\nMemoryError: no room",
    )


def sent(*records):
    """The payload of the first of the records, and all tables as lists of mappings."""
    found = payloads("sweep", {}, records)
    everywhere = {**found[0].tables, **tables_of_single_cells(records)}
    tables = {
        name.rpartition("/")[2]: [
            dict(zip(table.columns, line, strict=True)) for line in table.lines
        ]
        for name, table in everywhere.items()
    }
    return found[0], tables


def test_a_gradient_study_has_a_run_per_policy_with_the_numbers_of_its_report(lab):
    """A setting is another policy; columns and lines are those of its own cells."""
    cells = lab.cells(baselines=("none",), ns=(8,), ks=(2, 4), seeds=(0,))
    cells = lab.vary(cells, "environment.num_loc", (8, 16))
    records = [lab.record(cell) for cell in cells[:3]]
    records.append(lab.record(cells[3], status="failed"))
    first, second = payloads("sweep", {}, records)
    assert (first.name, second.name) == (
        "gradient stage 0 num_loc=8 seed 0",
        "gradient stage 0 num_loc=16 seed 0",
    )
    assert second.metrics == {"cells_done": 1, "cells_failed": 1}
    table = second.tables["cells"]
    one, lost = (dict(zip(table.columns, line, strict=True)) for line in table.lines)
    pooled = summarise_records([cells[2]], [records[2]], name="it").studies["gradient"]
    assert one["variance"] == pooled.rows[0].intervals["variance"].value
    assert one["bias_verdict"] == pooled.rows[0].bias.verdict
    assert (lost["status"], lost["variance"], lost["environment.num_loc"]) == ("failed", None, 16)
    # What its cells have in common, and they alone.
    assert (second.config["baseline"], second.config["setting"]) == ("none", "num_loc=16")
    assert "k" not in second.config


def test_an_objective_study_sends_its_optima_and_curves():
    metrics = {
        "parameter": "policy.mean",
        "points": [0.0, 1.0],
        "values": [0.5, 0.7],
        "optimum": 0.25,
        "optimum_value": 0.75,
    }
    payload, tables = sent(
        record("objective", metrics, k=8), record("objective", None, k=16, status="failed")
    )
    assert payload.metrics["objective/maxk/k8/optimum"] == 0.25
    assert payload.metrics["objective/maxk/k16/status"] == "failed"
    assert [(line["k"], line["optimum"]) for line in tables["cells"]] == [(8, 0.25), (16, None)]
    assert [(line["points"], line["values"]) for line in tables["curves"]] == [
        (0.0, 0.5),
        (1.0, 0.7),
    ]


@pytest.mark.parametrize("setting", [{}, {"policy.mean": 0.5}])
def test_a_weights_study_sends_every_weight(setting):
    numbers = {"zero_share": 0.5, "weight_sum": 1.0, "weight_min": 0.0, "weight_std": 0.1}
    metrics = numbers | {"rewards": [[1.0, 2.0], [3.0, 4.0]], "weights": [[0.1, 0.2], [0.3, 0.4]]}
    payload, tables = sent(record("weights", metrics, **({"setting": setting} if setting else {})))
    place = "mean=0.5/" if setting else ""
    assert payload.metrics[f"weights/{place}maxk/none/n4/k2/zero_share"] == 0.5
    assert tables["cells"] == [{**tables["cells"][0], **numbers, **setting}]
    assert [(line["group"], line["rewards"], line["weights"]) for line in tables["groups"]] == [
        (0, 1.0, 0.1),
        (0, 2.0, 0.2),
        (1, 3.0, 0.3),
        (1, 4.0, 0.4),
    ]


def test_a_training_sends_the_numbers_of_a_report_on_its_seed_with_their_intervals():
    ends = {"value": -4.25, "low": -5.0, "high": -3.5, "per_instance": [-4.5, -4.0]}
    lists = {"value": [-5.0, -4.5], "low": [-6.0, -5.0], "high": [-4.0, -4.0]}
    metrics = {
        "steps": 10,
        "rollouts": 40,
        "evaluations": {"step": [10], "rollouts": [40], "ks": [1, 2]}
        | {end: [values] for end, values in lists.items()},
        "final": {**lists, "ks": [1, 2], "per_instance": [[-6.0, -4.0], [-5.0, -4.0]]},
        "extras": {"greedy": ends, "greedy_augmented": {"value": None, "reason": "nowhere"}},
        "reference": {"kind": "milp", "exact": True, "per_instance": [-4.0, -4.0]},
    }
    of_cells = {"training": {"steps": 10, "evaluate": {"extras": ["greedy", "augmentation"]}}}
    payload, tables = sent(
        record("training", metrics, setting={"start": "iid"}, **of_cells),
        record("training", None, setting={"start": "multistart"}, status="failed", **of_cells),
    )
    assert payload.name == "maxk/none n=4 k=2 start=iid seed 0"
    found = payload.metrics
    assert (found["final/max@2"], found["final/gap@1"]) == (-4.5, pytest.approx(25.0))
    assert found["final/max@2/low"] <= -4.5 <= found["final/max@2/high"]
    assert found["final/extra_greedy"] == -4.25
    assert (found["steps"], found["rollouts"]) == (10, 40)
    assert not [name for name in found if "augmented" in name]
    assert payload.tables == {}
    assert [(line["start"], line["status"], line["max@1"]) for line in tables["cells"]] == [
        ("iid", "done", -5.0),
        ("multistart", "failed", None),
    ]
    assert [(line["step"], line["value"]) for line in tables["evaluations"]] == [
        (10, -5.0),
        (10, -4.5),
    ]
