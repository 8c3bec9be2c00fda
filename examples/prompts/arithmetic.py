"""The reward of the arithmetic prompts beside this file: the right digit first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def correct(
    prompts: Sequence[str], completions: Sequence[str], answer: Sequence[str], **columns: Any
) -> list[float]:
    """1 for the right digit first, else 0."""
    return [
        float(completion.startswith(right))
        for completion, right in zip(completions, answer, strict=True)
    ]
