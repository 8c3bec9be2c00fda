"""Prompts of the user's own: a language model answers them, functions of its texts give rewards."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.language.completions import Completions
from maxk_lab.environments.language.rows import PromptRow, read_prompts
from maxk_lab.errors import LabError, shown
from maxk_lab.policies.catalogue import fresh_policy

# A prompt in so many is held out.
HELD_OUT = 5
_LOGITS = 2**26


class PromptEnvironment(Completions):
    """Instances are numbers of prompts [B], int64; completions have at most `max_new_tokens`.

    They end with the model's end of sequence or one of the `stop` tokens.
    """

    # transformers' models are no pure functions that torch.func could map.
    trajectory_log_prob = None  # type: ignore[assignment]

    def __init__(
        self, row: PromptRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        from maxk_lab.policies.pretrained import loaded

        super().__init__(row, parameters, parameters["max_new_tokens"])
        self.field: str = parameters["prompt"]
        self.lines = read_prompts(parameters["prompts"]["path"], self.field)
        self.policy_parameters = dict(policy)
        self.tokenizer = loaded("AutoTokenizer", policy["pretrained"])
        self.at_once = _LOGITS // len(self.tokenizer)
        self.ends = self._ends(parameters["stop"])
        self.decode = lambda completions: list(
            self.tokenizer.batch_decode(completions, skip_special_tokens=True)
        )
        rows = [self._encoded(line, parameters["chat_template"]) for line in self.lines]
        self.lengths = torch.tensor([len(row) for row in rows])
        self.padded = nn.utils.rnn.pad_sequence(rows, True, float(self.ends[0]))

    def _ends(self, stop: Sequence[str]) -> Tensor:
        """The tokens that end a completion, the one that pads first."""
        end = self.tokenizer.eos_token_id
        ends = [] if end is None else [int(end)]
        for text in stop:
            tokens = self.tokenizer.encode(text, add_special_tokens=False)
            if len(tokens) != 1:
                raise LabError(f"stop: {text!r} is {len(tokens)} tokens of this model, not one")
            ends += tokens
        if not ends:
            raise LabError("the tokenizer has no end of sequence: name tokens that end in `stop`")
        return torch.tensor(ends)

    def _encoded(self, line: Mapping[str, Any], chat_template: bool) -> Tensor:
        text: str = line[self.field]
        if chat_template:
            message = [{"role": "user", "content": text}]
            text = self.tokenizer.apply_chat_template(
                message, tokenize=False, add_generation_prompt=True
            )
        tokens = self.tokenizer.encode(text, add_special_tokens=not chat_template)
        if not tokens:
            raise LabError(f"a prompt without a token: {shown(text)}")
        return torch.tensor(tokens)

    def policy(self, seed: int) -> nn.Module:
        lengths = {"prompt_length": int(self.lengths.max()), "max_length": self.max_length}
        return fresh_policy(self.policy_parameters, seed, separator=(), **lengths)

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Tensor:
        """`count` of the training or held-out prompts, each as often as any other, in any order."""
        rows = [i for i, line in enumerate(self.lines) if self._is_held_out(line) == held_out]
        if not rows:
            which = "held out" if held_out else "left to train on"
            raise LabError(f"of {len(self.lines)} prompts none is {which}: give more")
        generator = torch.Generator().manual_seed(seed)
        times = -(-count // len(rows))
        orders = [torch.randperm(len(rows), generator=generator) for _ in range(times)]
        return torch.tensor(rows)[torch.cat(orders)[:count]]

    def _is_held_out(self, line: Mapping[str, Any]) -> bool:
        digest = hashlib.sha256(line[self.field].encode()).digest()
        return digest[0] % HELD_OUT == 0

    def place(self, instances: Tensor, device: torch.device | str) -> Tensor:
        return instances.to(device)

    def encoded(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        rows = instances.cpu()
        lengths = self.lengths[rows]
        tokens = self.padded[rows, : int(lengths.max())]
        return tokens.to(instances.device), lengths.to(instances.device)

    def questions(self, instances: Tensor, n: int) -> tuple[list[str], dict[str, list[Any]]]:
        lines = [self.lines[i] for i in instances.tolist() for _ in range(n)]
        names = [name for name in lines[0] if name != self.field]
        columns = {name: [line[name] for line in lines] for name in names}
        return [line[self.field] for line in lines], columns

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        raise LabError("the completions of a language model are too many to be enumerated")
