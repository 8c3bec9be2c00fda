"""Reward functions: several, weighted, with None, misbehaving; and those that the pages show."""

import math
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from maxk_lab.environments.language.rewards import RewardFunction, load_rewards, score
from maxk_lab.errors import LabError, shown

PROMPTS = ["a", "b", "c"]
COMPLETIONS = ["x", "yy", ""]
TOKENS = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
MASK = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])


def length(prompts, completions, **columns):
    return [len(text) for text in completions]


def scored(*calls, factors=None, tokens=TOKENS, mask=MASK, **columns):
    functions = [RewardFunction(getattr(call, "__name__", "model"), call) for call in calls]
    texts = {"prompts": PROMPTS, "completions": COMPLETIONS, **columns}
    return score(functions, factors or [1.0] * len(calls), texts, tokens, mask)


class Constant(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.as_tensor(value))

    def forward(self, tokens, mask):
        return self.value


def test_rewards_are_the_weighted_sum_of_the_parts():
    parts = torch.tensor([0.5, 0.25, 0.125])
    rewards, parts = scored(length, lambda **columns: parts, factors=[2, -4])
    assert parts.tolist() == [[1.0, 0.5], [2.0, 0.25], [0.0, 0.125]]
    assert rewards.tolist() == [0.0, 3.0, -0.5]
    assert rewards.dtype == torch.float64
    scalars = [torch.tensor(1.5), np.True_, np.float32(0.5)]
    assert scored(lambda **columns: scalars)[0].tolist() == [1.5, 1.0, 0.5]
    # None makes that sample unscorable and no other.
    rewards, parts = scored(length, lambda **columns: [2.0, None, 2.0], factors=[1.0, 0.0])
    assert rewards.nan_to_num(-1).tolist() == [1.0, -1.0, 0.0]
    assert parts[1].nan_to_num(-1).tolist() == [2.0, -1.0]


def test_a_function_is_called_as_trl_calls_it_with_lists_of_its_own():
    """By name, in any order, with columns of any name; a coroutine is awaited."""

    def careless(completions, prompts, functions, weights, **columns):
        assert (prompts, functions, weights) == (PROMPTS, ["f"] * 3, [1, 2, 3])
        assert columns == {"truncated": [0, 1, 0]}
        for texts in (prompts, completions, weights):
            texts.reverse()
        return [0.0] * len(prompts)

    async def later(completions, weights, **columns):
        return [len(text) * weight for text, weight in zip(completions, weights)]

    columns = {"functions": ["f"] * 3, "weights": [1, 2, 3], "truncated": [0, 1, 0]}
    _, parts = scored(careless, later, **columns)
    assert parts.tolist() == [[0, 1], [0, 4], [0, 0]]
    assert columns["weights"] == [1, 2, 3]


def fragile(prompts, completions, **columns):
    return [1 / len(text) for text in completions]


def lazy(prompts, completions, **columns):
    return (1 / len(text) for text in completions)


def alone(prompts, completions, **columns):
    if len(completions) > 1:
        raise ValueError("one at a time")
    return [1.0]


def strict(prompts, completions):
    return [1.0] * len(completions)


def returning(values):
    return lambda **columns: values


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (strict, "argument 'answer'; it is called by name, with prompts, completions, answer$"),
        (fragile, "'fragile' raised ZeroDivisionError for sample 2, prompt 'c'"),
        (lazy, "'lazy' raised ZeroDivisionError for sample 2, prompt 'c'"),
        (alone, "for 3 samples together, for none of them alone: one at a time"),
        (returning([1.0, 2.0]), "returned 2 values for 3 completions"),
        (returning([0.0] * 4), "returned 4 values for 3 completions"),
        (returning(3.0), "'<lambda>' must return a list"),
        (Constant([1.0, 2.0]), r"'model' must return a tensor of shape \(3,\), got \(2,\)"),
        (Constant([1.0, math.nan, 2.0]), r"'model' returned nan for sample 1, tokens \[4, 5, 6\]"),
    ],
)
def test_a_function_that_misbehaves_is_named_with_its_sample(call, message):
    with pytest.raises(LabError, match=message):
        scored(length, call, answer=["x", "no", ""])


@pytest.mark.parametrize(
    "bad", [math.nan, -math.inf, 10**400, 10**5000, "1", 1j, [1.0]], ids=lambda bad: shown(bad)[:9]
)
def test_a_value_that_is_no_finite_number_is_named_with_its_sample(bad):
    message = f"returned {shown(bad)} for sample 1, prompt 'b', completion 'yy'"
    with pytest.raises(LabError, match=re.escape(message)):
        scored(returning([0.0, bad, 0.0]))


class TokenSum(nn.Module):
    def forward(self, tokens, mask):
        return (tokens * mask).sum(-1).float()


class Spoiler(nn.Module):
    """Changes what it is given, and returns the same tensor every time, which it changes, too."""

    def __init__(self):
        super().__init__()
        self.kept = torch.zeros(3, dtype=torch.float64)

    def forward(self, tokens, mask):
        tokens.zero_()
        mask.fill_(True)
        return self.kept.add_(1)


def test_a_torch_module_is_a_reward_model_on_tokens_that_shares_none_with_others():
    spoiler, tokens, mask = Spoiler(), TOKENS.clone(), MASK.clone()
    models = spoiler, spoiler, TokenSum(), length
    rewards, parts = scored(*models, factors=[0.0, 0.0, 1.0, 10.0], tokens=tokens, mask=mask)
    assert rewards.tolist() == [13.0, 35.0, 7.0]
    assert parts[:, :3].tolist() == [[1.0, 2.0, 3.0], [1.0, 2.0, 15.0], [1.0, 2.0, 7.0]]
    assert not parts.requires_grad
    assert torch.equal(tokens, TOKENS)
    assert torch.equal(mask, MASK)


def test_rewards_load_by_name_and_by_dotted_path(monkeypatch):
    module = types.ModuleType("users_rewards")
    module.length, module.model, module.Model = length, TokenSum(), TokenSum
    module.data = [0] * 1000
    monkeypatch.setitem(sys.modules, "users_rewards", module)
    names = ["exact_match", "users_rewards:length", "users_rewards:model"]
    named, dotted, model = load_rewards(names)
    assert named.call([], ["a", "b"], answer=["a", "a"]) == [1.0, 0.0]
    assert dotted.call is length
    assert model.call is module.model
    for name, message in (
        ("Model", "got the class TokenSum"),
        ("nothing", "cannot load"),
        ("data", r"got \[0, 0, .* … .*characters\)$"),
    ):
        with pytest.raises(LabError, match=message):
            load_rewards([f"users_rewards:{name}"])


def test_the_reward_function_of_the_pages_gives_every_completion_a_number():
    """Also the empty one: a gradient study needs a reward for every trajectory."""
    page = (Path(__file__).parents[3] / "docs/extending.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (code,) = (block for block in blocks if "(prompts, completions, **columns)" in block)
    names = {}
    exec(code, names)
    completions = ["", "a", "aa", "abc", "abca", "12+3"]
    rewards = names["no_repeats"](["1+2="] * 6, completions, truncated=[False, True] * 3)
    assert all(map(math.isfinite, rewards))
    assert len(rewards) == 6
    assert len(set(rewards)) > 1
