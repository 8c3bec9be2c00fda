"""TRL's trainers with Max@K advantages: parity where the estimator is TRL's own, and the rest."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from maxk_lab import audit
from maxk_lab.adapters import grouped_advantages, grouped_curve
from maxk_lab.adapters.measuring import Measuring
from maxk_lab.errors import LabError, LabWarning
from maxk_lab.estimators.catalogue import BASELINES

trl = pytest.importorskip("trl", reason="TRL is not installed: pip install 'maxk-lab[adapters]'")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """A model folder, and what makes and trains a trainer on it."""
    from datasets import Dataset
    from small_environments import tiny_model
    from transformers import AutoTokenizer

    from maxk_lab.adapters.trl import MaxKGRPOTrainer, MaxKRLOOTrainer

    folder = tiny_model()
    rows = [{"prompt": f"{a}+{b}="} for a in range(4) for b in range(4)]
    configs = {"rloo": trl.RLOOConfig, "grpo": trl.GRPOConfig}
    trainers = {"rloo": trl.RLOOTrainer, "grpo": trl.GRPOTrainer}
    ours = {"rloo": MaxKRLOOTrainer, "grpo": MaxKGRPOTrainer}

    class Setting:
        path = folder

        def make(self, kind, *, rewards=(length,), config=(), rows=rows, **maxk):
            options = {
                "output_dir": str(tmp_path_factory.mktemp("out")),
                "num_generations": 8,
                "per_device_train_batch_size": 16,
                "max_completion_length": 4,
                "max_steps": 5,
                "learning_rate": 0.1,
                "optim": "sgd",
                "beta": 0.0,
                "logging_steps": 1,
                "report_to": [],
                "use_cpu": True,
                "bf16": False,
                "save_strategy": "no",
                "disable_tqdm": True,
            } | dict(config)
            tokenizer = AutoTokenizer.from_pretrained(folder)
            tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
            return (ours if maxk else trainers)[kind](
                folder,
                list(rewards),
                configs[kind](**options),
                train_dataset=Dataset.from_list(rows),
                eval_dataset=Dataset.from_list(rows[:2]),
                processing_class=tokenizer,
                **maxk,
            )

        def train(self, *args, **options):
            trainer = self.make(*args, **options)
            trainer.train()
            return trainer

    return Setting()


def length(completions, **columns):
    """Rewards of all levels."""
    return [len(one) / 8 + one.count("1") / 4 for one in completions]


def digit(completions, **columns):
    """Rewards of 0 and 1, which some completions do not have."""
    return [None if "*" in one else float(one[:1].isdigit()) for one in completions]


def parameters(trainer):
    return torch.cat([one.detach().flatten() for one in trainer.model.parameters()])


def step(trainer):
    """The losses and the norms of the gradients, and the parameters after training."""
    lines = [line for line in trainer.state.log_history if "loss" in line]
    return [line[name] for line in lines for name in ("loss", "grad_norm")], parameters(trainer)


@pytest.mark.parametrize(
    ("kind", "config", "rewards"),
    [
        ("rloo", {"reward_weights": [1, 2], "reward_clip_range": (0.2, 1)}, (digit, length)),
        ("rloo", {"gradient_accumulation_steps": 2, "num_iterations": 2}, (length,)),
        ("rloo", {"beta": 0.1}, (digit,)),
        ("grpo", {"scale_rewards": "group"}, (length,)),
    ],
    ids=["several functions, clipped", "accumulated", "KL in the reward, missing", "GRPO"],
)
@pytest.mark.filterwarnings("ignore::maxk_lab.errors.LabWarning")
def test_a_step_is_trl_s_own(setting, kind, config, rewards):
    pair = {"estimator": "reinforce", "baseline": "centred"}
    pair = {"estimator": "grpo"} if kind == "grpo" else pair
    theirs, parameters = step(setting.train(kind, config=config, rewards=rewards))
    config = config | ({"scale_rewards": "none"} if kind == "grpo" else {})
    ours, same = step(setting.train(kind, config=config, rewards=rewards, **pair))
    assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    torch.testing.assert_close(same, parameters, rtol=0, atol=2e-7)
    assert any(abs(loss) > 1e-3 for loss in ours)


def logged(trainer):
    """The rewards, advantages and groups of the last batch, as TRL has logged them."""
    rewards = torch.tensor([list(one) for one in trainer._logs["rewards"].values()]).sum(0)
    groups = np.arange(len(rewards)) // trainer.num_generations
    return rewards, torch.tensor(list(trainer._logs["advantages"])), groups


@pytest.mark.parametrize(
    ("kind", "pair"),
    [("rloo", "maxk sample_loo"), ("grpo", "maxk subloo"), ("grpo", "passk_analytic")],
)
def test_advantages_and_curve_of_the_log_are_those_used(setting, kind, pair):
    estimator, *baseline = pair.split()
    config = {"max_steps": 1} | ({"scale_rewards": "none"} if kind == "grpo" else {})
    options = {"k": 2, "estimator": estimator, "baseline": "".join(baseline) or None}
    trainer = setting.train(kind, config=config, rewards=[digit], **options)
    rewards, advantages, groups = logged(trainer)
    exact = grouped_advantages(rewards, groups, **options)
    torch.testing.assert_close(advantages, exact, atol=1e-6, rtol=1e-6)
    assert advantages.any()
    curve = grouped_curve(rewards, groups, [4])
    table = trainer._logs["extra"]["max@4"]
    np.testing.assert_allclose(list(table), curve[groups, 0], rtol=1e-6)
    line = trainer.state.log_history[0]
    assert line["max@4"] == pytest.approx(float(curve.nanmean()), rel=1e-6)


def test_an_audit_reads_the_completions_that_trl_writes(setting):
    def digit(completions, log_extra, **columns):
        texts = [completion[0]["content"] for completion in completions]
        log_extra("length", [float(len(text)) for text in texts])
        return [float(text[:1].isdigit()) for text in texts]

    rows = [[{"role": "user", "content": f"{a}+{b}="}] for a in range(4) for b in range(4)]
    rows = [{"prompt": prompt} for prompt in rows]
    config = {"max_steps": 2, "log_completions": True, "scale_rewards": "none"}
    trainer = setting.train("grpo", config=config, rewards=[digit], rows=rows, k=2)
    folder = Path(trainer.args.output_dir, "completions")
    with pytest.raises(LabError, match="the reward may be digit, length"):
        audit(folder)
    log = audit(folder, reward="digit")
    assert log.reading == (
        "reward = digit, group = prompt, step = step, advantage = advantage; 32 samples in 4 groups"
    )
    assert log.trained == ("maxk centred", 2, "n")
    curve = log.curve[[step is not None for step in log.curve.step]].set_index(["step", "k"]).value
    for line in trainer.state.log_history[:2]:
        for k in (1, 2, 4):
            assert curve[line["step"], k] == pytest.approx(line[f"max@{k}"], rel=1e-6)


def test_a_baseline_that_weighs_by_length_gets_trl_s(setting):
    baseline = next(row.name for row in BASELINES if row.trajectory_weight == "length")
    trainer = setting.make("rloo", k=1, baseline=baseline)
    batch = trainer._generate_and_score_completions(list(trainer.train_dataset)[:1] * 8)
    rewards, advantages, groups = logged(trainer)
    exact = grouped_advantages(
        rewards, groups, k=1, baseline=baseline, lengths=batch["completion_mask"].sum(1)
    )
    torch.testing.assert_close(advantages, exact, atol=1e-6, rtol=1e-6)


def test_evaluation_may_use_another_number_of_generations(setting):
    config = {"num_generations_eval": 2, "per_device_eval_batch_size": 2, "max_steps": 2}
    config |= {"eval_strategy": "steps", "eval_steps": 1, "log_completions": True}
    trainer = setting.train("rloo", config=config, k=4)
    found = trainer.evaluate()
    assert len({len(one) for one in trainer._logs["extra"].values()}) == 1
    assert found["eval_max@2"] > found["eval_max@1"]
    assert "eval_max@4" not in found


@pytest.mark.filterwarnings("ignore::maxk_lab.errors.LabWarning")
def test_groups_with_too_few_rewards_and_a_penalty_in_the_reward_are_in_the_log(setting):
    def some(completions, **columns):
        return [None if i % 8 > 2 else value for i, value in enumerate(length(completions))]

    trainer = setting.train("rloo", config={"max_steps": 1, "beta": 0.1}, rewards=[some], k=4)
    line = trainer.state.log_history[0]
    assert line["maxk/too_few_rewards"] == 1
    assert line["loss"] == 0
    rewards, _, groups = logged(trainer)
    means = grouped_curve(rewards, groups, [2]).mean()
    assert line["max@2"] == pytest.approx(float(means), rel=1e-6)
    assert "max@4" not in line


@pytest.mark.parametrize(
    ("kind", "config", "options", "words"),
    [
        ("rloo", {}, {"k": 8}, "centred needs 1 <= K < n"),
        ("rloo", {}, {"k": 2, "baseline": "optimal[grad_norm]"}, "gradient of every trajectory"),
        ("rloo", {"normalize_advantages": True}, {"k": 2}, "normalize_advantages=True divides"),
        ("rloo", {"beta": 0.1}, {"k": 2, "baseline": "none"}, "depends on the level"),
        ("rloo", {"beta": 0.1}, {"k": 2, "measuring": Measuring()}, "measuring needs the level"),
        ("rloo", {}, {"k": 2, "measuring": Measuring(parameters="h", n=5)}, "two groups of n = 5"),
        ("grpo", {}, {"k": 2}, "scale_rewards='group' divides"),
        (
            "grpo",
            {"scale_rewards": "none", "multi_objective_aggregation": "normalize_then_sum"},
            {"k": 2},
            "multi_objective_aggregation",
        ),
    ],
)
def test_what_cannot_be_right_is_refused_at_construction(setting, kind, config, options, words):
    with pytest.raises(LabError, match=words.replace("[", r"\[")):
        setting.make(kind, config=config, **options)


def test_what_biases_a_step_is_warned_of_once(setting):
    config = {"top_p": 0.8, "generation_kwargs": {"min_p": 0.1}, "max_steps": 2, "beta": 0.1}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        setting.train("rloo", config=config | {"disable_dropout": False}, k=2)
        setting.train("rloo", config={"max_steps": 1, "disable_dropout": True}, k=2)
    messages = [str(each.message) for each in caught if each.category is LabWarning]
    penalty, truncation, dropout = messages
    assert "beta=0.1 puts the KL" in penalty
    assert "E[max of K (R − beta KL)]" in penalty
    assert truncation.startswith("top_p=0.8, min_p=0.1: samples come from another distribution")
    assert "drops 0.1 of its inputs while training" in dropout


def test_measuring_logs_what_the_run_should_have_used_and_changes_nothing(setting):
    measuring = Measuring(every=2, parameters=r"lm_head|h\.1\.mlp", k=[1, 2])
    watched = setting.train("rloo", k=2, measuring=measuring)
    assert torch.equal(parameters(watched), parameters(setting.train("rloo", k=2)))
    lines = [line for line in watched.state.log_history if "maxk/seconds" in line]
    assert [line["step"] for line in lines] == [1, 3, 5]
    for baseline in ("none", "sample_loo", "pkpo_sloo", "centred", "subloo"):
        assert lines[0][f"maxk/variance_over_lowest/{baseline}@2"] >= 1
        assert f"maxk/variance_over_lowest/{baseline}@1" in lines[0] or baseline == "subloo"
    assert lines[0]["maxk/no_signal/centred@2"] == 0
    assert 0 < lines[1]["maxk/share_of_time"] < 1
    assert "Use " in measuring.report.text


PROCESSES = """
import json, sys
import torch
from datasets import Dataset
from transformers import AutoTokenizer
from trl import RLOOConfig
from maxk_lab.adapters.trl import MaxKRLOOTrainer

def length(completions, **columns):
    return [len(one) / 8 + one.count("1") / 4 for one in completions]

folder = sys.argv[1]
config = RLOOConfig(
    "out", num_generations=8, per_device_train_batch_size=4, max_completion_length=4,
    max_steps=1, beta=0.0, report_to=[], use_cpu=True, bf16=False, save_strategy="no",
    disable_tqdm=True,
)
rows = Dataset.from_list([{"prompt": f"{a}+{a}="} for a in range(8)])
tokenizer = AutoTokenizer.from_pretrained(folder)
trainer = MaxKRLOOTrainer(folder, length, config, rows, processing_class=tokenizer, k=2)
used, compute = [], trainer._compute_loss
trainer._compute_loss = lambda model, inputs: used.append(inputs) or compute(model, inputs)
trainer.train()
local = trainer.accelerator.gather(used[0]["advantages"]).tolist()
if trainer.accelerator.is_main_process:
    logs = trainer._logs
    print(json.dumps([list(logs["rewards"]["length"]), list(logs["advantages"]), local]))
"""


@pytest.mark.deep
def test_a_group_that_two_processes_share_is_one_group(setting, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROCESSES)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    command += ["--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
    done = subprocess.run(
        [*command, script, setting.path], capture_output=True, text=True, cwd=tmp_path, timeout=200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(one for one in done.stdout.splitlines() if one.startswith("[["))
    rewards, advantages, used = json.loads(line)
    exact = grouped_advantages(rewards, [0] * 8, k=2)
    np.testing.assert_allclose(advantages, exact, atol=1e-6)
    # Each process shuffles its own.
    np.testing.assert_allclose(sorted(used), sorted(exact), atol=1e-6)
    assert any(exact)


def test_the_example_runs(monkeypatch, capsys):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import trl_maxk

    trainer = trl_maxk.main(steps=2)
    assert trainer.state.global_step == 2
    shown = capsys.readouterr().out
    assert "last step: Max@1" in shown
    assert "Use: " in shown
