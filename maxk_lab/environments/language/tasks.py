"""The tasks of the toy language: what a prompt asks for, and which prompts are held out.

Imports no torch. Every task is a deterministic function of the prompt, so that prompts never seen
in training can be solved where the rule can be learnt. A task gives the columns that its reward
function reads, one entry per prompt.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

from maxk_lab.seeds import derive_seed

HELD_OUT_SHARE = 0.25
# Prompt spaces up to this size are counted before a run; a larger one has both kinds of prompt for
# certain.
COUNTED_PROMPTS = 4096

Columns = dict[str, list[str]]


def hash_share(*words: str) -> float:
    """A number in [0, 1) that is a hash of `words`: uniform, and the same for the same words."""
    return derive_seed(*words) / 2**63


def is_held_out(task: str, prompt: str) -> bool:
    """Whether a prompt is held out of its task; a hash says so of a quarter of all prompts."""
    return hash_share("held-out", task, prompt) < HELD_OUT_SHARE


def can_be_split(task: str, symbols: str, prompt_length: int) -> bool:
    """Whether there are prompts of both kinds, training and held-out."""
    if len(symbols) ** prompt_length > COUNTED_PROMPTS:
        return True
    kinds = (
        is_held_out(task, "".join(prompt)) for prompt in product(symbols, repeat=prompt_length)
    )
    first = next(kinds)
    return any(kind != first for kind in kinds)


def secret_substitution(symbols: str) -> dict[str, str]:
    """The symbol written for each symbol by `hidden_target`.

    One fixed cycle goes through all of them, so none stands for itself.
    """
    order = list(symbols)
    random.Random(derive_seed("hidden_target", symbols)).shuffle(order)
    return dict(zip(order, order[1:] + order[:1], strict=True))


def hidden_target(prompts: Sequence[str], symbols: str) -> Columns:
    """`answer`: the prompt with every symbol replaced by its secret substitute."""
    table = str.maketrans(secret_substitution(symbols))
    return {"answer": [prompt.translate(table) for prompt in prompts]}


def modular(prompts: Sequence[str], symbols: str) -> Columns:
    """`answer`: the sum of the prompt's digits modulo the number of symbols, as one symbol."""
    value = {symbol: number for number, symbol in enumerate(symbols)}
    return {
        "answer": [
            symbols[sum(value[symbol] for symbol in prompt) % len(symbols)] for prompt in prompts
        ]
    }


def edit(prompts: Sequence[str], symbols: str) -> Columns:
    """`answer`: the prompt read backwards."""
    return {"answer": [prompt[::-1] for prompt in prompts]}


def deceptive(prompts: Sequence[str], symbols: str) -> Columns:
    """`safe` and `risky`: first symbols of answers that pay a little always, and a lot seldom."""
    return {"safe": [symbols[0]] * len(prompts), "risky": [symbols[1]] * len(prompts)}
