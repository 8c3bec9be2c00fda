"""ms-swift in the environment of `make adapters`: parity, missing rewards, a training for real."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytestmark = pytest.mark.foreign
pytest.importorskip("swift", reason="ms-swift has an environment of its own: make adapters")

from swift.rlhf_trainers import GRPOTrainer  # noqa: E402

from maxk_lab import advantages  # noqa: E402
from maxk_lab.adapters.swift.maxk_swift import MaxKGRPOTrainer  # noqa: E402
from maxk_lab.errors import LabError, LabWarning  # noqa: E402

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "scale_rewards": "none",
    "advantage_estimator": "grpo",
    "loss_type": "grpo",
    "kl_in_reward": False,
    "beta": 0.0,
    "num_generations": 4,
    "num_generations_eval": 4,
    "dynamic_num_samples": False,
    "dynamic_sample": False,
    "args": SimpleNamespace(),
}


@pytest.fixture
def make(monkeypatch):
    """A trainer without a model, of some settings and environment variables."""

    def initialise(self, **settings):
        vars(self).update(SETTINGS | settings)
        self.model = torch.nn.Identity()
        self.accelerator = SimpleNamespace(device="cpu")
        self.reward_func_names = ["first", "second"]
        self.reward_weights = torch.tensor([1.0, 0.5])
        self._metrics = {mode: defaultdict(list) for mode in ("train", "eval")}
        self._logs = {"rewards": defaultdict(list)}

    def made(k="3", estimator=None, baseline=None, every=None, **settings):
        names = {"K": k, "ESTIMATOR": estimator, "BASELINE": baseline, "MEASURE_EVERY": every}
        for name, value in names.items():
            if value is None:
                monkeypatch.delenv(f"MAXK_{name}", raising=False)
            else:
                monkeypatch.setenv(f"MAXK_{name}", value)
        return MaxKGRPOTrainer(**settings)

    monkeypatch.setattr(GRPOTrainer, "__init__", initialise)
    return made


@pytest.fixture
def rewards():
    return torch.randn(12, 2, generator=torch.Generator().manual_seed(0))


def test_grpo_and_rloo_are_ms_swifts_own(make, rewards):
    for name, baseline in {"grpo": "mean", "rloo": "rloo"}.items():
        trainer = make(k=None, estimator="reinforce", baseline=baseline)
        found = trainer._compute_advantages([], rewards, [])
        trainer.advantage_estimator = name
        exact = GRPOTrainer._compute_advantages(trainer, [], rewards, [])
        torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-6)
    assert trainer._metrics["train"]["max@1"] == pytest.approx(
        trainer._metrics["train"]["reward"][:1]
    )


def test_evaluation_has_groups_of_its_own_size(make, rewards):
    trainer = make(num_generations_eval=3, k="3", baseline="subloo")
    trainer.model.eval()
    found = trainer._compute_advantages([], rewards, [])
    weighed = (rewards @ torch.tensor([1.0, 0.5])).view(4, 3)
    torch.testing.assert_close(found.view(4, 3), 3 * advantages(weighed, k=3, baseline="subloo"))
    assert {"max@1", "max@2", "max@3"} == {key for key in trainer._metrics["eval"] if "@" in key}
    trainer.num_generations_eval = 2
    assert not trainer._compute_advantages([], rewards, []).any()


def test_a_sample_without_any_reward_is_left_out(make, rewards):
    rewards[1] = torch.nan
    rewards[5, 0] = torch.nan
    rewards[8:10] = torch.nan  # two are too few for K = 3
    found = make(k="2")._compute_advantages([], rewards, [])
    weighed = (rewards * torch.tensor([1.0, 0.5])).nansum(1)
    exact = torch.zeros(12)
    exact[[0, 2, 3]] = 3 * advantages(weighed[[0, 2, 3]], k=2)
    exact[4:8] = 4 * advantages(weighed[4:8], k=2)
    torch.testing.assert_close(found, exact)


def test_a_kl_penalty_in_the_reward_goes_inside_the_maximum(make, rewards):
    kl = torch.rand(12, 1)
    batch = SimpleNamespace(
        old_per_token_logps=kl,
        ref_per_token_logps=torch.zeros(12, 1),
        completion_mask=torch.ones(12, 1),
    )
    with pytest.warns(LabWarning, match="inside the maximum"):
        trainer = make(kl_in_reward=True, beta=0.3)
    found = trainer._compute_advantages([], rewards, [{"grpo_batch": batch}])
    inside = rewards @ torch.tensor([1.0, 0.5]) - 0.3 * kl[:, 0]
    exact = 4 * advantages(inside.view(3, 4), k=3).flatten()
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-5)
    with pytest.raises(LabError, match="depends on the level of the rewards, but --kl_in_reward"):
        make(kl_in_reward=True, beta=0.3, baseline="none")


def test_a_request_of_several_outputs_counts_once(make, rewards):
    requests = ["a", "a", "b", "c", "d", "d", "d", "e", "f", "g", "h", "h"]
    samples = [SimpleNamespace(prompt_id="x" if r < "e" else "y", request_id=r) for r in requests]
    rows = [requests.index(r) for r in requests]
    found = make(dynamic_num_samples=True)._compute_advantages(samples, rewards[rows], [])
    single = sorted(set(rows))
    weighed = (rewards @ torch.tensor([1.0, 0.5]))[single].view(2, 4)
    exact = dict(zip(single, 4 * advantages(weighed, k=3).flatten(), strict=True))
    torch.testing.assert_close(found, torch.stack([exact[row] for row in rows]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale_rewards": "group"}, "--scale_rewards must be none"),
        ({"advantage_estimator": "rloo"}, "--advantage_estimator must be grpo"),
        ({"loss_type": "real"}, "only the sign"),
        ({"k": None}, "needs k"),
        ({"k": "many"}, "MAXK_K must be a whole number, got many"),
        ({"k": "4"}, "K = 4 and n = 4"),
        ({"baseline": "centered"}, "did you mean centred"),
        ({"every": "often"}, "MAXK_MEASURE_EVERY must be a whole number, got often"),
        ({"every": "5", "dynamic_num_samples": True}, "needs one sample per request"),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(make, options, message):
    with pytest.raises(LabError, match=message):
        make(**options)


@pytest.mark.parametrize("processes", [1, 2])
def test_the_command_trains_for_real(tmp_path, processes):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment |= {"MAXK_MEASURE_EVERY": "5", "MAXK_MEASURE_PARAMETERS": "lm_head"}
    more = ["--log_completions", "true"]
    if processes == 2:  # a group of 16 is split over them
        environment |= {"NPROC_PER_NODE": "2", "ACCELERATE_USE_CPU": "true"}
        more += ["--use_cpu", "true", "--ddp_backend", "gloo"]
        more += ["--per_device_train_batch_size", "24", "--gradient_accumulation_steps", "2"]
    done = subprocess.run(
        [sys.executable, ROOT / "examples/swift_maxk.py", tmp_path, *more],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (folder,) = tmp_path.glob("out/*")
    read = lambda name: map(json.loads, (folder / name).read_text().splitlines())  # noqa: E731
    steps = [step for step in read("logging.jsonl") if "max@4" in step]
    curve = [float(step["max@4"]) for step in steps]
    assert len(curve) == 12
    assert sum(curve[6:]) > sum(curve[:6])
    assert all(float(step["max@1"]) == pytest.approx(float(step["reward"])) for step in steps)
    measured = [step for step in steps if "maxk/variance_over_lowest/subloo@4" in step]
    assert [step["global_step/max_steps"] for step in measured] == ["1/12", "6/12", "11/12"]
    for table in read("completions.jsonl"):
        rewards, found = (torch.tensor(table[name]) for name in ("RightDigit", "advantages"))
        exact = 16 * advantages(rewards.view(-1, 16), k=4, baseline="subloo")
        torch.testing.assert_close(found, exact.flatten())
