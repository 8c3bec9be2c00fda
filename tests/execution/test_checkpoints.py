"""Policies out of checkpoints: allowed names, cells told apart, and a worker's beginning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from sweep_files import Write, plan_of, problems

from maxk_lab.environments.checkpoints import policy_state
from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.execution.checkpoints import initial_policy
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.studies.exact.work import measure as measure_weights
from maxk_lab.studies.gradient.work import measure as measure_unit
from maxk_lab.studies.training.work import measure as measure_training
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


def bandit_state(value: float, arms: int = 4) -> dict[str, Any]:
    policy = make_environment({"name": "bandit", "arms": arms, "reward_shift": 0.0},
                              {"init_std": 1.0, "dtype": "float64"}).policy(0)  # fmt: skip
    return {name: torch.full_like(tensor, value) for name, tensor in policy.state_dict().items()}


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of two checkpoints, a.pt of the lab, b.ckpt of Lightning; the sweep runs there."""
    monkeypatch.chdir(tmp_path)
    torch.save({"policy": bandit_state(1.0), "steps": 3}, "a.pt")
    named = {f"policy.{name}": value for name, value in bandit_state(2.0).items()}
    torch.save({"state_dict": named | {"baseline.weight": torch.zeros(1)}}, "b.ckpt")
    return tmp_path


def unit_of(plan: Plan, number: int = 0) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    unit = plan.units[number]
    return unit.as_dict(), [cell.as_dict() for cell in unit.cells]


def silent(name: str, payload: dict[str, Any]) -> None:
    pass


def test_a_checkpoint_is_its_content_wherever_it_lies(saved: Path, write: Write) -> None:
    path = write(HEAD + GRADIENT)
    spec = load_spec(path, ["policy.checkpoint=a.pt"])
    assert set(spec.policy["checkpoint"]) == {"path", "sha256"}
    unit, (cell, *_) = unit_of(make_plan(spec))
    assert unit["policy"]["checkpoint"]["path"] == "a.pt"
    assert cell["policy"]["checkpoint"] == {"sha256": unit["policy"]["checkpoint"]["sha256"]}
    ids = {one.id for one in make_plan(spec).cells}
    (saved / "elsewhere").mkdir()
    (saved / "a.pt").rename(saved / "elsewhere" / "c.pt")
    assert {one.id for one in plan_of(path, "policy.checkpoint=elsewhere/c.pt").cells} == ids
    assert not {one.id for one in plan_of(path, "policy.checkpoint=b.ckpt").cells} & ids
    assert not {one.id for one in plan_of(path).cells} & ids


def test_resolved_specs_are_planned_without_the_file_and_run_only_with_the_same(
    saved: Path, write: Write
) -> None:
    text = HEAD + "vary: {policy.checkpoint: [a.pt, b.ckpt]}\n" + TRAINING
    spec = load_spec(write(text))
    plan = make_plan(spec)
    assert [dict(unit.setting) for unit in plan.units] == [
        {"policy.checkpoint": name} for _ in (0, 1) for name in ("a.pt", "b.ckpt")
    ]
    resolved = write(spec_to_yaml(spec))
    assert load_spec(resolved) == spec
    torch.save({"policy": bandit_state(3.0)}, "a.pt")
    assert [cell.id for cell in make_plan(read_spec(resolved)).cells] == [
        cell.id for cell in plan.cells
    ]
    (problem,) = problems(resolved)
    assert "vary.policy.checkpoint.0: a.pt has changed: its SHA-256 was" in problem
    unit, _ = unit_of(plan)
    with pytest.raises(LabError, match=r"a\.pt has changed"):
        initial_policy(make_environment(unit["environment"], unit["policy"]), unit)


DOES_NOT_FIT = "does not fit the policy that environment and policy describe:"
ODD = {
    "five.pt": f"{DOES_NOT_FIT} size mismatch for logits: copying a param with shape torch.Size([5]"
    ") from checkpoint, the shape in current model is torch.Size([4]).",
    "odd.pt": f'{DOES_NOT_FIT} Missing key(s) in state_dict: "logits".  Unexpected key(s) in '
    'state_dict: "odd".',
    "none.pt": "holds no policy: it must have parameters under policy",
    "text.pt": "is no checkpoint",
    "function.pt": "is no checkpoint that can be loaded safely",
    "gone.pt": "does not exist",
}


def test_what_is_no_checkpoint_of_this_policy(saved: Path, write: Write) -> None:
    torch.save({"policy": bandit_state(1.0, arms=5)}, "five.pt")
    torch.save({"weights": 1}, "none.pt")
    torch.save({"policy": {"odd": torch.zeros(1)}}, "odd.pt")
    Path("text.pt").write_text("no checkpoint", encoding="utf-8")
    torch.save(bandit_state, "function.pt")
    (saved / "c.pt").write_bytes((saved / "a.pt").read_bytes())
    for name, expected in ODD.items():
        (problem,) = problems(write(f"{HEAD}policy: {{checkpoint: {name}}}\n{GRADIENT}"))
        assert problem.startswith(f"sweep.yaml:4:22: policy.checkpoint: {name} {expected}")
    for line, expected in {
        "vary: {policy.checkpoint: [a.pt, gone.pt]}":
            "4:34: vary.policy.checkpoint.1: gone.pt does not exist",
        "vary: {policy.checkpoint: [a.pt, c.pt]}":
            "4:34: vary.policy.checkpoint.1: must be distinct, got c.pt more than once",
        "vary: {policy.checkpont: a.pt}":
            "4:8: vary.policy.checkpont: bandit has no policy.checkpont (did you mean "
            "policy.checkpoint?)",
        "policy: {checkpoit: a.pt}":
            "4:10: policy.checkpoit: unknown key 'checkpoit' (did you mean checkpoint?)",
        "policy: {checkpoint: [a.pt]}":
            "4:22: policy.checkpoint: checkpoint must be the path of a file, got ['a.pt']",
    }.items():  # fmt: skip
        (problem,) = problems(write(f"{HEAD}{line}\n{GRADIENT}"))
        assert problem.startswith(f"sweep.yaml:{expected}")


def test_every_study_begins_with_the_checkpoint(saved: Path, write: Write) -> None:
    """A policy that has settled on one arm gives every sample of an instance the same reward."""
    settled = {
        name: 50.0 * torch.eye(4, dtype=value.dtype)[0] for name, value in bandit_state(1.0).items()
    }
    torch.save({"policy": settled}, "settled.pt")
    plan = plan_of(
        write(HEAD + WEIGHTS + TRAINING + GRADIENT), "policy.checkpoint=settled.pt", "seeds=[0]"
    )
    units = {
        unit.study: unit_of(plan, number) for number, unit in reversed(list(enumerate(plan.units)))
    }
    ((cell_id, trained),) = measure_training(
        *units["training"], cache=saved / "cache", event=silent
    )
    before = policy_state(saved / "cache" / f"policy-{cell_id}-0.pt")
    assert all(torch.equal(before[name], value) for name, value in settled.items())
    assert len(set(trained["final"]["value"])) == 1
    ((_, shown),) = measure_weights(*units["weights"], cache=None, event=silent)
    assert [len(set(group)) for group in shown["rewards"]] == [1, 1]
    ((_, measured),) = measure_unit(*units["gradient"], cache=None, event=silent)
    assert measured["dead_gradient_rate"] is not None


def test_the_last_checkpoint_of_a_training_is_the_policy_of_a_gradient_study(
    saved: Path, write: Write
) -> None:
    """Stage 0 is the trained policy; warm-up goes on from it; nothing depends on the path."""
    unit, cells = unit_of(plan_of(write(HEAD + TRAINING), "seeds=[0]"))
    list(measure_training(unit, cells, cache=saved / "cache", event=silent))
    trained = saved / "cache" / f"training-{cells[0]['id']}.pt"
    plan = plan_of(write(HEAD + GRADIENT), f"policy.checkpoint={trained}")
    unit, cells = unit_of(plan)
    environment = make_environment(unit["environment"], unit["policy"])
    policy = initial_policy(environment, unit)
    for name, value in policy_state(trained).items():
        assert torch.equal(policy.state_dict()[name], value)
    measured = [
        dict(measure_unit(*unit_of(plan, n), cache=saved / "pools", event=silent)) for n in (0, 2)
    ]
    assert plan.units[2].stage == 1
    assert measured[0] != measured[1]
    moved = saved / "moved.pt"
    trained.rename(moved)
    again = plan_of(write(HEAD + GRADIENT), f"policy.checkpoint={moved}")
    assert dict(measure_unit(*unit_of(again), cache=None, event=silent)) == measured[0]
