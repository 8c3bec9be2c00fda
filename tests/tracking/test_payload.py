"""What the runs at W&B have: the numbers of a report on a seed, curves, and stable ids."""

import pytest

from maxk_lab.tracking.payload import cell_payload, has_curves


def test_a_training_has_the_numbers_of_a_report_on_its_seed_with_their_intervals(lab):
    evaluate = {"every": 50, "instances": 12, "samples": 16, "extras": ["greedy", "augmentation"]}
    (cell,) = lab.training_cells(points=[("maxk", "none", 8, 8)], seeds=(0,), evaluate=evaluate)
    done, lost = lab.vary([cell], "start", ("iid", "multistart"))
    record = lab.training_record(done)
    ends = {"value": 0.5, "low": 0.25, "high": 0.75, "per_instance": [0.5] * 12}
    record.metrics.update(
        extras={"greedy": ends, "greedy_augmented": {"value": None, "reason": "nowhere"}},
        reference={"kind": "milp", "exact": True, "per_instance": [4.0] * 12},
    )
    payload = cell_payload("small", {}, record)
    failed = cell_payload("small", {}, lab.training_record(lost, status="failed"))
    assert payload.name == "maxk/none n=8 k=8 start=iid seed 0"
    assert (payload.tags, payload.job_type) == (("maxk", "none", "toy_llm"), "training")
    summary, curve = payload.summary, record.metrics["final"]
    assert summary["final/max@2"] == pytest.approx(curve["value"][1])
    assert summary["final/max@2/low"] <= summary["final/max@2"] <= summary["final/max@2/high"]
    assert summary["final/extra_greedy"] == 0.5
    assert summary["final/gap@1"] == pytest.approx(100 * (4 - curve["value"][0]) / 4)
    assert (summary["steps"], summary["rollouts"]) == (100, 6400)
    assert not [name for name in summary if "augmented" in name]
    assert failed.summary["status"] == "failed"
    assert failed.summary["error"] == "FloatingPointError: loss at step 3"
    assert (failed.failed, failed.history.lines) == (True, ())
    # The id depends on the sweep and the cell, not on the time or other keys of the sweep.
    again = cell_payload("small", {"more": 1}, record)
    assert again.run_id == payload.run_id
    ids = {payload.run_id, failed.run_id, cell_payload("other", {}, record).run_id}
    assert len(ids) == 3


def test_lines_of_a_training_have_what_is_there(lab):
    cells = lab.training_cells(seeds=(0, 1))[:2]
    timed, bare = (lab.training_record(cell) for cell in cells)
    timed.metrics["log"] = {"step": [5], "loss": [0.75]}
    del bare.metrics["log"]
    del bare.timings["evaluations_seconds"]
    lines, others = (cell_payload("small", {}, each).history.lines for each in (timed, bare))
    steps = [(line["step"], line["rollouts"], line.get("seconds")) for line in lines]
    assert steps == [(0, 0, 0.0), (5, 320, None), (50, 3200, 4.0), (100, 6400, 8.0)]
    assert [line.get("train/loss") for line in lines] == [None, 0.75, None, None]
    assert [(line["step"], line.get("seconds")) for line in others] == [
        (step, None) for step in (0, 50, 100)
    ]


def test_cells_with_curves_are_runs():
    kinds = {name: has_curves(name) for name in ("training", "gradient", "weights", "objective")}
    assert kinds == {"training": True, "gradient": False, "weights": False, "objective": False}
