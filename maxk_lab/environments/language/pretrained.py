"""A pretrained causal language model from a local folder as the policy, through transformers (optional extra `llm`), offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.language.environment import LanguageEnvironment
from maxk_lab.errors import LabError
from maxk_lab.random_state import isolated_rng


class PretrainedPolicy(nn.Module):
    """The model of transformers as a function of tokens alone; `unwritable` tokens get probability zero."""

    def __init__(self, model: nn.Module, unwritable: tuple[int, ...]) -> None:
        super().__init__()
        self.model = model
        self.unwritable = unwritable

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [N, L] → logits [N, L, V]."""
        logits: Tensor = self.model(input_ids=tokens, use_cache=False).logits
        if not self.unwritable:
            return logits
        return logits.index_fill(
            -1, torch.tensor(self.unwritable, device=logits.device), -torch.inf
        )


class PretrainedLLM(LanguageEnvironment):
    """Prompts are written symbol by symbol with the model's own tokens; its separator or beginning token, if any, ends them.

    Completions are drawn from the model's whole vocabulary but for that separator, and end with its end-of-sequence token.
    """

    enumerable = False

    def __init__(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        self.folder: str = policy["pretrained"]
        self.dtype: torch.dtype = getattr(torch, policy["dtype"])
        self.tokenizer = _load("AutoTokenizer", self.folder)
        if self.tokenizer.eos_token_id is None:
            raise LabError(f"the tokenizer of {self.folder!r} has no end-of-sequence token")
        self.end = int(self.tokenizer.eos_token_id)
        self.symbol_tokens = torch.tensor([self._token(symbol) for symbol in self.symbols])
        candidates = (self.tokenizer.sep_token_id, self.tokenizer.bos_token_id)
        self.separator = tuple(token for token in candidates if token not in (None, self.end))[:1]

    def policy(self, seed: int) -> nn.Module:
        """The model of the folder, the same for every seed."""
        model = _load("AutoModelForCausalLM", self.folder)
        limit = getattr(model.config, "max_position_embeddings", None)
        longest = self.prompt_length + len(self.separator) + self.max_length - 1
        if limit is not None and longest > limit:
            raise LabError(
                f"the model of {self.folder!r} reads at most {limit} tokens; prompt_length {self.prompt_length} and max_length "
                f"{self.max_length} take {longest}"
            )
        return PretrainedPolicy(model.to(self.dtype), self.separator).eval()

    def texts(self, completions: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = self.tokenizer.batch_decode(completions, skip_special_tokens=True)
        return texts

    def _token(self, symbol: str) -> int:
        token = self.tokenizer.convert_tokens_to_ids(symbol)
        if token is None or token == self.tokenizer.unk_token_id:
            raise LabError(
                f"the tokenizer of {self.folder!r} has no single token for the symbol {symbol!r}; lower vocab_size or take "
                "another model"
            )
        return int(token)


def _load(kind: str, folder: str) -> Any:
    """`transformers.<kind>` of a local folder; nothing is ever downloaded."""
    try:
        transformers = import_module("transformers")
    except ImportError:
        raise LabError(
            "a pretrained policy needs the optional extra: pip install 'maxk-lab[llm]'"
        ) from None
    bars = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        with isolated_rng(0):  # weights that the folder lacks are drawn from the global generator
            return getattr(transformers, kind).from_pretrained(folder, local_files_only=True)
    except Exception as error:  # transformers raises many kinds for a folder it cannot read
        raise LabError(
            f"{folder!r} holds no causal language model with its tokenizer: {error}"
        ) from error
    finally:
        if shown:
            bars.enable_progress_bar()
