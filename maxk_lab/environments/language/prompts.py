"""Prompts of the user's own: a language model answers them, functions of its texts give rewards."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from maxk_lab.environments.language.rewards import load_rewards, score
from maxk_lab.environments.language.rows import read_prompts
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, mapped, token_statistics
from maxk_lab.errors import LabError, shown
from maxk_lab.policies.catalogue import fresh_policy

# A prompt in so many is held out.
HELD_OUT = 5
# Logits that are in memory at a time, where no gradient needs them.
_LOGITS = 2**26


class PromptEnvironment:
    """Instances are numbers of prompts [B], int64; a trajectory is a completion [max_new_tokens].

    Rows of unequal length are padded on the right, behind prompt and completion: a causal model
    never looks there. Completions end with the model's end of sequence or one of the `stop` tokens.
    The distribution everywhere is the one sampled from, its temperature included.
    """

    enumerable = False
    # transformers' models are no pure functions that torch.func could map.
    trajectory_log_prob = None

    def __init__(self, row: Any, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
        from maxk_lab.policies.pretrained import loaded

        self.field: str = parameters["prompt"]
        self.lines = read_prompts(parameters["prompts"]["path"], self.field)
        self.max_new_tokens: int = parameters["max_new_tokens"]
        self.temperature: float = parameters["temperature"]
        self.reward_functions = load_rewards(row.reward_names(parameters))
        self.reward_weights = row.reward_weights(parameters)
        self.policy_parameters = dict(policy)
        self.tokenizer = loaded("AutoTokenizer", policy["pretrained"])
        self.ends = self._ends(parameters["stop"])
        self.prompts = [self._encoded(line, parameters["chat_template"]) for line in self.lines]

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
        longest = max(len(prompt) for prompt in self.prompts)
        lengths = {"prompt_length": longest, "max_length": self.max_new_tokens}
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

    def select(self, instances: Tensor, index: int) -> Tensor:
        return instances[index : index + 1]

    def tempered(self, temperature: float) -> Self:
        environment = copy.copy(self)
        environment.temperature = self.temperature * temperature
        return environment

    def place(self, instances: Tensor, device: torch.device | str) -> Tensor:
        return instances.to(device)

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: Tensor, n: int, *, seed: int) -> Rollouts:
        generator = torch.Generator(instances.device).manual_seed(seed)
        shape = (len(instances), n, self.max_new_tokens)
        actions = self.ends[0].to(instances.device).repeat(shape)
        lengths = torch.tensor([len(self.prompts[i]) for i in instances.tolist()])
        # Prompts of one length need no padding, and are read once for their n samples.
        for length in sorted(set(lengths.tolist())):
            rows = (lengths == length).nonzero().squeeze(1)
            prefix = torch.stack([self.prompts[i] for i in instances[rows].tolist()])
            drawn = self._draw(policy, prefix.to(instances.device), n, generator)
            actions[rows] = drawn.view(len(rows), n, -1)
        rewards, parts, truncated = self._score(instances, actions)
        return Rollouts.of_tokens(
            self.tokens(policy, instances, actions),
            actions=actions,
            rewards=rewards,
            truncated=truncated,
            reward_parts=parts,
        )

    def _draw(self, policy: Any, prefix: Tensor, n: int, generator: torch.Generator) -> Tensor:
        """n completions of each prompt [B, L]: [B·n, max_new_tokens], padded with the end."""
        ends = self.ends.to(prefix.device)
        logits, memory = policy.extend(prefix, None, copies=n)
        logits = logits[:, -1].repeat_interleave(n, 0)
        actions = ends[0].repeat(len(logits), self.max_new_tokens)
        running = torch.ones(len(logits), dtype=torch.bool, device=prefix.device)
        for t in range(self.max_new_tokens):
            chance = self._log_policy(logits).exp()
            drawn = torch.multinomial(chance, 1, generator=generator).squeeze(1)
            actions[:, t] = drawn.where(running, ends[0])
            running &= ~torch.isin(drawn, ends)
            if not bool(running.any()) or t + 1 == self.max_new_tokens:
                break
            logits, memory = policy.extend(actions[:, t : t + 1], memory)
            logits = logits[:, -1]
        return actions

    def log_probs(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> Tensor:
        return self.tokens(policy, instances, actions).log_probs.sum(-1)

    def tokens(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        """One parallel pass over prompts and completions; what follows an end changes nothing."""
        found = self._statistics(policy, *self.trajectory_inputs(instances, actions))
        beyond = (0, actions.shape[2] - found.log_probs.shape[1])
        return mapped(lambda values: nn.functional.pad(values, beyond).view(actions.shape), found)

    def encoding(self, policy: nn.Module, instances: Tensor) -> tuple[Tensor, ...]:
        return ()

    def trajectory_inputs(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        """The policy's inputs [B·n, L], padded on the right, and the places [B·n, T] of decisions.

        Then the completions [B·n, T], and the mask [B·n, T] of their decisions.
        """
        n = actions.shape[1]
        completions = actions.flatten(0, 1)[:, : self.max_new_tokens]
        steps = completions.shape[1]
        ended = torch.isin(completions, self.ends.to(actions.device))
        mask = ended.cumsum(-1) - ended.long() == 0
        prompts = [self.prompts[i] for i in instances.tolist() for _ in range(n)]
        longest = max(map(len, prompts)) + steps - 1
        inputs = self.ends[0].repeat(len(prompts), longest).to(actions.device)
        for row, prompt, completion in zip(inputs, prompts, completions, strict=True):
            row[: len(prompt)] = prompt
            row[len(prompt) : len(prompt) + steps - 1] = completion[:-1]
        begins = torch.tensor([len(prompt) - 1 for prompt in prompts], device=actions.device)
        places = begins.unsqueeze(1) + torch.arange(steps, device=actions.device)
        return inputs, places, completions, mask

    def trajectory_log_probs(
        self, policy: nn.Module, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        return self._statistics(policy, *rows).log_probs.sum(-1)

    def _statistics(self, policy: nn.Module, *rows: Tensor) -> TokenStatistics:
        """The statistics of every token of N completions, [N, T] each."""
        size = len(rows[0])
        if not torch.is_grad_enabled():
            outputs = len(self.tokenizer)
            size = max(1, _LOGITS // (rows[0].shape[1] * outputs))
        parts = [
            self._of_rows(policy, *part)
            for part in zip(*(torch.split(row, size) for row in rows), strict=True)
        ]
        return TokenStatistics(
            *(torch.cat([getattr(part, name) for part in parts]) for name in vars(parts[0]))
        )

    def _of_rows(
        self, policy: nn.Module, inputs: Tensor, places: Tensor, completions: Tensor, mask: Tensor
    ) -> TokenStatistics:
        logits = policy(inputs)
        logits = logits.gather(1, places.unsqueeze(-1).expand(-1, -1, logits.shape[-1]))
        return token_statistics(self._log_policy(logits), completions, mask)

    def _log_policy(self, logits: Tensor) -> Tensor:
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return (wide / self.temperature).log_softmax(-1)

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        raise LabError("the completions of a language model are too many to be enumerated")

    def _score(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rewards [B, n], their parts [B, n, F] and whether a completion was cut [B, n]."""
        shape, flat = actions.shape[:2], actions.flatten(0, 1)
        ended = torch.isin(flat, self.ends.to(flat.device))
        lengths = (ended.cumsum(-1) == 0).sum(-1)
        completions = [
            row[:length] for row, length in zip(flat.tolist(), lengths.tolist(), strict=True)
        ]
        lines = [self.lines[i] for i in instances.tolist() for _ in range(shape[1])]
        columns: dict[str, Any] = {
            key: [line[key] for line in lines] for key in lines[0] if key != self.field
        }
        truncated = ~ended.any(-1)
        rewards, parts = score(
            self.reward_functions,
            self.reward_weights,
            [line[self.field] for line in lines],
            self.tokenizer.batch_decode(completions, skip_special_tokens=True),
            completion_ids=completions,
            truncated=truncated.tolist(),
            **columns,
        )
        return rewards.view(shape), parts.view(*shape, -1), truncated.view(shape)
