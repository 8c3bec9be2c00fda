"""The reward functions of the toy language. Imports no torch.

Each is `(prompts, completions, **columns)` → one number per completion. `completions` are texts
without the end of sequence; `truncated` says which were cut at the longest allowed length.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from maxk_lab.environments.language.tasks import hash_share

SAFE_REWARD = 0.4
RISKY_SHARE = 0.125


def exact_match(
    prompts: Sequence[str], completions: Sequence[str], *, answer: Sequence[str], **columns: Any
) -> list[float]:
    """1 where the completion is the answer, else 0."""
    return [float(text == right) for text, right in zip(completions, answer, strict=True)]


def single_symbol(
    prompts: Sequence[str],
    completions: Sequence[str],
    *,
    answer: Sequence[str],
    truncated: Sequence[bool],
    **columns: Any,
) -> list[float]:
    """1 where the completion is the answer's one symbol, ended by the policy, else 0."""
    rows = zip(completions, answer, truncated, strict=True)
    return [float(len(text) == 1 and not cut and text == right) for text, right, cut in rows]


def edit_similarity(
    prompts: Sequence[str], completions: Sequence[str], *, answer: Sequence[str], **columns: Any
) -> list[float]:
    """1 − (edit distance to the answer) / (length of the longer of the two), in [0, 1]."""
    return [
        1 - edit_distance(text, right) / max(len(text), len(right), 1)
        for text, right in zip(completions, answer, strict=True)
    ]


def safe_or_risky(
    prompts: Sequence[str],
    completions: Sequence[str],
    *,
    safe: Sequence[str],
    risky: Sequence[str],
    **columns: Any,
) -> list[float]:
    """.4 for any completion that begins with the safe symbol.

    1 for an eighth of those that begin with the risky one; else 0. Which eighth is a hash of prompt
    and completion: nothing but trying tells, and what is found for one prompt says nothing about
    another. So the mean is best served by the safe symbol, the best of many by the risky one.
    """
    rewards = []
    for prompt, text, secure, daring in zip(prompts, completions, safe, risky, strict=True):
        if text.startswith(secure):
            rewards.append(SAFE_REWARD)
        else:
            wins = text.startswith(daring) and hash_share("risky", prompt, text) < RISKY_SHARE
            rewards.append(float(wins))
    return rewards


def finished(
    prompts: Sequence[str], completions: Sequence[str], *, truncated: Sequence[bool], **columns: Any
) -> list[float]:
    """1 where the policy ended the completion itself, 0 where it was cut."""
    return [float(not cut) for cut in truncated]


def brevity(
    prompts: Sequence[str], completions: Sequence[str], *, longest: Sequence[int], **columns: Any
) -> list[float]:
    """1 − (length of the completion) / (longest allowed length)."""
    return [1 - len(text) / limit for text, limit in zip(completions, longest, strict=True)]


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
