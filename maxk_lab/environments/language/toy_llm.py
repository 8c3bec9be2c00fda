"""The toy language: completions over a handful of symbols, all listed where they are few."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.language.environment import LanguageEnvironment
from maxk_lab.environments.language.rows import MAX_SEQUENCES, LanguageRow
from maxk_lab.environments.language.sampling import next_token_log_policy, remembered_logits
from maxk_lab.environments.language.tasks import END
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import fresh_policy
from maxk_lab.policies.transformer import CausalTransformer


class ToyLLM(LanguageEnvironment):
    """Token 0 is the end, tokens 1.. are the symbols.

    One more, read and never written, separates prompt from completion.
    """

    def __init__(
        self, row: LanguageRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        super().__init__(parameters)
        self.vocab_size: int = parameters["vocab_size"]
        self.symbol_tokens = torch.arange(1, self.vocab_size)
        self.separator = (self.vocab_size,)
        self.end = END
        self.enumerable = row.enumerable(parameters)
        self.policy_parameters = {k: v for k, v in policy.items() if k != "pretrained"}

    def policy(self, seed: int) -> nn.Module:
        return fresh_policy(
            self.policy_parameters,
            seed,
            inputs=self.vocab_size + 1,
            outputs=self.vocab_size,
            positions=self.prompt_length + self.max_length,
        )

    def texts(self, completions: Sequence[Sequence[int]]) -> list[str]:
        return ["".join(self.symbols[token - 1] for token in row) for row in completions]

    def trajectory_log_prob(self, policy: Callable[..., Tensor], *row: Tensor) -> Tensor:
        inputs, completion, mask = row
        logits = policy(inputs)[-self.max_length :]
        log_policy = next_token_log_policy(logits, self.temperature, self.top_p)
        chosen = log_policy.gather(-1, completion.unsqueeze(-1)).squeeze(-1)
        return chosen.masked_fill(~mask, 0.0).sum()

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        """Every completion, the short ones first, padded with the end.

        Those of full length are the cut ones.
        """
        if not self.enumerable:
            raise LabError(
                "this toy_llm cannot be enumerated: that takes top_p = 1 and at most "
                f"{MAX_SEQUENCES} completions"
            )
        rows = [
            sequence + (END,) * (self.max_length - length)
            for length in range(self.max_length + 1)
            for sequence in product(range(1, self.vocab_size), repeat=length)
        ]
        actions = torch.tensor(rows, device=instances.device)
        return actions, self._score(instances, actions.unsqueeze(0))[0][0]

    def _next_logits(self, policy: nn.Module, prefix: Tensor, n: int) -> Callable[[Tensor], Tensor]:
        # A nucleus must be the very one of teacher forcing: at its edge, a rounding would make a
        # drawn token impossible.
        if self.top_p < 1 or not isinstance(policy, CausalTransformer):
            return super()._next_logits(policy, prefix, n)
        return remembered_logits(policy, prefix, n)


def make_language_environment(
    row: LanguageRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
) -> LanguageEnvironment:
    """The toy language, or one in the tokens of the model that a pretrained policy is."""
    if policy["name"] == "pretrained":
        from maxk_lab.environments.language.pretrained import PretrainedLLM

        return PretrainedLLM(parameters, policy)
    return ToyLLM(row, parameters, policy)
