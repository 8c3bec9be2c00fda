"""Settings of the toy language, and everything that is refused before a run."""

import re
import sys

import pytest
from model_folders import stand_in_model

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError

ROW = ENVIRONMENTS.get("toy_llm")
PARAMETERS = ROW.settings.defaults()
POLICY = ROW.policy_settings.defaults()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "edti"}, r"unknown task 'edti' \(did you mean edit\?\)"),
        (
            {"rewards": ["finishd"]},
            r"unknown reward function 'finishd' \(did you mean finished\?\)",
        ),
        ({"rewards": ["nowhere.rewards:f"]}, "cannot load the reward function 'nowhere.rewards:f'"),
        (
            {"reward_weights": [1.0, 2.0]},
            r"each of the 1 reward functions \(edit_similarity\), got 2",
        ),
        (
            {"rewards": ["finished", "brevity"], "reward_weights": [1.0]},
            "each of the 2 reward functions",
        ),
        ({"max_length": 4}, "max_length must be at least prompt_length = 8, got 4"),
        ({"task": "modular", "max_length": 1}, "task modular needs max_length ≥ 2, got 1"),
        ({"task": "deceptive", "max_length": 2}, "task deceptive needs max_length ≥ 3, got 2"),
        (
            {"task": "deceptive", "vocab_size": 4, "prompt_length": 1},
            "the 3 prompts of prompt_length 1 are too few",
        ),
    ],
    ids=str,
)
def test_parameters_that_cannot_run_are_refused(changes, message):
    assert re.search(message, str(ROW.refusal(PARAMETERS | changes, POLICY)))


def test_every_problem_is_told_at_once():
    wrong = {"max_length": 4, "rewards": ["finishd"], "reward_weights": [1.0, 2.0]}
    reasons = ROW.refusal(PARAMETERS | wrong, POLICY | {"num_heads": 5})
    heads = "embed_dim must be a multiple of num_heads"
    for part in ("max_length", "finishd", "reward_weights", heads):
        assert part in reasons


def test_a_folder_that_is_no_saved_model_is_refused(tmp_path):
    assert "has no config.json" in ROW.refusal(PARAMETERS, POLICY | {"pretrained": str(tmp_path)})
    assert ROW.refusal(PARAMETERS, POLICY | {"pretrained": stand_in_model(tmp_path)}) is None


def test_a_policy_named_and_a_folder_of_another_are_refused():
    both = POLICY | {"name": "transformer", "pretrained": "somewhere"}
    with pytest.raises(LabError, match="contradict each other"):
        make_environment({"name": "toy_llm"} | PARAMETERS, both)
    assert ROW.refusal(PARAMETERS, POLICY | {"name": "transformer"}) is None


def test_a_pretrained_policy_without_transformers_names_the_extra(tmp_path, monkeypatch):
    stand_in_model(tmp_path)
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "maxk-lab[llm]" in ROW.refusal(PARAMETERS, POLICY | {"pretrained": str(tmp_path)})


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"vocab_size": 4, "max_length": 3}, 1 + 3 + 9 + 27),
        ({"vocab_size": 6, "max_length": 4}, 781),
        ({"vocab_size": 8, "max_length": 5}, 19_608),
    ],
    ids=str,
)
def test_a_setting_is_enumerable_up_to_its_number_of_completions(changes, count):
    parameters = PARAMETERS | changes
    assert ROW.sequences(parameters) == count
    assert ROW.enumerable(parameters)
    assert not ROW.enumerable(parameters | {"top_p": 0.9})
    assert not ROW.enumerable(parameters | {"max_length": 12})


def test_a_reward_of_the_users_own_is_named_in_place_of_the_task():
    words = {"task": "edit", "rewards": ["my_rewards:palindrome"]}
    assert ROW.in_words(words) == ("language model (edit prompts, reward my_rewards:palindrome)")
    assert ROW.in_words({"task": "edit"}) == "language model (edit task)"
