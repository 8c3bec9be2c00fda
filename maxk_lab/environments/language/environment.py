"""Language environments: prompts of a toy language or of the user, and completions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.catalogue import load
from maxk_lab.environments.language.completions import Completions
from maxk_lab.environments.language.rows import (
    MAX_SEQUENCES,
    LanguageRow,
    PromptRow,
    read_prompts,
)
from maxk_lab.environments.language.tasks import END, TASKS, Columns, is_held_out, symbols_of
from maxk_lab.errors import LabError, shown
from maxk_lab.policies.catalogue import fresh_policy

# The share of held-out prompts is one in this number.
HELD_OUT = 5
_LOGITS = 2**26


class LanguageEnvironment(Completions):
    """Instances are prompts [B, prompt_length], as indices of symbols.

    The policy reads prompt, separator and completion in its own vocabulary. The vocabulary of the
    toy language has the token 0 for the end, 1.. for the symbols, and the separator, which is read
    and never written.
    """

    def __init__(
        self, row: LanguageRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        super().__init__(row, parameters, parameters["max_length"])
        self.task = TASKS.get(parameters["task"])
        self.columns: Callable[[Sequence[str], str], Columns] = load(self.task.implementation)
        self.symbols = symbols_of(parameters["vocab_size"])
        self.prompt_length: int = parameters["prompt_length"]
        self.enumerable = row.enumerable({**parameters, **policy})
        self.pretrained = policy["name"] == "pretrained"
        read = (
            {"name", "pretrained", "dtype"} if self.pretrained else policy.keys() - {"pretrained"}
        )
        self.policy_parameters = {name: value for name, value in policy.items() if name in read}
        # The tokens of the symbols, of the separator, if any, and of the end.
        self.symbol_tokens = torch.arange(1, len(self.symbols) + 1)
        self.separator: tuple[int, ...] = (len(self.symbols) + 1,)
        end = END
        self.decode = lambda completions: [
            "".join(self.symbols[token - 1] for token in row) for row in completions
        ]
        if self.pretrained:
            from maxk_lab.policies.pretrained import tokens_of

            tokens = tokens_of(policy["pretrained"], self.symbols)
            self.symbol_tokens, self.separator, end, self.decode = tokens
        self.ends = torch.tensor([end])

    def policy(self, seed: int) -> nn.Module:
        if self.pretrained:
            lengths = {"prompt_length": self.prompt_length, "max_length": self.max_length}
            return fresh_policy(self.policy_parameters, seed, separator=self.separator, **lengths)
        count = len(self.symbols)
        sizes = {"inputs": count + 2, "outputs": count + 1}
        positions = self.prompt_length + self.max_length
        return fresh_policy(self.policy_parameters, seed, positions=positions, **sizes)

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Tensor:
        """Return `count` of the task's training or held-out prompts, uniform with replacement."""
        generator = torch.Generator().manual_seed(seed)
        prompts: list[list[int]] = []
        while len(prompts) < count:
            shape = (count, self.prompt_length)
            drawn = torch.randint(len(self.symbols), shape, generator=generator)
            pairs = zip(drawn.tolist(), self.prompts(drawn), strict=True)
            prompts += [row for row, text in pairs if is_held_out(self.task.name, text) == held_out]
        return torch.tensor(prompts[:count])

    def prompts(self, instances: Tensor) -> list[str]:
        """Return the prompts as texts."""
        return ["".join(self.symbols[number] for number in row) for row in instances.tolist()]

    def questions(self, instances: Tensor, n: int) -> tuple[list[str], dict[str, list[Any]]]:
        prompts = [prompt for prompt in self.prompts(instances) for _ in range(n)]
        return prompts, dict(self.columns(prompts, self.symbols))

    def encoded(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        separator = torch.tensor(self.separator, dtype=torch.long, device=instances.device)
        tokens = self.symbol_tokens.to(instances.device)[instances]
        tokens = torch.cat([tokens, separator.expand(len(instances), -1)], 1)
        return tokens, torch.full_like(tokens[:, 0], tokens.shape[1])

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        """Return every completion, short ones first, padded with the end.

        Completions of full length are cut.
        """
        if not self.enumerable:
            raise LabError(
                f"this toy_llm cannot be enumerated: that takes at most {MAX_SEQUENCES} "
                "completions, not of a pretrained model"
            )
        rows = [
            (*sequence, *[END] * (self.max_length - length))
            for length in range(self.max_length + 1)
            for sequence in product(self.symbol_tokens.tolist(), repeat=length)
        ]
        actions = torch.tensor(rows, device=instances.device)
        return actions, self._score(instances, actions.unsqueeze(0))[0][0]


class PromptEnvironment(Completions):
    """Instances are indices of prompts [B], int64; completions have at most `max_new_tokens`.

    They end with the model's end of sequence or one of the `stop` tokens.
    """

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
        """Return the tokens that end a completion; the padding comes first."""
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
        """Return `count` training or held-out prompts, each equally often, in any order."""
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
