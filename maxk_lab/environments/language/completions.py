"""Completions of prompts as trajectories: sampled, teacher-forced, and scored by their texts."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from maxk_lab.environments.functions import ScoredRow
from maxk_lab.environments.language.rewards import load_rewards, score
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, mapped, token_statistics


class Completions(ABC):
    """The base class of language environments: a trajectory is a completion of a prompt.

    Instances [B, ...] identify the prompts; completions are tokens [max_length]. The policy maps
    tokens [N, L] to logits [N, L, V] of the next token. Rows are padded on the right, behind the
    completion, where a causal model does not attend. A completion ends with any token of `ends`;
    the padding is `ends[0]`. Log-probabilities include the temperature.
    """

    enumerable = False
    # The most tokens whose logits are in memory at once in a pass without gradient.
    at_once = 2**22
    ends: Tensor
    # Maps the tokens of completions, without their end, to texts.
    decode: Callable[[Sequence[Sequence[int]]], list[str]]

    def __init__(self, row: ScoredRow, parameters: Mapping[str, Any], max_length: int) -> None:
        self.max_length = max_length
        self.temperature: float = parameters["temperature"]
        self.reward_functions = load_rewards(row.reward_names(parameters))
        self.reward_weights = row.reward_weights(parameters)

    @abstractmethod
    def encoded(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        """Return the prompts' tokens [B, L] that the policy reads, and their lengths [B]."""

    @abstractmethod
    def questions(self, instances: Tensor, n: int) -> tuple[list[str], dict[str, list[Any]]]:
        """Return the prompts' texts, each n times, and the columns for the reward functions."""

    def tempered(self, temperature: float) -> Self:
        environment = copy.copy(self)
        environment.temperature = self.temperature * temperature
        return environment

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: Tensor, n: int, *, seed: int) -> Rollouts:
        generator = torch.Generator(instances.device).manual_seed(seed)
        prompts, lengths = self.encoded(instances)
        actions = self.ends[0].to(instances.device).repeat(len(instances), n, self.max_length)
        # Prompts of equal length need no padding; each is read once for its n samples.
        for length in sorted(set(lengths.tolist())):
            rows = (lengths == length).nonzero().squeeze(1)
            drawn = self._draw(policy, prompts[rows, :length], n, generator)
            actions[rows] = drawn.view(len(rows), n, -1)
        rewards, parts, truncated = self._score(instances, actions)
        return Rollouts.from_tokens(
            self.tokens(policy, instances, actions),
            actions=actions,
            rewards=rewards,
            truncated=truncated,
            reward_parts=parts,
        )

    def log_probs(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> Tensor:
        # Always a sum of `max_length` columns: even added zeros can change the last digit.
        inputs = self.trajectory_inputs(instances, actions)
        return self.trajectory_log_probs(policy, (), *inputs).view(actions.shape[:2])

    def tokens(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        """Return the statistics of every token, from one parallel pass.

        Columns after the end are ignored. Fewer columns than `max_length`, without an end, are the
        beginning of a completion.
        """
        beyond = (0, actions.shape[2] - self.max_length)
        return mapped(
            lambda values: pad(values, beyond).view(actions.shape),
            self._statistics(policy, *self.trajectory_inputs(instances, actions)),
        )

    def encoding(self, policy: nn.Module, instances: Tensor) -> tuple[Tensor, ...]:
        return ()

    def trajectory_inputs(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        """Return the policy's inputs [B·n, L] and three tensors [B·n, max_length].

        The three are the places of the decisions in the inputs, the completions' tokens, and the
        mask of the tokens that are decisions.
        """
        flat = actions.flatten(0, 1)[:, : self.max_length]
        mask, missing = self._decisions(flat), (0, self.max_length - flat.shape[1])
        end = int(self.ends[0])
        completions = pad(flat.where(mask, end), missing, value=end)
        tokens, lengths = self._read(instances, completions, actions.shape[1])
        places = lengths.unsqueeze(1) - 1 + torch.arange(self.max_length, device=actions.device)
        return tokens[:, :-1], places, completions, pad(mask, missing)

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        return self._statistics(policy, *rows).log_probs.sum(-1)

    def _statistics(self, policy: nn.Module, *rows: Tensor) -> TokenStatistics:
        """Return the statistics of every token of N completions, [N, max_length] each."""
        if torch.is_grad_enabled():
            return self._row_statistics(policy, *rows)
        size = max(1, self.at_once // rows[0].shape[1])
        chunks = [
            self._row_statistics(policy, *chunk)
            for chunk in zip(*(torch.split(row, size) for row in rows), strict=True)
        ]
        return TokenStatistics(
            *(torch.cat([getattr(chunk, name) for chunk in chunks]) for name in vars(chunks[0]))
        )

    def _row_statistics(
        self, policy: nn.Module, inputs: Tensor, places: Tensor, completions: Tensor, mask: Tensor
    ) -> TokenStatistics:
        logits = policy(inputs)
        logits = logits.gather(1, places.unsqueeze(-1).expand(-1, -1, logits.shape[-1]))
        return token_statistics(self._log_policy(logits), completions, mask)

    def _log_policy(self, logits: Tensor) -> Tensor:
        """Return log π of logits [..., V] at the temperature."""
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return (wide / self.temperature).log_softmax(-1)

    def _draw(self, policy: Any, prompts: Tensor, n: int, generator: torch.Generator) -> Tensor:
        """Return n completions of each prompt [B, L]: [B·n, max_length], padded with the end.

        A policy with `extend` caches keys and values. Any other policy takes a full pass for each
        token.
        """
        remembers = hasattr(policy, "extend")
        ends, memory = self.ends.to(prompts.device), None
        read = prompts.repeat_interleave(n, 0)
        actions = ends[0].repeat(len(read), self.max_length)
        running = torch.ones(len(read), dtype=torch.bool, device=prompts.device)
        for t in range(self.max_length):
            if not remembers:
                passed = policy(torch.cat([read, actions[:, :-1]], 1))
                logits = passed[:, prompts.shape[1] - 1 + t]
            elif t == 0:
                passed, memory = policy.extend(prompts, None, copies=n)
                logits = passed[:, -1].repeat_interleave(n, 0)
            else:
                passed, memory = policy.extend(actions[:, t - 1 : t], memory)
                logits = passed[:, -1]
            chances = self._log_policy(logits).exp()
            drawn = torch.multinomial(chances, 1, generator=generator).squeeze(1)
            actions[:, t] = drawn.where(running, ends[0])
            running &= ~torch.isin(drawn, ends)
            if not bool(running.any()):
                break
        return actions

    def _ended(self, actions: Tensor) -> Tensor:
        return torch.isin(actions, self.ends.to(actions.device))

    def _decisions(self, actions: Tensor) -> Tensor:
        """Return the mask of the tokens of actions [..., T] up to the end, which is a decision."""
        ended = self._ended(actions)
        return ended.cumsum(-1) - ended.long() == 0

    def _read(self, instances: Tensor, completions: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Return prompts with n completions each, [B·n, L + T], and the prompts' lengths."""
        prompts, lengths = (each.repeat_interleave(n, 0) for each in self.encoded(instances))
        tokens = pad(prompts, (0, completions.shape[1]), value=int(self.ends[0]))
        places = torch.arange(completions.shape[1], device=tokens.device)
        return tokens.scatter(1, lengths.unsqueeze(1) + places, completions), lengths

    def _score(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rewards [B, n], their parts [B, n, F] and the mask of cut completions [B, n]."""
        shape, flat = actions.shape[:2], actions.flatten(0, 1)
        steps, ended = self._decisions(flat).sum(-1), self._ended(flat).any(-1)
        lengths = (steps - ended.long()).tolist()
        completions = [row[:length] for row, length in zip(flat.tolist(), lengths, strict=True)]
        prompts, columns = self.questions(instances, shape[1])
        tokens, before = self._read(instances, flat, shape[1])
        places = torch.arange(tokens.shape[1], device=tokens.device)
        rewards, parts = score(
            self.reward_functions,
            self.reward_weights,
            {
                **columns,
                "prompts": prompts,
                "completions": self.decode(completions),
                "completion_ids": completions,
                "truncated": (~ended).tolist(),
            },
            tokens,
            places < (before + steps).unsqueeze(1),
        )
        return rewards.view(shape), parts.view(*shape, -1), (~ended).view(shape)
