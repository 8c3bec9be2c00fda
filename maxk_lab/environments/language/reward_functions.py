"""The reward functions of completions, each with its row of the catalogue. Imports no torch.

Each is `(prompts, completions, **columns)` → one number per completion. `completions` are texts
without the end of sequence; `truncated` says which were cut at the longest allowed length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.language.tasks import hash_share
from maxk_lab.environments.scored import FunctionRow, listed
from maxk_lab.ranges import SHARES

SAFE_REWARD = 0.4
RISKY_SHARE = 0.125

Texts = Sequence[str]


@dataclass(frozen=True, kw_only=True)
class RewardRow(FunctionRow):
    """A reward function of completions, and the columns that it reads."""

    reads: tuple[str, ...] = ()


_ROWS: list[RewardRow] = []
reward = listed(_ROWS, RewardRow, within=SHARES)


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
    "1 − edit distance to the answer / length of the longer text, in [0, 1]",
    citation="Levenshtein 1966",
    reads=("answer",),
)
def edit_similarity(
    prompts: Texts, completions: Texts, *, answer: Texts, **columns: Any
) -> list[float]:
    return [
        1 - edit_distance(text, right) / max(len(text), len(right), 1)
        for text, right in zip(completions, answer, strict=True)
    ]


@reward(
    ".4 for completions that begin with the safe symbol, 1 for a hashed eighth of those that begin "
    "with the risky one, else 0",
    reads=("safe", "risky"),
)
def safe_or_risky(
    prompts: Texts, completions: Texts, *, safe: Texts, risky: Texts, **columns: Any
) -> list[float]:
    """Which eighth wins is a hash of prompt and completion.

    Nothing but trying tells, and what is found for one prompt says nothing about another. So the
    mean is best served by the safe symbol, the best of many by the risky one.
    """
    rewards = []
    for prompt, text, secure, daring in zip(prompts, completions, safe, risky, strict=True):
        if text.startswith(secure):
            rewards.append(SAFE_REWARD)
        else:
            wins = text.startswith(daring) and hash_share("risky", prompt, text) < RISKY_SHARE
            rewards.append(float(wins))
    return rewards


@reward(
    "1 where the policy ended the completion, 0 where it was cut at max_length",
    reads=("truncated",),
    binary=True,
)
def finished(
    prompts: Texts, completions: Texts, *, truncated: Sequence[bool], **columns: Any
) -> list[float]:
    return [float(not cut) for cut in truncated]


@reward("1 − length of the completion / max_length", reads=("longest",))
def brevity(
    prompts: Texts, completions: Texts, *, longest: Sequence[int], **columns: Any
) -> list[float]:
    return [1 - len(text) / limit for text, limit in zip(completions, longest, strict=True)]


REWARDS: Catalogue[RewardRow] = Catalogue("reward function", _ROWS, "maxk_lab.rewards")


@lru_cache(maxsize=65_536)
def edit_distance(left: str, right: str) -> int:
    """Insertions, deletions and substitutions that turn one text into the other, row by row.

    Levenshtein 1966.
    """
    above = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
        above = row
    return above[-1]
