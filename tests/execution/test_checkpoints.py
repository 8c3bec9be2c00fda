"""Policies out of checkpoints: allowed names, cells told apart, and a worker's beginning."""

from pathlib import Path

import pytest
import torch
from sweep_files import ids_of, measured_here, plan_of, problems

from maxk_lab.environments.checkpoints import policy_state
from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.execution.checkpoints import initial_policy
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec, read_spec, spec_to_yaml

HEAD = "name: s\nseeds: [0, 1]\nenvironment: {name: bandit, arms: 4}\n"
GRADIENT = (
    "gradient: {instances: 2, pool: 16, stages: [0, 1], warmup: {batch: 2, n: 2}, "
    "grid: {estimator: maxk, baseline: none, n: 4, k: 2}}\n"
)
TRAINING = (
    "training:\n  steps: 2\n  batch: 8\n  snapshots: [0, 1]\n  evaluate: {every: 1, "
    "instances: 4, samples: 4}\n"
    "  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}\n"
)
WEIGHTS = "weights: {groups: 2, grid: {estimator: maxk, baseline: none, n: 4, k: 2}}\n"


def bandit_state(value, arms=4):
    return {"logits": torch.full((arms,), value, dtype=torch.float64)}


@pytest.fixture
def saved(write):
    """The folder of two checkpoints, a.pt of the lab, b.ckpt of Lightning; the sweep runs there."""
    torch.save({"policy": bandit_state(1.0), "steps": 3}, "a.pt")
    named = {f"policy.{name}": value for name, value in bandit_state(2.0).items()}
    torch.save({"state_dict": named | {"baseline.weight": torch.zeros(1)}}, "b.ckpt")
    return Path.cwd()


def test_a_checkpoint_is_its_content_wherever_it_lies(saved, write):
    path = write(HEAD + GRADIENT)
    spec = load_spec(path, ["policy.checkpoint=a.pt"])
    assert set(spec.policy["checkpoint"]) == {"path", "sha256"}
    unit = make_plan(spec).units[0]
    checkpoint = unit.as_dict()["policy"]["checkpoint"]
    assert checkpoint["path"] == "a.pt"
    assert unit.cells[0].as_dict()["policy"]["checkpoint"] == {"sha256": checkpoint["sha256"]}
    ids = {cell.id for cell in make_plan(spec).cells}
    (saved / "elsewhere").mkdir()
    (saved / "a.pt").rename(saved / "elsewhere" / "c.pt")
    assert ids_of(path, "policy.checkpoint=elsewhere/c.pt") == ids
    assert not ids_of(path, "policy.checkpoint=b.ckpt") & ids
    assert not ids_of(path) & ids


def test_resolved_specs_are_planned_without_the_file_and_run_only_with_the_same(saved, write):
    spec = load_spec(write(HEAD + "vary: {policy.checkpoint: [a.pt, b.ckpt]}\n" + TRAINING))
    plan = make_plan(spec)
    settings = [unit.setting["policy.checkpoint"] for unit in plan.units]
    assert settings == ["a.pt", "b.ckpt"] * 2
    resolved = write(spec_to_yaml(spec))
    assert load_spec(resolved) == spec
    torch.save({"policy": bandit_state(3.0)}, "a.pt")
    assert make_plan(read_spec(resolved)).cells == plan.cells
    (problem,) = problems(resolved)
    assert "vary.policy.checkpoint.0: a.pt has changed: its SHA-256 was" in problem
    unit = plan.units[0].as_dict()
    with pytest.raises(LabError, match=r"a\.pt has changed"):
        initial_policy(make_environment(unit["environment"], unit["policy"]), unit)


FITS_NOT = "does not fit the policy that environment and policy describe:"
REFUSALS = {
    "policy: {checkpoint: five.pt}": f"22: policy.checkpoint: five.pt {FITS_NOT} size mismatch for "
    "logits: copying a param with shape torch.Size([5]) from checkpoint, the shape in current "
    "model is torch.Size([4]).",
    "policy: {checkpoint: odd.pt}": f"22: policy.checkpoint: odd.pt {FITS_NOT} Missing key(s) in "
    'state_dict: "logits".  Unexpected key(s) in state_dict: "odd".',
    "policy: {checkpoint: none.pt}": "22: policy.checkpoint: none.pt holds no policy: it must have "
    "parameters under policy",
    "policy: {checkpoint: number.pt}": "22: policy.checkpoint: number.pt holds no policy",
    "policy: {checkpoint: text.pt}": "22: policy.checkpoint: text.pt is no checkpoint",
    "policy: {checkpoint: empty.pt}": "22: policy.checkpoint: empty.pt is no checkpoint: EOFError",
    "policy: {checkpoint: function.pt}": "22: policy.checkpoint: function.pt is no checkpoint that "
    "can be loaded safely",
    "policy: {checkpoint: gone.pt}": "22: policy.checkpoint: gone.pt does not exist",
    "vary: {policy.checkpoint: [a.pt, gone.pt]}": "34: vary.policy.checkpoint.1: gone.pt does not "
    "exist",
    "vary: {policy.checkpoint: [a.pt, c.pt]}": "34: vary.policy.checkpoint.1: must be distinct, "
    "got c.pt more than once",
    "vary: {policy.checkpont: a.pt}": "8: vary.policy.checkpont: bandit has no policy.checkpont "
    "(did you mean policy.checkpoint?)",
    "policy: {checkpoit: a.pt}": "10: policy.checkpoit: unknown key 'checkpoit' (did you mean "
    "checkpoint?)",
    "policy: {checkpoint: [a.pt]}": "22: policy.checkpoint: checkpoint must be the path of a file, "
    "got ['a.pt']",
}


def test_what_is_no_checkpoint_of_this_policy(saved, write):
    torch.save({"policy": bandit_state(1.0, arms=5)}, "five.pt")
    torch.save({"weights": 1}, "none.pt")
    torch.save({"policy": {"odd": torch.zeros(1)}}, "odd.pt")
    torch.save({"policy": {1: torch.zeros(1)}}, "number.pt")
    Path("text.pt").write_text("no checkpoint", encoding="utf-8")
    Path("empty.pt").touch()
    torch.save(bandit_state, "function.pt")
    (saved / "c.pt").write_bytes((saved / "a.pt").read_bytes())
    for line, expected in REFUSALS.items():
        (problem,) = problems(write(f"{HEAD}{line}\n{GRADIENT}"))
        assert problem.startswith(f"sweep.yaml:4:{expected}")


def test_every_study_begins_with_the_checkpoint(saved, write):
    """A policy that has settled on one arm gives every sample of an instance the same reward."""
    settled = {"logits": 50.0 * torch.eye(4, dtype=torch.float64)[0]}
    torch.save({"policy": settled}, "settled.pt")
    path = write(HEAD + WEIGHTS + TRAINING + GRADIENT)
    results = {
        unit.study: measured_here(unit, saved / "cache")
        for unit in plan_of(path, "policy.checkpoint=settled.pt", "seeds=[0]").units
        if unit.stage in (None, 0)
    }
    ((cell, trained),) = results["training"].items()
    before = policy_state(saved / "cache" / f"policy-{cell}-0.pt")
    assert torch.equal(before["logits"], settled["logits"])
    assert len(set(trained["final"]["value"])) == 1
    (shown,) = results["weights"].values()
    assert [len(set(group)) for group in shown["rewards"]] == [1, 1]
    (measured,) = results["gradient"].values()
    assert measured["dead_gradient_rate"] is not None


def test_the_last_checkpoint_of_a_training_is_the_policy_of_a_gradient_study(saved, write):
    """Stage 0 is the trained policy; warm-up goes on from it; nothing depends on the path."""
    (unit,) = plan_of(write(HEAD + TRAINING), "seeds=[0]").units
    (cell,) = measured_here(unit, saved / "cache")
    trained = saved / "cache" / f"training-{cell}.pt"
    path = write(HEAD + GRADIENT)
    begun, _, warm, _ = plan_of(path, f"policy.checkpoint={trained}").units
    made = make_environment(begun.as_dict()["environment"], begun.as_dict()["policy"])
    policy = initial_policy(made, begun.as_dict())
    assert torch.equal(policy.state_dict()["logits"], policy_state(trained)["logits"])
    measured = [measured_here(unit, saved / "pools") for unit in (begun, warm)]
    assert warm.stage == 1
    assert measured[0] != measured[1]
    trained.rename(saved / "moved.pt")
    again = plan_of(path, f"policy.checkpoint={saved / 'moved.pt'}").units[0]
    assert measured_here(again) == measured[0]
