"""What the runs at W&B have: the numbers of every study's report, with a column for what varies."""

import json

import pytest

from maxk_lab.reports.report import make_report
from maxk_lab.tracking.payload import payloads, tables_of_single_cells


def sent(*records):
    """The payloads of the records, and all tables of the first as lists of mappings."""
    found = payloads("small", {}, records)
    tables = {**found[0].tables, **tables_of_single_cells(records)}
    return found, {name: json.loads(table.to_json(orient="records")) for name, table in
                   tables.items()}  # fmt: skip


def test_a_gradient_study_has_a_run_per_policy_with_the_numbers_of_its_report(lab):
    """A setting is another policy; columns and lines are those of its own cells."""
    cells = lab.cells(baselines=("none",), ns=(8,), ks=(2, 4), seeds=(0,))
    cells = lab.vary(cells, "environment.num_loc", (8, 16))
    records = [lab.record(cell) for cell in cells[:3]]
    records.append(lab.record(cells[3], status="failed"))
    first, second = payloads("small", {}, records)
    assert (first.name, second.name) == (
        "gradient stage 0 num_loc=8 seed 0",
        "gradient stage 0 num_loc=16 seed 0",
    )
    assert second.metrics == {"cells_done": 1, "cells_failed": 1}
    one, lost = second.tables["cells"].to_dict("records")
    (row,) = make_report([cells[2]], [records[2]], name="it").studies["gradient"].rows
    assert one["variance"] == row.intervals["variance"].value
    assert one["bias"] == row.bias_state
    assert (lost["status"], lost["environment.num_loc"]) == ("failed", 16)
    assert second.tables["cells"].variance.isna().tolist() == [False, True]
    # What its cells have in common, and they alone.
    assert (second.config["baseline"], second.config["setting"]) == ("none", "num_loc=16")
    assert "k" not in second.config
    # The run says what was studied, not when or in which order.
    again = payloads("small", {"more": 1}, records[::-1])
    assert {one.run_id for one in again} == {first.run_id, second.run_id}
    other = payloads("other", {}, records)
    assert not {first.run_id, second.run_id} & {one.run_id for one in other}


def test_an_objective_study_sends_its_optima_and_curves(lab):
    done, failed = lab.objective_cells(ks=(1, 2))
    (payload,), tables = sent(
        lab.done(done, lab.curve(0.25, points=(0.0, 1.0))), lab.record(failed, status="failed")
    )
    assert payload.metrics["objective/maxk/k1/optimum"] == 0.25
    assert payload.metrics["objective/maxk/k2/status"] == "failed"
    assert [(line["k"], line["optimum"]) for line in tables["cells"]] == [(1, 0.25), (2, None)]
    points = [(line["points"], line["values"]) for line in tables["curves"]]
    assert points == [(0.0, 1 - 0.25**2), (1.0, 1 - 0.75**2)]


@pytest.mark.parametrize("setting", [{}, {"policy.mean": 0.5}])
def test_a_weights_study_sends_every_weight(lab, setting):
    (cell,) = lab.weights_cells(baselines=("none",), ks=(2,))
    numbers = lab.weighed(zero_share=0.5)
    (payload,), tables = sent(lab.done(cell | ({"setting": setting} if setting else {}), numbers))
    place = "mean=0.5/" if setting else ""
    assert payload.metrics[f"weights/{place}maxk/none/n4/k2/zero_share"] == 0.5
    of_cell = {name: one for name, one in numbers.items() if not isinstance(one, list)} | setting
    (line,) = tables["cells"]
    assert of_cell.items() <= line.items()
    assert [(line["group"], line["rewards"], line["weights"]) for line in tables["groups"]] == [
        (group, reward, weight)
        for group in (0, 1)
        for reward, weight in zip(numbers["rewards"][group], numbers["weights"][group], strict=True)
    ]


def test_a_training_sends_the_numbers_of_a_report_on_its_seed_with_their_intervals(lab):
    """Cells have runs and no tables; the sweep as a whole has those of all."""
    evaluate = {"every": 50, "instances": 12, "samples": 16, "extras": ["greedy", "augmentation"]}
    (cell,) = lab.training_cells(points=[("maxk", "none", 8, 8)], seeds=(0,), evaluate=evaluate)
    done, lost = lab.vary([cell], "start", ("iid", "multistart"))
    record = lab.training_record(done)
    ends = {"value": 0.5, "low": 0.25, "high": 0.75, "per_instance": [0.5] * 12}
    record.metrics.update(
        extras={"greedy": ends, "greedy_augmented": {"value": None, "reason": "nowhere"}},
        reference={"kind": "milp", "exact": True, "per_instance": [4.0] * 12},
    )
    (payload, failed), tables = sent(record, lab.training_record(lost, status="failed"))
    assert payload.name == "maxk/none n=8 k=8 start=iid seed 0"
    assert payload.tags == ("maxk", "none", "toy_llm")
    assert (payload.tables, payload.job_type) == ({}, "training")
    found, curve = payload.metrics, record.metrics["final"]
    assert found["final/max@2"] == pytest.approx(curve["value"][1])
    assert found["final/max@2/low"] <= found["final/max@2"] <= found["final/max@2/high"]
    assert found["final/extra_greedy"] == 0.5
    assert found["final/gap@1"] == pytest.approx(100 * (4 - curve["value"][0]) / 4)
    assert (found["steps"], found["rollouts"]) == (100, 6400)
    assert not [name for name in found if "augmented" in name]
    assert failed.metrics["status"] == "failed"
    assert failed.metrics["error"] == "FloatingPointError: loss at step 3"
    assert failed.history.lines == ()
    assert [
        (line["start"], line["status"], line["max@1"]) for line in tables["training/cells"]
    ] == [
        ("iid", "done", pytest.approx(curve["value"][0])),
        ("multistart", "failed", None),
    ]
    evaluations = record.metrics["evaluations"]
    table = tables["training/evaluations"]
    assert [(line["step"], line["value"]) for line in table] == [
        (step, pytest.approx(value))
        for step, values in zip(evaluations["step"], evaluations["value"], strict=True)
        for value in values
    ]


def test_lines_of_a_training_have_what_is_there(lab):
    cells = lab.training_cells(seeds=(0, 1))[:2]
    timed, bare = (lab.training_record(cell) for cell in cells)
    timed.metrics["log"] = {"step": [5], "loss": [0.75]}
    del bare.metrics["log"]
    del bare.timings["evaluations_seconds"]
    lines, others = (one.history.lines for one in payloads("small", {}, [timed, bare]))
    steps = [(line["step"], line["rollouts"], line.get("seconds")) for line in lines]
    assert steps == [(0, 0, 0.0), (5, 320, None), (50, 3200, 4.0), (100, 6400, 8.0)]
    assert [line.get("train/loss") for line in lines] == [None, 0.75, None, None]
    assert [(line["step"], line.get("seconds")) for line in others] == [
        (step, None) for step in (0, 50, 100)
    ]


def test_two_studies_of_one_seed_have_runs_of_their_own(lab):
    cells = lab.cells(baselines=("none",), ns=(8,), ks=(2,))
    trained = lab.training_cells(seeds=(0,))[:1]
    records = [*map(lab.record, cells), *map(lab.training_record, trained)]
    found = payloads("small", {}, records)
    assert [payload.job_type for payload in found] == ["gradient", "gradient", "training"]
    assert len({payload.run_id for payload in found}) == 3
