"""Language models as bandits: prompts in, completions out, scored by functions of their texts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Self

import torch
from torch import Tensor, nn

from maxk_lab.catalogue import load
from maxk_lab.environments.language.rewards import load_rewards, score
from maxk_lab.environments.language.rows import MAX_SEQUENCES, LanguageRow
from maxk_lab.environments.language.sampling import (
    decision_mask,
    draw,
    next_token_log_policy,
    recomputed_logits,
    remembered_logits,
)
from maxk_lab.environments.language.tasks import TASKS, Columns, is_held_out, symbols_of
from maxk_lab.environments.language.vocabulary import model_vocabulary, toy_vocabulary
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, mapped, token_statistics
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import fresh_policy
from maxk_lab.policies.transformer import CausalTransformer


class LanguageEnvironment:
    """Instances are prompts [B, prompt_length], written as numbers of symbols.

    One trajectory is one completion [max_length]. The policy maps tokens [N, L] to logits [N, L, V]
    of the next token; it reads prompt, separator, completion, in its own vocabulary. The
    distribution everywhere is the one sampled from, temperature and top-p included.
    """

    def __init__(
        self, row: LanguageRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.task = TASKS.get(parameters["task"])
        self.columns: Callable[[Sequence[str], str], Columns] = load(self.task.implementation)
        self.symbols = symbols_of(parameters["vocab_size"])
        self.max_length: int = parameters["max_length"]
        self.prompt_length: int = parameters["prompt_length"]
        self.temperature: float = parameters["temperature"]
        self.top_p: float = parameters["top_p"]
        self.reward_functions = load_rewards(row.reward_names(parameters))
        self.reward_weights = row.reward_weights(parameters)
        self.enumerable = row.enumerable({**parameters, **policy})
        if policy["name"] == "pretrained":
            self.vocabulary = model_vocabulary(policy["pretrained"], self.symbols)
            known = {"name", "pretrained", "dtype"}
            # transformers' models are no pure functions that torch.func could map.
            self.trajectory_log_prob = None  # type: ignore[method-assign, assignment]
        else:
            self.vocabulary = toy_vocabulary(self.symbols)
            known = policy.keys() - {"pretrained"}
        self.policy_parameters = {name: value for name, value in policy.items() if name in known}

    def policy(self, seed: int) -> nn.Module:
        if self.policy_parameters["name"] == "pretrained":
            lengths = {"prompt_length": self.prompt_length, "max_length": self.max_length}
            sizes = lengths | {"separator": self.vocabulary.separator}
        else:
            count = len(self.symbols)
            sizes = {"inputs": count + 2, "outputs": count + 1}
            sizes |= {"positions": self.prompt_length + self.max_length}
        return fresh_policy(self.policy_parameters, seed, **sizes)

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
        prefix, end = self._prefix(instances), self.vocabulary.end
        # A nucleus must be the very one of teacher forcing: at its edge, a rounding would make a
        # drawn token impossible.
        if self.top_p < 1 or not isinstance(policy, CausalTransformer):
            logits = recomputed_logits(policy, prefix, n, self.max_length, end)
        else:
            logits = remembered_logits(policy, prefix, n)
        actions = draw(
            lambda so_far: next_token_log_policy(logits(so_far), self.temperature, self.top_p),
            len(instances) * n,
            self.max_length,
            end,
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
        inputs = self.trajectory_inputs(instances, actions)
        return self.trajectory_log_probs(policy, (), *inputs).view(actions.shape[:2])

    def tokens(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        """One parallel pass over prompt and completion.

        Columns after the end change nothing, whatever they hold. Fewer columns than max_length,
        without an end, are the beginning of a completion.
        """
        beyond = (0, actions.shape[2] - self.max_length)
        return mapped(
            lambda values: nn.functional.pad(values, beyond).view(actions.shape),
            self._statistics(policy, *self.trajectory_inputs(instances, actions)),
        )

    def encoding(self, policy: nn.Module, instances: Tensor) -> tuple[Tensor, ...]:
        return ()

    def trajectory_inputs(
        self, instances: Tensor, actions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The policy's inputs [B·n, L], the tokens asked about [B·n, max_length], and their mask.

        The mask says which of these tokens are decisions.
        """
        flat, end = actions.flatten(0, 1)[:, : self.max_length], self.vocabulary.end
        mask, missing = decision_mask(flat, end), (0, self.max_length - flat.shape[1])
        completions = nn.functional.pad(flat.where(mask, end), missing, value=end)
        prefix = self._prefix(instances).repeat_interleave(actions.shape[1], 0)
        inputs = torch.cat([prefix, completions[:, :-1]], 1)
        return inputs, completions, nn.functional.pad(mask, missing)

    def trajectory_log_prob(self, policy: Callable[..., Tensor], *row: Tensor) -> Tensor:
        inputs, completion, mask = row
        logits = policy(inputs)[-self.max_length :]
        log_policy = next_token_log_policy(logits, self.temperature, self.top_p)
        chosen = log_policy.gather(-1, completion.unsqueeze(-1)).squeeze(-1)
        return chosen.masked_fill(~mask, 0.0).sum()

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        return self._statistics(policy, *rows).log_probs.sum(-1)

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        """Every completion, the short ones first, padded with the end.

        Those of full length are the cut ones.
        """
        if not self.enumerable:
            raise LabError(
                "this toy_llm cannot be enumerated: that takes top_p = 1 and at most "
                f"{MAX_SEQUENCES} completions, not of a pretrained model"
            )
        tokens, end = self.vocabulary.symbol_tokens.tolist(), self.vocabulary.end
        rows = [
            sequence + (end,) * (self.max_length - length)
            for length in range(self.max_length + 1)
            for sequence in product(tokens, repeat=length)
        ]
        actions = torch.tensor(rows, device=instances.device)
        return actions, self._score(instances, actions.unsqueeze(0))[0][0]

    def _score(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rewards [B, n], their parts [B, n, F] and whether the completion was cut [B, n]."""
        shape, flat, end = actions.shape[:2], actions.flatten(0, 1), self.vocabulary.end
        mask = decision_mask(flat, end)
        ended = ((flat == end) & mask).any(-1)
        lengths = (mask.sum(-1) - ended.long()).tolist()
        completions = [row[:length] for row, length in zip(flat.tolist(), lengths, strict=True)]
        prompts = [prompt for prompt in self.prompts(instances) for _ in range(shape[1])]
        prefix = self._prefix(instances).repeat_interleave(shape[1], 0)
        rewards, parts = score(
            self.reward_functions,
            self.reward_weights,
            prompts,
            self.vocabulary.texts(completions),
            tokens=torch.cat([prefix, flat], 1),
            mask=nn.functional.pad(mask, (prefix.shape[1], 0), value=True),
            completion_ids=completions,
            truncated=(~ended).tolist(),
            longest=[self.max_length] * len(prompts),
            **self.columns(prompts, self.symbols),
        )
        return rewards.view(shape), parts.view(*shape, -1), (~ended).view(shape)

    def _statistics(
        self, policy: nn.Module, inputs: Tensor, completions: Tensor, mask: Tensor
    ) -> TokenStatistics:
        """The statistics of every token of N completions, [N, max_length] each."""
        logits = policy(inputs)[:, -self.max_length :]
        log_policy = next_token_log_policy(logits, self.temperature, self.top_p)
        return token_statistics(log_policy, completions, mask)

    def _prefix(self, instances: Tensor) -> Tensor:
        """The tokens [B, prompt_length + separator] that the policy reads before a completion."""
        device = instances.device
        separator = torch.tensor(self.vocabulary.separator, dtype=torch.long, device=device)
        tokens = self.vocabulary.symbol_tokens.to(device)[instances]
        return torch.cat([tokens, separator.expand(len(instances), -1)], 1)
