"""Prompts and completions in the tokens of a pretrained language model (extra llm), offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from maxk_lab.environments.language.environment import LanguageEnvironment
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import fresh_policy
from maxk_lab.policies.pretrained import load_pretrained


class PretrainedLLM(LanguageEnvironment):
    """Prompts are written symbol by symbol with the model's own tokens.

    Its separator or beginning token, if any, ends them. Completions are drawn from the model's
    whole vocabulary but for that separator, and end with its end-of-sequence token.
    """

    enumerable = False

    def __init__(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        self.policy_parameters = {key: policy[key] for key in ("name", "pretrained", "dtype")}
        self.folder: str = policy["pretrained"]
        self.tokenizer = load_pretrained("AutoTokenizer", self.folder)
        if self.tokenizer.eos_token_id is None:
            raise LabError(f"the tokenizer of {self.folder!r} has no end-of-sequence token")
        self.end = int(self.tokenizer.eos_token_id)
        self.symbol_tokens = torch.tensor([self._token(symbol) for symbol in self.symbols])
        candidates = (self.tokenizer.sep_token_id, self.tokenizer.bos_token_id)
        self.separator = tuple(token for token in candidates if token not in (None, self.end))[:1]

    def policy(self, seed: int) -> nn.Module:
        return fresh_policy(
            self.policy_parameters,
            seed,
            prompt_length=self.prompt_length,
            max_length=self.max_length,
            separator=self.separator,
        )

    def texts(self, completions: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = self.tokenizer.batch_decode(completions, skip_special_tokens=True)
        return texts

    def _token(self, symbol: str) -> int:
        token = self.tokenizer.convert_tokens_to_ids(symbol)
        if token is None or token == self.tokenizer.unk_token_id:
            raise LabError(
                f"the tokenizer of {self.folder!r} has no single token for the symbol {symbol!r}; "
                "lower vocab_size or take another model"
            )
        return int(token)
