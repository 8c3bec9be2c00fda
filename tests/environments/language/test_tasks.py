"""The tasks of the toy language: their rules, their rewards and their held-out prompts."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_environments import make

from maxk_lab.environments.language import tasks
from maxk_lab.environments.language.tasks import REWARDS, TASKS

SYMBOLS = "01234"


def edit_distance_by_recursion(left, right):
    if not left or not right:
        return len(left) + len(right)
    return min(
        edit_distance_by_recursion(left[1:], right) + 1,
        edit_distance_by_recursion(left, right[1:]) + 1,
        edit_distance_by_recursion(left[1:], right[1:]) + (left[0] != right[0]),
    )


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_the_edit_distance_is_the_recursive_one(left, right):
    assert tasks.edit_distance(left, right) == edit_distance_by_recursion(left, right)


def test_the_edit_reward_is_graded_between_zero_and_one():
    answers = tasks.edit(["123"] * 4, SYMBOLS)
    assert answers == {"answer": ["321"] * 4}
    given = ["321", "32", "0", "32104"]
    values = tasks.edit_similarity(["123"] * 4, given, **answers)
    assert values == pytest.approx([1.0, 2 / 3, 0.0, 3 / 5])


@pytest.mark.parametrize("count", [2, 3, 16, 62])
def test_the_secret_substitution_is_one_cycle_that_moves_every_symbol(count):
    symbols = tasks.secret_substitution("".join(map(chr, range(48, 48 + count))))
    at, seen = "0", set()
    while at not in seen:
        seen.add(at)
        at = symbols[at]
    assert len(seen) == count


def test_the_hidden_target_rewards_exactly_the_substituted_prompt():
    table = tasks.secret_substitution(SYMBOLS)
    answer = "".join(table[symbol] for symbol in "031")
    columns = tasks.hidden_target(["031"] * 3, SYMBOLS)
    given = [answer, answer + "0", answer[:2]]
    assert tasks.exact_match(["031"] * 3, given, **columns) == [1.0, 0.0, 0.0]


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
    given = set(bandit.columns(bandit.prompts(prompt), bandit.symbols)) | {"truncated", "longest"}
    reward = REWARDS.get(row.reward)
    assert set(reward.reads) <= given
    values = set(bandit.enumerate(prompt)[1].tolist())
    assert len(values) >= 2
    assert not reward.binary or values == {0.0, 1.0}


def test_a_prompt_space_too_small_to_split_is_seen():
    assert not tasks.can_be_split("edit", "0", 3)
    for task, count, length in product(TASKS.names(), (2, 3, 5), (1, 2)):
        kinds = {
            tasks.is_held_out(task, "".join(p)) for p in product(SYMBOLS[:count], repeat=length)
        }
        assert tasks.can_be_split(task, SYMBOLS[:count], length) == (len(kinds) == 2)
