"""The tokens in which prompts and completions are written: the toy language's, or a model's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from maxk_lab.environments.language.tasks import END
from maxk_lab.errors import LabError

Texts = Callable[[Sequence[Sequence[int]]], list[str]]


@dataclass(frozen=True)
class Vocabulary:
    """The token of every symbol [symbols], of the separator, if any, and of the end.

    `texts` writes completions, without their end, as texts.
    """

    symbol_tokens: Tensor
    separator: tuple[int, ...]
    end: int
    texts: Texts


def toy_vocabulary(symbols: str) -> Vocabulary:
    """Token 0 is the end, tokens 1.. are the symbols.

    One more, read and never written, separates prompt from completion.
    """
    count = len(symbols)

    def texts(completions: Sequence[Sequence[int]]) -> list[str]:
        return ["".join(symbols[token - 1] for token in row) for row in completions]

    return Vocabulary(torch.arange(1, count + 1), (count + 1,), END, texts)


def model_vocabulary(folder: str, symbols: str) -> Vocabulary:
    """Symbols, separator or beginning, and end are those of a pretrained model's tokenizer.

    Raises `LabError` where it has no token for one of the symbols, or no end.
    """
    from maxk_lab.policies.pretrained import load_pretrained

    tokenizer = load_pretrained("AutoTokenizer", folder)
    end = tokenizer.eos_token_id
    if end is None:
        raise LabError(f"the tokenizer of {folder!r} has no end-of-sequence token")
    tokens = [tokenizer.convert_tokens_to_ids(symbol) for symbol in symbols]
    for symbol, token in zip(symbols, tokens, strict=True):
        if token is None or token == tokenizer.unk_token_id:
            raise LabError(
                f"the tokenizer of {folder!r} has no single token for the symbol {symbol!r}; "
                "lower vocab_size or take another model"
            )
    special = (tokenizer.sep_token_id, tokenizer.bos_token_id)
    separator = tuple(token for token in special if token not in (None, end))[:1]

    def texts(completions: Sequence[Sequence[int]]) -> list[str]:
        return list(tokenizer.batch_decode(completions, skip_special_tokens=True))

    return Vocabulary(torch.tensor(tokens), separator, int(end), texts)
