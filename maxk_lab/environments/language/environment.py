"""Language models as bandits: prompts in, completions out, scored by functions of their texts."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from maxk_lab.catalogue import load
from maxk_lab.environments.language.rewards import load_rewards, score
from maxk_lab.environments.language.rows import reward_names, reward_weights
from maxk_lab.environments.language.sampling import (
    decision_mask,
    draw,
    next_token_log_policy,
    recomputed_logits,
)
from maxk_lab.environments.language.task_rows import TASKS
from maxk_lab.environments.language.tasks import Columns, is_held_out, symbols_of
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, mapped, token_statistics
from maxk_lab.errors import LabError


class LanguageEnvironment(ABC):
    """Instances are prompts [B, prompt_length], written as numbers of symbols.

    One trajectory is one completion [max_length]. The policy maps tokens [N, L] to logits [N, L, V]
    of the next token; it reads prompt, separator, completion. A subclass says how texts become
    tokens: `symbol_tokens` [symbols], `separator` and `end`, and `texts` back again. The
    distribution everywhere is the one sampled from, temperature and top-p included.
    """

    symbol_tokens: Tensor
    separator: tuple[int, ...]
    end: int
    enumerable: bool

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.task = TASKS.get(parameters["task"])
        self.columns: Callable[[Sequence[str], str], Columns] = load(self.task.implementation)
        self.symbols = symbols_of(parameters["vocab_size"])
        self.max_length: int = parameters["max_length"]
        self.prompt_length: int = parameters["prompt_length"]
        self.temperature: float = parameters["temperature"]
        self.top_p: float = parameters["top_p"]
        self.reward_functions = load_rewards(reward_names(parameters))
        self.reward_weights = reward_weights(parameters)

    @abstractmethod
    def policy(self, seed: int) -> nn.Module: ...

    @abstractmethod
    def texts(self, completions: Sequence[Sequence[int]]) -> list[str]:
        """Completions, without their end, as texts."""

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Tensor:
        """`count` of the task's training or held-out prompts, drawn uniformly with replacement."""
        generator = torch.Generator().manual_seed(seed)
        kept: list[list[int]] = []
        while len(kept) < count:
            shape = (count, self.prompt_length)
            drawn = torch.randint(len(self.symbols), shape, generator=generator)
            pairs = zip(drawn.tolist(), self.prompts(drawn), strict=True)
            kept += [row for row, text in pairs if is_held_out(self.task.name, text) == held_out]
        return torch.tensor(kept[:count])

    def select(self, instances: Tensor, index: int) -> Tensor:
        return instances[index : index + 1]

    def tempered(self, temperature: float) -> Self:
        environment = copy.copy(self)
        environment.temperature = self.temperature * temperature
        return environment

    def prompts(self, instances: Tensor) -> list[str]:
        """The prompts as texts."""
        return ["".join(self.symbols[number] for number in row) for row in instances.tolist()]

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: Tensor, n: int, *, seed: int) -> Rollouts:
        logits = self._next_logits(policy, self._prefix(instances), n)
        actions = draw(
            lambda so_far: next_token_log_policy(logits(so_far), self.temperature, self.top_p),
            len(instances) * n,
            self.max_length,
            self.end,
            torch.Generator(instances.device).manual_seed(seed),
        ).view(len(instances), n, -1)
        tokens = self.tokens(policy, instances, actions)
        rewards, parts, truncated = self._score(instances, actions)
        return Rollouts.of_tokens(
            tokens, actions=actions, rewards=rewards, truncated=truncated, reward_parts=parts
        )

    def log_probs(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> Tensor:
        # Summed over max_length columns however many there are: even adding zeros can change the
        # last digit of a sum.
        tokens = self._statistics(policy, instances, actions)
        return tokens.log_probs.sum(-1).view(actions.shape[:2])

    def tokens(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        """One parallel pass over prompt and completion.

        Columns after the end change nothing, whatever they hold. Fewer columns than max_length,
        without an end, are the beginning of a completion.
        """
        beyond = (0, actions.shape[2] - self.max_length)
        return mapped(
            lambda values: nn.functional.pad(values, beyond).view(actions.shape),
            self._statistics(policy, instances, actions),
        )

    def encoding(self, policy: nn.Module, instances: Tensor) -> tuple[Tensor, ...]:
        return ()

    def trajectory_inputs(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        return self._teacher_forced(instances, actions)

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        return self._of_teacher_forced(policy, *rows).log_probs.sum(-1)

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        raise LabError("the completions of this language model are too many to enumerate")

    def _next_logits(self, policy: nn.Module, prefix: Tensor, n: int) -> Callable[[Tensor], Tensor]:
        return recomputed_logits(policy, prefix, n, self.max_length, self.end)

    def _score(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rewards [B, n], their parts [B, n, F] and whether the completion was cut [B, n]."""
        shape, flat = actions.shape[:2], actions.flatten(0, 1)
        mask = decision_mask(flat, self.end)
        ended = ((flat == self.end) & mask).any(-1)
        lengths = (mask.sum(-1) - ended.long()).tolist()
        completions = [row[:length] for row, length in zip(flat.tolist(), lengths, strict=True)]
        prompts = [prompt for prompt in self.prompts(instances) for _ in range(shape[1])]
        prefix = self._prefix(instances).repeat_interleave(shape[1], 0)
        rewards, parts = score(
            self.reward_functions,
            self.reward_weights,
            prompts,
            self.texts(completions),
            tokens=torch.cat([prefix, flat], 1),
            mask=nn.functional.pad(mask, (prefix.shape[1], 0), value=True),
            completion_ids=completions,
            truncated=(~ended).tolist(),
            longest=[self.max_length] * len(prompts),
            **self.columns(prompts, self.symbols),
        )
        return rewards.view(shape), parts.view(*shape, -1), (~ended).view(shape)

    def _statistics(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        """The statistics of every token of every completion, [B·n, max_length] each."""
        return self._of_teacher_forced(policy, *self._teacher_forced(instances, actions))

    def _of_teacher_forced(
        self, policy: nn.Module, inputs: Tensor, completions: Tensor, mask: Tensor
    ) -> TokenStatistics:
        logits = policy(inputs)[:, -self.max_length :]
        log_policy = next_token_log_policy(logits, self.temperature, self.top_p)
        return token_statistics(log_policy, completions, mask)

    def _teacher_forced(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The policy's inputs [B·n, L], the tokens asked about [B·n, max_length], and their mask.

        The mask says which of these tokens are decisions.
        """
        flat = actions.flatten(0, 1)[:, : self.max_length]
        mask, missing = decision_mask(flat, self.end), (0, self.max_length - flat.shape[1])
        completions = nn.functional.pad(flat.where(mask, self.end), missing, value=self.end)
        prefix = self._prefix(instances).repeat_interleave(actions.shape[1], 0)
        inputs = torch.cat([prefix, completions[:, :-1]], 1)
        return inputs, completions, nn.functional.pad(mask, missing)

    def _prefix(self, instances: Tensor) -> Tensor:
        """The tokens [B, prompt_length + separator] that the policy reads before a completion."""
        separator = torch.tensor(self.separator, dtype=torch.long, device=instances.device)
        tokens = self.symbol_tokens.to(instances.device)[instances]
        return torch.cat([tokens, separator.expand(len(instances), -1)], 1)
