"""The characters a toy language is written in, and the tokens that stand for them.

Imports no torch.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence

ALPHABET = string.digits + string.ascii_lowercase + string.ascii_uppercase
# Token 0 ends a completion, so that a row padded with zeros is a row padded with ends.
END = 0
MAX_VOCABULARY = len(ALPHABET) + 1


def symbols_of(vocab_size: int) -> str:
    """The symbols of a vocabulary of `vocab_size` tokens.

    Token i ≥ 1 is written `symbols[i − 1]`, token 0 is the end.
    """
    return ALPHABET[: vocab_size - 1]


def spell(tokens: Iterable[Sequence[int]], symbols: str) -> list[str]:
    """Rows of tokens, none of them the end, as texts."""
    return ["".join(symbols[token - 1] for token in row) for row in tokens]
