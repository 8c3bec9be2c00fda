"""Pretrained causal language models from a local folder, through transformers, offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.errors import LabError
from maxk_lab.seeds import isolated_rng

Decode = Callable[[Sequence[Sequence[int]]], list[str]]


class PretrainedPolicy(nn.Module):
    """The model of the folder `pretrained`, equal for every seed; it never writes `separator`.

    Raises `LabError` if the model cannot read prompt, separator and completion.
    """

    def __init__(
        self,
        *,
        pretrained: str,
        dtype: str,
        prompt_length: int,
        max_length: int,
        separator: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.model = loaded("AutoModelForCausalLM", pretrained).to(getattr(torch, dtype))
        self.separator = separator
        limit = getattr(self.model.config, "max_position_embeddings", None)
        longest = prompt_length + len(separator) + max_length - 1
        if limit is not None and longest > limit:
            raise LabError(
                f"the model of {pretrained!r} reads at most {limit} tokens; prompts of "
                f"{prompt_length} tokens with completions of {max_length} take {longest}"
            )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits [N, L, V] of tokens [N, L]."""
        return self._writable(self.model(input_ids=tokens, use_cache=False).logits)

    def extend(self, tokens: Tensor, memory: Any, *, copies: int = 1) -> tuple[Tensor, Any]:
        """Return logits of tokens [N, L] that follow those in `memory`, and the new memory.

        The memory has `copies` of each row, one after the other.
        """
        output = self.model(input_ids=tokens, past_key_values=memory, use_cache=True)
        memory = output.past_key_values
        if copies > 1:
            memory.batch_repeat_interleave(copies)
        return self._writable(output.logits), memory

    def _writable(self, logits: Tensor) -> Tensor:
        separator = torch.tensor(self.separator, dtype=torch.long, device=logits.device)
        return logits.index_fill(-1, separator, -torch.inf)


def tokens_of(folder: str, symbols: str) -> tuple[Tensor, tuple[int, ...], int, Decode]:
    """Return the tokens of symbols, separator (if any) and end, and the function that decodes them.

    The tokenizer determines the separator, or beginning, and the end. Raises `LabError` if it has
    no token for one of the symbols, or no end.
    """
    tokenizer = loaded("AutoTokenizer", folder)
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

    def decode(completions: Sequence[Sequence[int]]) -> list[str]:
        return list(tokenizer.batch_decode(completions, skip_special_tokens=True))

    return torch.tensor(tokens), separator, int(end), decode


def loaded(kind: str, folder: str) -> Any:
    """Return `transformers.<kind>` of a local folder; nothing is downloaded."""
    transformers = import_module("transformers")  # the row has checked that it is installed
    bars = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        with isolated_rng(0):  # missing weights are drawn from the global generator
            return getattr(transformers, kind).from_pretrained(folder, local_files_only=True)
    except Exception as error:  # transformers raises many kinds for an unreadable folder
        raise LabError(
            f"{folder!r} holds no causal language model with its tokenizer: {error}"
        ) from error
    finally:
        if shown:
            bars.enable_progress_bar()
