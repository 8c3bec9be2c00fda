"""The toy language's symbols, its tasks, and the reward functions of completions.

Every task is a deterministic function of the prompt. A policy that learns the rule can solve
prompts that it never saw in training. A task maps (prompts, symbols) to the columns of its reward
function, one entry per prompt. A reward function maps (prompts, completions, **columns) to one
number per completion. `completions` are texts without the end of sequence; `truncated` marks those
that were cut at the longest allowed length. This module does not import torch.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.environments.functions import FunctionRow, listed
from maxk_lab.ranges import SHARES
from maxk_lab.seeds import derive_seed

ALPHABET = string.digits + string.ascii_lowercase + string.ascii_uppercase
# Token 0 ends a completion, so zeros as padding are ends.
END = 0
MAX_VOCABULARY = len(ALPHABET) + 1
HELD_OUT_SHARE = 0.25
# Prompt spaces up to this size are counted before a run; a larger one surely has both kinds of
# prompt.
COUNTED_PROMPTS = 4096

SAFE_REWARD = 0.4
RISKY_SHARE = 0.125

Texts = Sequence[str]
Columns = dict[str, list[str]]


def symbols_of(vocab_size: int) -> str:
    """Return the symbols of a vocabulary of `vocab_size` tokens.

    Token i ≥ 1 is written `symbols[i − 1]`, token 0 is the end.
    """
    return ALPHABET[: vocab_size - 1]


def hash_share(*words: str) -> float:
    """Return a hash of `words` as a uniform number in [0, 1)."""
    return derive_seed(*words) / 2**63


def is_held_out(task: str, prompt: str) -> bool:
    """Return whether a prompt is held out of its task: a quarter of all prompts, by hash."""
    return hash_share("held-out", task, prompt) < HELD_OUT_SHARE


def can_be_split(task: str, symbols: str, prompt_length: int) -> bool:
    """Return whether there are prompts of both kinds, training and held-out."""
    if prompt_length * math.log2(len(symbols)) > math.log2(COUNTED_PROMPTS):
        return True
    prompts = product(symbols, repeat=prompt_length)
    return len({is_held_out(task, "".join(prompt)) for prompt in prompts}) == 2


@dataclass(frozen=True, kw_only=True)
class TaskRow(Row):
    """A task of the toy language, its reward function, and the length its answers need."""

    reward: str
    least_max_length: int = 1

    def refusal(self, max_length: int) -> str | None:
        """Return why completions of at most `max_length` are too short; None if they are not."""
        if max_length < self.least_max_length:
            return f"task {self.name} needs max_length ≥ {self.least_max_length}, got {max_length}"
        return None


_TASKS: list[TaskRow] = []
task = listed(_TASKS, TaskRow)


@task(
    "write the sum of the prompt's digits modulo the number of symbols, as one symbol, then end "
    "(pass@K)",
    reward="single_symbol",
    least_max_length=2,
)
def modular(prompts: Texts, symbols: str) -> Columns:
    """Return the column `answer`: the sum of the prompt's digits modulo the number of symbols."""
    sums = (sum(map(symbols.index, prompt)) for prompt in prompts)
    return {"answer": [symbols[total % len(symbols)] for total in sums]}


@task(
    "begin safely for .4, or riskily for 1 in an unlearnable eighth of the cases: mean and Max@K "
    "disagree",
    reward="safe_or_risky",
    least_max_length=3,
)
def deceptive(prompts: Texts, symbols: str) -> Columns:
    """Return the columns `safe` and `risky`: first symbols of answers with sure or rare rewards."""
    return {"safe": [symbols[0]] * len(prompts), "risky": [symbols[1]] * len(prompts)}


TASKS: Catalogue[TaskRow] = Catalogue("task", _TASKS, "maxk_lab.tasks")


@dataclass(frozen=True, kw_only=True)
class RewardRow(FunctionRow):
    """A reward function of completions, and the columns that it reads."""

    reads: tuple[str, ...] = ()


_REWARDS: list[RewardRow] = []
reward = listed(_REWARDS, RewardRow, within=SHARES)


@reward(
    "1 where the completion is the task's answer, else 0",
    reads=("answer",),
    binary=True,
)
def exact_match(
    prompts: Texts, completions: Texts, *, answer: Texts, **columns: Any
) -> list[float]:
    return [float(text == right) for text, right in zip(completions, answer, strict=True)]


@reward(
    "1 where the completion is the one symbol of the answer, then the end; else 0",
    reads=("answer", "truncated"),
    binary=True,
)
def single_symbol(
    prompts: Texts, completions: Texts, *, answer: Texts, truncated: Sequence[bool], **columns: Any
) -> list[float]:
    rows = zip(completions, answer, truncated, strict=True)
    return [float(len(text) == 1 and not cut and text == right) for text, right, cut in rows]


@reward(
    ".4 for completions that begin with the safe symbol, 1 for a hashed eighth of those that begin "
    "with the risky one, else 0",
    reads=("safe", "risky"),
)
def safe_or_risky(
    prompts: Texts, completions: Texts, *, safe: Texts, risky: Texts, **columns: Any
) -> list[float]:
    """Return a small reward for `safe`, and a large one for a random eighth of `risky` answers.

    A hash of prompt and completion determines the winning eighth. It can only be found by trying,
    and it differs between prompts. So the safe symbol is best for the mean, the risky one for the
    best of many.
    """
    rewards = []
    for prompt, text, secure, daring in zip(prompts, completions, safe, risky, strict=True):
        if text.startswith(secure):
            rewards.append(SAFE_REWARD)
        else:
            wins = text.startswith(daring) and hash_share("risky", prompt, text) < RISKY_SHARE
            rewards.append(float(wins))
    return rewards


REWARDS: Catalogue[RewardRow] = Catalogue("reward function", _REWARDS, "maxk_lab.rewards")
