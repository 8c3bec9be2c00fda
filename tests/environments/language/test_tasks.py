"""The tasks of the toy language, its settings, and all that is refused before a run."""

from __future__ import annotations

import re
import sys
from itertools import product

import pytest
import torch
from model_folders import stand_in_model
from small_environments import make

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.language import tasks
from maxk_lab.environments.language.tasks import REWARDS, TASKS
from maxk_lab.errors import LabError

SYMBOLS = "01234"


def test_the_modular_answer_is_the_sum_of_the_digits_and_must_be_ended():
    columns = tasks.modular(["444", "123", "001"], SYMBOLS)
    assert columns["answer"] == [str(12 % 5), str(6 % 5), "1"]
    prompts, answers = ["444"] * 4, ["2", "2", "22", ""]
    values = tasks.single_symbol(
        prompts, answers, answer=["2"] * 4, truncated=[False, True, False, False]
    )
    assert values == [1.0, 0.0, 0.0, 0.0]


def test_the_risky_rewards_are_a_hash_of_prompt_and_completion():
    prompts = ["".join(p) for p in product(SYMBOLS, repeat=4)]
    columns = tasks.deceptive(prompts, SYMBOLS)

    def values(text):
        texts = [text] * len(prompts)
        return torch.tensor(tasks.safe_or_risky(prompts, texts, **columns)).double()

    for text, value in (("0123", 0.4), ("2123", 0.0), ("", 0.0)):
        assert torch.equal(values(text), torch.full((625,), value).double())
    first, second = values("1123"), values("1023")
    # 625 prompts: the share of an eighth has standard error .013, and two completions win
    # independently.
    assert first.mean().item() == pytest.approx(0.125, abs=0.045)
    assert (first * second).mean().item() == pytest.approx(1 / 64, abs=0.02)


@pytest.mark.parametrize("task", TASKS.names())
def test_a_quarter_of_the_prompts_is_held_out_and_no_task_shares_its_split(task):
    prompts = ["".join(p) for p in product(SYMBOLS, repeat=5)]
    held_out = [tasks.is_held_out(task, prompt) for prompt in prompts]
    assert sum(held_out) / len(prompts) == pytest.approx(0.25, abs=0.03)
    other = next(name for name in TASKS.names() if name != task)
    agree = sum(tasks.is_held_out(other, p) == h for p, h in zip(prompts, held_out)) / len(prompts)
    assert agree == pytest.approx(0.625, abs=0.04)


@pytest.mark.parametrize("row", list(TASKS), ids=lambda row: row.name)
def test_a_task_has_the_columns_its_reward_reads_and_rewards_some_completion(row):
    bandit = make("toy_llm", task=row.name, vocab_size=4, max_length=3, prompt_length=3)
    prompt = bandit.instances(1, 0)
    given = set(bandit.columns(bandit.prompts(prompt), bandit.symbols)) | {"truncated"}
    reward = REWARDS.get(row.reward)
    assert set(reward.reads) <= given
    values = set(bandit.enumerate(prompt)[1].tolist())
    assert len(values) >= 2
    assert not reward.binary or values == {0.0, 1.0}


def test_a_prompt_space_too_small_to_split_is_seen():
    assert not tasks.can_be_split("modular", "0", 3)
    for task, count, length in product(TASKS.names(), (2, 3, 5), (1, 2)):
        kinds = {
            tasks.is_held_out(task, "".join(p)) for p in product(SYMBOLS[:count], repeat=length)
        }
        assert tasks.can_be_split(task, SYMBOLS[:count], length) == (len(kinds) == 2)


ROW = ENVIRONMENTS.get("toy_llm")
PARAMETERS = ROW.settings.defaults()
POLICY = ROW.policy_settings.defaults()


@pytest.mark.parametrize(
    ("changes", "policy", "message"),
    [
        ({"max_length": 1}, {}, "task modular needs max_length ≥ 2, got 1"),
        ({"task": "deceptive", "max_length": 2}, {}, "task deceptive needs max_length ≥ 3, got 2"),
        (
            {"task": "deceptive", "vocab_size": 4, "prompt_length": 1},
            {},
            "the 3 prompts of prompt_length 1 are too few",
        ),
        (
            {"max_length": 1, "rewards": ["single"], "reward_weights": [1.0, 2.0]},
            {"num_heads": 5},
            "max_length.*single.*reward_weights.*embed_dim must be a multiple of num_heads",
        ),
    ],
)
def test_parameters_that_cannot_run_are_refused_with_every_problem(changes, policy, message):
    assert re.search(message, ROW.refusal(PARAMETERS | changes, POLICY | policy))


def test_a_folder_that_is_no_saved_model_or_cannot_be_read_is_refused(tmp_path, monkeypatch):
    folder = POLICY | {"pretrained": str(tmp_path)}
    assert "has no config.json" in ROW.refusal(PARAMETERS, folder)
    stand_in_model(tmp_path)
    assert ROW.refusal(PARAMETERS, folder) is None
    with pytest.raises(LabError, match="contradict each other"):
        make_environment({"name": "toy_llm"} | PARAMETERS, folder | {"name": "transformer"})
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "maxk-lab[llm]" in ROW.refusal(PARAMETERS, folder)


def test_a_setting_is_enumerable_up_to_its_number_of_completions():
    parameters = PARAMETERS | {"vocab_size": 8, "max_length": 5}
    assert ROW.sequences(parameters) == 19_608
    assert ROW.enumerable(parameters)
    assert not ROW.enumerable(parameters | {"max_length": 12})


def test_a_reward_of_the_users_own_is_named_in_place_of_the_task():
    words = {"task": "modular", "rewards": ["my_rewards:palindrome"]}
    assert ROW.in_words(words) == ("language model (modular prompts, reward my_rewards:palindrome)")
    assert ROW.in_words({"task": "modular"}) == "language model (modular task)"
