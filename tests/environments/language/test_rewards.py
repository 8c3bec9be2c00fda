"""Reward functions: several, weighted, with None, and every way one can misbehave."""

import math
import sys
import types

import pytest
import torch
from torch import nn

from maxk_lab.environments.language.rewards import RewardFunction, load_rewards, score
from maxk_lab.errors import LabError, shown

PROMPTS = ["a", "b", "c"]
COMPLETIONS = ["x", "yy", ""]


def length(prompts, completions, **columns):
    return [len(text) for text in completions]


def some(prompts, completions, **columns):
    return [None if text == "yy" else 2.0 for text in completions]


def scored(*calls, weights=None, **columns):
    functions = [RewardFunction(call.__name__, call) for call in calls]
    return score(functions, weights or [1.0] * len(calls), PROMPTS, COMPLETIONS, **columns)


def test_rewards_are_the_weighted_sum_of_the_parts():
    rewards, parts = scored(
        length, lambda prompts, completions, **columns: [0.5, 0.25, 0.125], weights=[2, -4]
    )
    assert parts.tolist() == [[1.0, 0.5], [2.0, 0.25], [0.0, 0.125]]
    assert rewards.tolist() == [0.0, 3.0, -0.5]
    assert rewards.dtype == torch.float64


def test_none_makes_that_sample_unscorable_and_no_other():
    rewards, parts = scored(length, some, weights=[1.0, 0.0])
    assert rewards.isnan().tolist() == [False, True, False]
    assert parts[1, 0] == 2.0
    assert parts[1, 1].isnan()
    assert rewards[[0, 2]].tolist() == [1.0, 0.0]


def test_columns_reach_the_function():
    def answered(prompts, completions, *, answer, **columns):
        assert columns == {"truncated": [False, True, False]}
        return [text == right for text, right in zip(completions, answer)]

    rewards, _ = scored(answered, answer=["x", "x", ""], truncated=[False, True, False])
    assert rewards.tolist() == [1.0, 0.0, 1.0]


def test_a_function_that_raises_is_named_with_the_sample_it_raises_for():
    def fragile(prompts, completions, **columns):
        return [1 / len(text) for text in completions]

    with pytest.raises(
        LabError, match=r"'fragile' raised ZeroDivisionError for sample 2, prompt 'c'"
    ) as caught:
        scored(length, fragile)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_function_that_raises_only_for_a_batch_says_so():
    def alone(prompts, completions, **columns):
        if len(completions) > 1:
            raise ValueError("one at a time")
        return [1.0]

    with pytest.raises(
        LabError, match="for 3 samples together, for none of them alone: one at a time"
    ):
        scored(alone)


def test_a_generator_that_raises_midway_is_named_with_its_sample():
    def lazy(prompts, completions, **columns):
        return (1 / len(text) for text in completions)

    with pytest.raises(LabError, match="'lazy' raised ZeroDivisionError for sample 2, prompt 'c'"):
        scored(lazy)


def test_a_function_that_changes_its_lists_changes_them_for_no_other():
    def careless(prompts, completions, *, answer, **columns):
        for texts in (prompts, completions, answer):
            texts.reverse()
        return [0.0] * len(prompts)

    def right(prompts, completions, *, answer, **columns):
        return [text == one for text, one in zip(completions, answer)]

    answers, prompts, completions = ["x", "no", ""], list(PROMPTS), list(COMPLETIONS)
    functions = [RewardFunction(call.__name__, call) for call in (careless, right)]
    rewards, _ = score(functions, [1.0, 1.0], prompts, completions, answer=answers)
    assert rewards.tolist() == [1.0, 0.0, 1.0]
    assert (prompts, completions, answers) == (PROMPTS, COMPLETIONS, ["x", "no", ""])


@pytest.mark.parametrize(
    "bad",
    [math.nan, math.inf, -math.inf, 10**400, 10**5000, "1", 1j, [1.0]],
    ids=lambda bad: shown(bad)[:9],
)
def test_a_value_that_is_no_finite_number_is_named_with_its_sample(bad):
    def odd(prompts, completions, **columns):
        return [0.0, bad, 0.0]

    with pytest.raises(LabError) as caught:
        scored(odd)
    assert "'odd'" in str(caught.value)
    assert f"returned {shown(bad)} for sample 1, prompt 'b', completion 'yy'" in str(caught.value)


@pytest.mark.parametrize("values", [[1.0, 2.0], [], [0.0] * 4])
def test_a_wrong_number_of_values_is_refused(values):
    with pytest.raises(LabError, match=rf"returned {len(values)} values for 3 completions"):
        score([RewardFunction("short", lambda *a, **k: values)], [1.0], PROMPTS, COMPLETIONS)


@pytest.mark.parametrize("value", [None, 3.0])
def test_what_is_no_list_is_refused(value):
    with pytest.raises(LabError, match="'lone' must return a list"):
        score([RewardFunction("lone", lambda *a, **k: value)], [1.0], PROMPTS, COMPLETIONS)


def test_tensors_and_arrays_are_lists_too():
    rewards, _ = score(
        [RewardFunction("t", lambda *a, **k: torch.tensor([1.0, 2.0, 3.0]))],
        [1.0],
        PROMPTS,
        COMPLETIONS,
    )
    assert rewards.tolist() == [1.0, 2.0, 3.0]


class TokenSum(nn.Module):
    def forward(self, tokens, mask):
        return (tokens * mask).sum(-1).float()


class Constant(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.as_tensor(value))

    def forward(self, tokens, mask):
        return self.value


def test_a_torch_module_is_a_reward_model_on_tokens():
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    mask = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    rewards, parts = score(
        [RewardFunction("model", TokenSum()), RewardFunction("length", length)],
        [1.0, 10.0],
        PROMPTS,
        COMPLETIONS,
        tokens=tokens,
        mask=mask,
    )
    assert rewards.tolist() == [13.0, 35.0, 7.0]
    assert not parts.requires_grad


class Spoiler(nn.Module):
    """Changes what it is given, and returns the same tensor every time, which it changes, too."""

    def __init__(self):
        super().__init__()
        self.kept = torch.zeros(3, dtype=torch.float64)

    def forward(self, tokens, mask):
        tokens.zero_()
        mask.fill_(True)
        return self.kept.add_(1)


def test_a_reward_model_shares_no_tensor_with_others():
    tokens = torch.tensor([[1, 2], [3, 4], [5, 6]])
    mask = torch.tensor([[True, False], [True, True], [True, False]])
    spoiler = Spoiler()
    models = {"first": spoiler, "again": spoiler, "model": TokenSum()}
    _, parts = score(
        [RewardFunction(name, model) for name, model in models.items()],
        [1.0, 1.0, 1.0],
        PROMPTS,
        COMPLETIONS,
        tokens=tokens,
        mask=mask,
    )
    assert parts.tolist() == [[1.0, 2.0, 1.0], [1.0, 2.0, 7.0], [1.0, 2.0, 5.0]]
    assert tokens.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert mask.tolist() == [[True, False], [True, True], [True, False]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"must return a tensor of shape \(3,\), got \(2,\)"),
        ([1.0, math.nan, 2.0], r"returned nan for sample 1, tokens \[2\]"),
    ],
)
def test_a_reward_model_that_misbehaves_is_named(value, message):
    tokens = torch.tensor([[1], [2], [3]])
    with pytest.raises(LabError, match=f"'model' {message}"):
        score(
            [RewardFunction("model", Constant(value))],
            [1.0],
            PROMPTS,
            COMPLETIONS,
            tokens=tokens,
            mask=tokens > 0,
        )


@pytest.fixture
def user_module(monkeypatch):
    module = types.ModuleType("users_rewards")
    module.length, module.model, module.Model, module.number = length, TokenSum(), TokenSum, 3
    monkeypatch.setitem(sys.modules, "users_rewards", module)
    return module


def test_rewards_load_by_name_and_by_dotted_path(user_module):
    named, dotted, model = load_rewards(
        ["exact_match", "users_rewards:length", "users_rewards:model"]
    )
    assert named.call([], ["a", "b"], answer=["a", "a"]) == [1.0, 0.0]
    assert dotted.call is length
    assert model.call is user_module.model


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exact_mtch", r"did you mean exact_match\?.*dotted path"),
        ("users_rewards:nothing", "cannot load the reward function 'users_rewards:nothing'"),
        ("no_such_package.rewards:f", "folder where maxk-lab was started"),
        ("users_rewards:Model", "got the class TokenSum"),
        ("users_rewards:number", "got 3"),
    ],
)
def test_a_reward_that_is_not_there_is_named(user_module, name, message):
    with pytest.raises(LabError, match=message):
        load_rewards([name])
