"""The toy language's symbols and tasks: what a prompt asks for, and which prompts are held out.

Imports no torch. Every task is a deterministic function of the prompt, so that prompts never seen
in training can be solved where the rule can be learnt. A task gives the columns that its reward
function reads, one entry per prompt.
"""

from __future__ import annotations

import math
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.environments.scored import listed
from maxk_lab.seeds import derive_seed

ALPHABET = string.digits + string.ascii_lowercase + string.ascii_uppercase
# Token 0 ends a completion, so that a row padded with zeros is a row padded with ends.
END = 0
MAX_VOCABULARY = len(ALPHABET) + 1
HELD_OUT_SHARE = 0.25
# Prompt spaces up to this size are counted before a run; a larger one has both kinds of prompt for
# certain.
COUNTED_PROMPTS = 4096

Columns = dict[str, list[str]]


def symbols_of(vocab_size: int) -> str:
    """The symbols of a vocabulary of `vocab_size` tokens.

    Token i ≥ 1 is written `symbols[i − 1]`, token 0 is the end.
    """
    return ALPHABET[: vocab_size - 1]


def hash_share(*words: str) -> float:
    """A number in [0, 1) that is a hash of `words`: uniform, and the same for the same words."""
    return derive_seed(*words) / 2**63


def is_held_out(task: str, prompt: str) -> bool:
    """Whether a prompt is held out of its task; a hash says so of a quarter of all prompts."""
    return hash_share("held-out", task, prompt) < HELD_OUT_SHARE


def can_be_split(task: str, symbols: str, prompt_length: int) -> bool:
    """Whether there are prompts of both kinds, training and held-out."""
    if prompt_length * math.log2(len(symbols)) > math.log2(COUNTED_PROMPTS):
        return True
    prompts = product(symbols, repeat=prompt_length)
    return len({is_held_out(task, "".join(prompt)) for prompt in prompts}) == 2


def secret_substitution(symbols: str) -> dict[str, str]:
    """The symbol written for each symbol by `hidden_target`.

    One fixed cycle goes through all of them, so none stands for itself.
    """
    order = list(symbols)
    random.Random(derive_seed("hidden_target", symbols)).shuffle(order)
    return dict(zip(order, order[1:] + order[:1], strict=True))


@dataclass(frozen=True, kw_only=True)
class TaskRow(Row):
    """A task of the toy language, its reward function, and the sizes it needs."""

    reward: str
    least_symbols: int = 2
    least_length: int = 1
    # Whether the answer is as long as the prompt, so that it must fit into a completion.
    answer_of_prompt_length: bool = False

    def refusal(self, symbols: int, prompt_length: int, max_length: int) -> str | None:
        """Why the task cannot be set in this many symbols and these lengths, or None."""
        if symbols < self.least_symbols:
            return (
                f"task {self.name} needs vocab_size ≥ {self.least_symbols + 1} "
                f"(symbols and the end), got {symbols + 1}"
            )
        if max_length < self.least_length:
            return f"task {self.name} needs max_length ≥ {self.least_length}, got {max_length}"
        if self.answer_of_prompt_length and max_length < prompt_length:
            return (
                f"task {self.name} has answers as long as the prompt: max_length must be at least "
                f"prompt_length = {prompt_length}, got {max_length}"
            )
        return None


_ROWS: list[TaskRow] = []
task = listed(_ROWS, TaskRow)


@task(
    "write the prompt under a secret substitution of symbols, exactly (pass@K)",
    reward="exact_match",
    answer_of_prompt_length=True,
)
def hidden_target(prompts: Sequence[str], symbols: str) -> Columns:
    """`answer`: the prompt with every symbol replaced by its secret substitute."""
    table = str.maketrans(secret_substitution(symbols))
    return {"answer": [prompt.translate(table) for prompt in prompts]}


@task(
    "write the sum of the prompt's digits modulo the number of symbols, as one symbol, then end "
    "(pass@K)",
    reward="single_symbol",
    least_length=2,
)
def modular(prompts: Sequence[str], symbols: str) -> Columns:
    """`answer`: the sum of the prompt's digits modulo the number of symbols, as one symbol."""
    sums = (sum(map(symbols.index, prompt)) for prompt in prompts)
    return {"answer": [symbols[total % len(symbols)] for total in sums]}


@task(
    "write the prompt backwards, graded by edit distance",
    reward="edit_similarity",
    answer_of_prompt_length=True,
)
def edit(prompts: Sequence[str], symbols: str) -> Columns:
    """`answer`: the prompt read backwards."""
    return {"answer": [prompt[::-1] for prompt in prompts]}


@task(
    "begin safely for .4, or riskily for 1 in an unlearnable eighth of the cases: mean and Max@K "
    "disagree",
    reward="safe_or_risky",
    least_length=3,
)
def deceptive(prompts: Sequence[str], symbols: str) -> Columns:
    """`safe` and `risky`: first symbols of answers that pay a little always, and a lot seldom."""
    return {"safe": [symbols[0]] * len(prompts), "risky": [symbols[1]] * len(prompts)}


TASKS: Catalogue[TaskRow] = Catalogue("task", _ROWS, "maxk_lab.tasks")
