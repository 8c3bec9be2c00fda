"""The toy language: distribution, enumeration, texts, and no effect of padding or the batch."""

import sys
from itertools import product
from types import ModuleType

import pytest
import torch
from small_environments import make
from torch import nn

from maxk_lab.errors import LabError

TINY = {"vocab_size": 4, "max_length": 3, "prompt_length": 3}


def toy(dtype="float64", init_std=0.3, **changes):
    policy = {"init_std": init_std, "num_heads": 4, "num_layers": 2}
    return make("toy_llm", dtype, policy=policy, **TINY | changes)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_teacher_forcing_is_the_product_of_the_distributions_sampled_from(temperature):
    """By hand: a pass per token over its prefix."""
    environment = toy(temperature=temperature)
    policy, instances = environment.policy(0), environment.instances(4, 1)
    rollouts = environment.rollout(policy, instances, 6, seed=2)
    for b, i in product(range(4), range(6)):
        total, prefix = 0.0, [*(instances[b] + 1).tolist(), len(environment.symbols) + 1]
        for token in rollouts.actions[b, i, : rollouts.lengths[b, i]].tolist():
            logits = policy(torch.tensor([prefix]))[0, -1] / temperature
            total += (logits[token].exp() / logits.exp().sum()).log().item()
            prefix.append(token)
        assert rollouts.log_probs[b, i].item() == pytest.approx(total, abs=1e-12)


def test_what_cannot_be_listed_is_refused():
    environment = toy(max_length=12)
    assert not environment.enumerable
    with pytest.raises(LabError, match="at most 20000 completions"):
        environment.enumerate(environment.instances(1, 0))


def test_columns_after_the_end_change_nothing():
    environment = toy(max_length=6)
    policy, instances = environment.policy(0), environment.instances(3, 1)
    rollouts = environment.rollout(policy, instances, 20, seed=2)
    beyond = torch.arange(6) >= rollouts.lengths.unsqueeze(-1)
    assert beyond.any()
    for filler in (1, 3, -1):
        actions = rollouts.actions.masked_fill(beyond, filler)
        assert torch.equal(environment.log_probs(policy, instances, actions), rollouts.log_probs)


def test_fewer_columns_are_the_beginning_of_a_completion():
    environment = toy()
    policy, instances = environment.policy(0), environment.instances(1, 1)
    completions = torch.tensor([[[1, 2, 3], [2, 0, 0]]])
    tokens = environment.tokens(policy, instances, completions)
    begun = environment.tokens(policy, instances, completions[..., :2])
    assert begun.mask.all()
    assert torch.equal(begun.log_probs, tokens.log_probs[..., :2])
    log_probs = environment.log_probs(policy, instances, completions[..., :2])
    torch.testing.assert_close(log_probs, begun.log_probs.sum(-1), rtol=1e-14, atol=0)


def test_lengths_count_the_end_of_completions_that_are_not_cut():
    environment = toy(max_length=4)
    policy, instances = environment.policy(0), environment.instances(4, 1)
    rollouts = environment.rollout(policy, instances, 50, seed=2)
    ended = rollouts.actions == 0
    assert torch.equal(rollouts.truncated, ~ended.any(-1))
    first = ended.int().argmax(-1) + 1
    assert torch.equal(rollouts.lengths, first.where(~rollouts.truncated, 4))
    assert 0 < rollouts.truncated.double().mean() < 1


def test_training_and_held_out_prompts_share_none():
    environment = make("toy_llm")
    train, held_out = (
        set(map(tuple, environment.instances(300, 6, held_out=flag).tolist()))
        for flag in (False, True)
    )
    assert len(train) > 10
    assert train.isdisjoint(held_out)


def test_the_weights_of_a_seed_do_not_depend_on_the_floating_point_type():
    single, double = toy(dtype="float32").policy(3), toy(dtype="float64").policy(3)
    for a, b in zip(single.parameters(), double.parameters()):
        assert torch.equal(a.double(), b)


class Model(nn.Module):
    def forward(self, tokens, mask):
        return (tokens * mask).double().sum(-1)


def test_rewards_are_given_texts_and_the_columns_of_the_task_or_tokens(monkeypatch):
    own, calls = ModuleType("own"), []

    def remember(prompts, completions, **columns):
        calls.append((prompts, completions, columns))
        return [None if text == "" else float(len(text)) for text in completions]

    own.remember, own.model = remember, Model()
    monkeypatch.setitem(sys.modules, "own", own)
    environment = toy(
        rewards=["own:remember", "exact_match", "own:model"], reward_weights=[2.0, 10.0, 0.0]
    )
    instances = environment.instances(2, 1)
    rollouts = environment.rollout(environment.policy(0), instances, 30, seed=2)
    ((prompts, completions, columns),) = calls
    assert prompts == [prompt for prompt in environment.prompts(instances) for _ in range(30)]
    assert columns["answer"] == [str(sum(map(int, prompt)) % 3) for prompt in prompts]
    rows = rollouts.actions.flatten(0, 1).tolist()
    ids = [row if cut else row[: row.index(0)] for row, cut in zip(rows, columns["truncated"])]
    assert columns["completion_ids"] == ids
    assert completions == ["".join("012"[token - 1] for token in row) for row in ids]
    empty = torch.tensor([text == "" for text in completions]).view(2, 30)
    assert empty.any()
    assert torch.equal(rollouts.rewards.isnan(), empty)
    lengths, matches, read = rollouts.reward_parts.unbind(-1)
    assert torch.equal(lengths.isnan(), empty)
    torch.testing.assert_close(2 * lengths + 10 * matches, rollouts.rewards, equal_nan=True)
    # The model reads prompt, separator and completion up to its end.
    before = (instances + 1).sum(-1, keepdim=True) + len(environment.symbols) + 1
    assert torch.equal(read, (before + rollouts.actions.sum(-1)).double())
