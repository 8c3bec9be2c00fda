"""The toy language: distribution, enumeration, texts, and no effect of padding or the batch."""

import sys

import pytest
import torch
from small_environments import make
from torch import nn

from maxk_lab.errors import LabError

TINY = {"vocab_size": 4, "max_length": 3, "prompt_length": 3}


def toy(dtype="float64", init_std=0.3, **changes):
    policy = {"init_std": init_std, "num_heads": 4, "num_layers": 2}
    return make("toy_llm", dtype, policy=policy, **TINY | changes)


def log_prob_step_by_step(environment, policy, prompt, completion):
    """log π of one completion: a pass per token over its prefix, the distribution by hand."""
    total, so_far = 0.0, [*(prompt + 1).tolist(), len(environment.symbols) + 1]
    for token in completion.tolist():
        logits = policy(torch.tensor([so_far]))[0, -1] / environment.temperature
        total = total + (logits[token].exp() / logits.exp().sum()).log()
        so_far.append(token)
        if token == 0:
            break
    return total


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_teacher_forcing_is_the_product_of_the_distributions_sampled_from(temperature):
    environment = toy(temperature=temperature)
    policy, instances = environment.policy(0), environment.instances(4, 1)
    rollouts = environment.rollout(policy, instances, 6, seed=2)
    assert rollouts.log_probs.isfinite().all()
    with torch.no_grad():
        for b in range(4):
            for i in range(6):
                slow = log_prob_step_by_step(
                    environment, policy, instances[b], rollouts.actions[b, i]
                )
                assert rollouts.log_probs[b, i].item() == pytest.approx(slow.item(), abs=1e-12)


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
    doubled = torch.cat([rollouts.actions, rollouts.actions], -1)
    assert torch.equal(environment.log_probs(policy, instances, doubled), rollouts.log_probs)


def test_fewer_columns_are_the_beginning_of_a_completion():
    environment = toy()
    policy, instances = environment.policy(0), environment.instances(1, 1)
    whole = torch.tensor([[[1, 2, 3], [2, 0, 0]]])
    tokens = environment.tokens(policy, instances, whole)
    begun = environment.tokens(policy, instances, whole[..., :2])
    assert begun.mask.all()
    assert torch.equal(begun.log_probs, tokens.log_probs[..., :2])
    log_probs = environment.log_probs(policy, instances, whole[..., :2])
    torch.testing.assert_close(log_probs, begun.log_probs.sum(-1), rtol=1e-14, atol=0)


def test_lengths_count_the_end_and_cut_completions_are_told():
    environment = toy(max_length=4)
    policy, instances = environment.policy(0), environment.instances(4, 1)
    rollouts = environment.rollout(policy, instances, 50, seed=2)
    for row, length, cut in zip(
        rollouts.actions.flatten(0, 1).tolist(),
        rollouts.lengths.flatten().tolist(),
        rollouts.truncated.flatten().tolist(),
    ):
        assert cut == (0 not in row)
        assert length == (4 if cut else row.index(0) + 1)
    assert 0 < rollouts.truncated.double().mean() < 1


def test_the_weights_of_a_seed_do_not_depend_on_the_floating_point_type():
    single, double = toy(dtype="float32").policy(3), toy(dtype="float64").policy(3)
    for a, b in zip(single.parameters(), double.parameters()):
        assert torch.equal(a.double(), b)


SEEN = []


def remember(prompts, completions, **columns):
    SEEN.append((prompts, completions, columns))
    return [None if text == "" else float(len(text)) for text in completions]


class Model(nn.Module):
    def forward(self, tokens, mask):
        return (tokens * mask).double().sum(-1)


model = Model()


def test_rewards_are_given_texts_and_the_columns_of_the_task_or_tokens(monkeypatch):
    monkeypatch.setitem(sys.modules, "own", sys.modules[__name__])
    environment = toy(
        rewards=["own:remember", "exact_match", "own:model"], reward_weights=[2.0, 10.0, 0.0]
    )
    policy, instances = environment.policy(0), environment.instances(2, 1)
    rollouts = environment.rollout(policy, instances, 30, seed=2)
    prompts, completions, columns = SEEN.pop()
    assert prompts == [prompt for prompt in environment.prompts(instances) for _ in range(30)]
    sums = [sum(map(int, prompt)) % 3 for prompt in prompts]
    assert columns["answer"] == [str(total) for total in sums]
    for text, row, cut, ids in zip(
        completions,
        rollouts.actions.flatten(0, 1).tolist(),
        columns["truncated"],
        columns["completion_ids"],
    ):
        stop = 3 if cut else row.index(0)
        assert ids == row[:stop]
        assert text == "".join("012"[token - 1] for token in row[:stop])
    empty = torch.tensor([text == "" for text in completions]).view(2, 30)
    assert empty.any()
    assert torch.equal(rollouts.rewards.isnan(), empty)
    assert torch.equal(rollouts.reward_parts[..., 0].isnan(), empty)
    weighted = 2 * rollouts.reward_parts[..., 0] + 10 * rollouts.reward_parts[..., 1]
    torch.testing.assert_close(weighted, rollouts.rewards, equal_nan=True)
    # The model reads prompt, separator and completion, and nothing of what follows the end.
    read = (instances + 1).sum(-1, keepdim=True) + len(environment.symbols) + 1
    assert torch.equal(rollouts.reward_parts[..., 2], (read + rollouts.actions.sum(-1)).double())
