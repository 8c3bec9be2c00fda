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
from maxk_lab.environments.language.tasks import END, TASKS, Columns, is_held_out, symbols_of
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, mapped, token_statistics
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import fresh_policy
from maxk_lab.policies.transformer import CausalTransformer


class LanguageEnvironment:
    """Instances are prompts [B, prompt_length], written as numbers of symbols.

    One trajectory is one completion [max_length]. The policy maps tokens [N, L] to logits [N, L, V]
    of the next token; it reads prompt, separator, completion, in its own vocabulary: that of the
    toy language has the token 0 for the end, 1.. for the symbols, and one more, read and never
    written, as the separator. The distribution everywhere is the one sampled from, temperature and
    top-p included.
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
        self.pretrained = policy["name"] == "pretrained"
        read = (
            {"name", "pretrained", "dtype"} if self.pretrained else policy.keys() - {"pretrained"}
        )
        self.policy_parameters = {name: value for name, value in policy.items() if name in read}
        # The token of every symbol, the separator's, if any, and the end's; and the texts of
        # completions without their end.
        self.symbol_tokens = torch.arange(1, len(self.symbols) + 1)
        self.separator: tuple[int, ...] = (len(self.symbols) + 1,)
        self.end = END
        self.decode: Callable[[Sequence[Sequence[int]]], list[str]] = lambda completions: [
            "".join(self.symbols[token - 1] for token in row) for row in completions
        ]
        if self.pretrained:
            from maxk_lab.policies.pretrained import tokens_of

            tokens = tokens_of(policy["pretrained"], self.symbols)
            self.symbol_tokens, self.separator, self.end, self.decode = tokens
            # transformers' models are no pure functions that torch.func could map.
            self.trajectory_log_prob = None  # type: ignore[method-assign, assignment]

    def policy(self, seed: int) -> nn.Module:
        if self.pretrained:
            lengths = {"prompt_length": self.prompt_length, "max_length": self.max_length}
            return fresh_policy(self.policy_parameters, seed, separator=self.separator, **lengths)
        count = len(self.symbols)
        sizes = {"inputs": count + 2, "outputs": count + 1}
        positions = self.prompt_length + self.max_length
        return fresh_policy(self.policy_parameters, seed, positions=positions, **sizes)

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Tensor:
        """`count` of the task's training or held-out prompts, drawn uniformly with replacement."""
        generator = torch.Generator().manual_seed(seed)
        prompts: list[list[int]] = []
        while len(prompts) < count:
            shape = (count, self.prompt_length)
            drawn = torch.randint(len(self.symbols), shape, generator=generator)
            pairs = zip(drawn.tolist(), self.prompts(drawn), strict=True)
            prompts += [row for row, text in pairs if is_held_out(self.task.name, text) == held_out]
        return torch.tensor(prompts[:count])

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
        actions = self._draw(policy, self._prefix(instances), n, seed)
        actions = actions.view(len(instances), n, -1)
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
        flat = actions.flatten(0, 1)[:, : self.max_length]
        mask, missing = self._decisions(flat), (0, self.max_length - flat.shape[1])
        completions = nn.functional.pad(flat.where(mask, self.end), missing, value=self.end)
        prefix = self._prefix(instances).repeat_interleave(actions.shape[1], 0)
        inputs = torch.cat([prefix, completions[:, :-1]], 1)
        return inputs, completions, nn.functional.pad(mask, missing)

    def trajectory_log_prob(self, policy: Callable[..., Tensor], *row: Tensor) -> Tensor:
        inputs, completion, mask = row
        log_policy = self._log_policy(policy(inputs)[-self.max_length :])
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
        rows = [
            sequence + (self.end,) * (self.max_length - length)
            for length in range(self.max_length + 1)
            for sequence in product(self.symbol_tokens.tolist(), repeat=length)
        ]
        actions = torch.tensor(rows, device=instances.device)
        return actions, self._score(instances, actions.unsqueeze(0))[0][0]

    def _log_policy(self, logits: Tensor) -> Tensor:
        """log π of logits [..., V]: temperature first, then the nucleus, renormalised.

        The nucleus is the smallest set of most likely tokens whose probability reaches `top_p`; the
        others have log-probability −∞. With top_p < 1 the gradient is that of the distribution
        given the nucleus, whose edge moves without one.
        """
        log_policy = (logits / self.temperature).log_softmax(-1)
        if self.top_p >= 1:
            return log_policy
        ordered, order = log_policy.detach().exp().sort(stable=True, dim=-1, descending=True)
        beyond = ordered.cumsum(-1) - ordered >= self.top_p
        outside = torch.zeros_like(beyond).scatter(-1, order, beyond)
        return log_policy.masked_fill(outside, -torch.inf).log_softmax(-1)

    def _draw(self, policy: nn.Module, prefix: Tensor, n: int, seed: int) -> Tensor:
        """n completions [B·n, max_length] of each prefix [B, L], padded with the end.

        The toy transformer remembers what it has read. Others are asked by a whole teacher-forced
        pass per token, and so is it within a nucleus, which must be the very one of teacher
        forcing: at its edge, a rounding would make a drawn token impossible.
        """
        generator = torch.Generator(prefix.device).manual_seed(seed)
        transformer = None
        if self.top_p >= 1 and isinstance(policy, CausalTransformer):
            transformer = policy
        read = prefix.repeat_interleave(n, 0)
        actions = torch.full((len(read), self.max_length), self.end, device=prefix.device)
        running = torch.ones(len(read), dtype=torch.bool, device=prefix.device)
        logits, memory = read, None
        for t in range(self.max_length):
            if transformer is None:
                passed = policy(torch.cat([read, actions[:, :-1]], 1))
                logits = passed[:, prefix.shape[1] - 1 + t]
            elif t == 0:  # the prompts are read once for their n samples
                passed, memory = transformer.extend(prefix, None)
                logits = passed[:, -1].repeat_interleave(n, 0)
                memory = [(k.repeat_interleave(n, 0), v.repeat_interleave(n, 0)) for k, v in memory]
            else:
                passed, memory = transformer.extend(actions[:, t - 1 : t], memory)
                logits = passed[:, -1]
            probabilities = self._log_policy(logits).exp()
            drawn = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
            actions[:, t] = drawn.where(running, self.end)
            running &= drawn != self.end
            if not bool(running.any()):
                break
        return actions

    def _decisions(self, actions: Tensor) -> Tensor:
        """Whether a completion is still running at each token of actions [..., T].

        The end itself is the last decision.
        """
        ends = actions == self.end
        return ends.cumsum(-1) - ends.long() == 0

    def _score(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rewards [B, n], their parts [B, n, F] and whether the completion was cut [B, n]."""
        shape, flat = actions.shape[:2], actions.flatten(0, 1)
        mask = self._decisions(flat)
        ended = ((flat == self.end) & mask).any(-1)
        lengths = (mask.sum(-1) - ended.long()).tolist()
        completions = [row[:length] for row, length in zip(flat.tolist(), lengths, strict=True)]
        prompts = [prompt for prompt in self.prompts(instances) for _ in range(shape[1])]
        prefix = self._prefix(instances).repeat_interleave(shape[1], 0)
        rewards, parts = score(
            self.reward_functions,
            self.reward_weights,
            prompts,
            self.decode(completions),
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
        log_policy = self._log_policy(policy(inputs)[:, -self.max_length :])
        return token_statistics(log_policy, completions, mask)

    def _prefix(self, instances: Tensor) -> Tensor:
        """The tokens [B, prompt_length + separator] that the policy reads before a completion."""
        device = instances.device
        separator = torch.tensor(self.separator, dtype=torch.long, device=device)
        tokens = self.symbol_tokens.to(device)[instances]
        return torch.cat([tokens, separator.expand(len(instances), -1)], 1)
