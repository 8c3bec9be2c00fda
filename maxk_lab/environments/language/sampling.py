"""The distribution completions are drawn from, and drawing them token by token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from maxk_lab.policies.transformer import CausalTransformer


def next_token_log_policy(logits: Tensor, temperature: float, top_p: float) -> Tensor:
    """log π of logits [..., V]: temperature first, then the nucleus, renormalised.

    The nucleus is the smallest set of most likely tokens whose probability reaches `top_p`; the
    others have log-probability −∞. With top_p < 1 the gradient is that of the distribution given
    the nucleus, whose edge moves without one.
    """
    log_policy = (logits / temperature).log_softmax(-1)
    if top_p >= 1:
        return log_policy
    ordered, order = log_policy.detach().exp().sort(stable=True, dim=-1, descending=True)
    beyond = ordered.cumsum(-1) - ordered >= top_p
    outside = torch.zeros_like(beyond).scatter(-1, order, beyond)
    return log_policy.masked_fill(outside, -torch.inf).log_softmax(-1)


def decision_mask(actions: Tensor, end: int) -> Tensor:
    """Whether a completion is still running at each token of actions [..., T].

    The end itself is the last decision.
    """
    ends = actions == end
    return ends.cumsum(-1) - ends.long() == 0


def draw(
    log_policy: Callable[[Tensor], Tensor],
    count: int,
    length: int,
    end: int,
    generator: torch.Generator,
) -> Tensor:
    """`count` completions [count, length], padded with `end`.

    `log_policy` maps the tokens so far [count, t] to [count, V].
    """
    actions = torch.full((count, length), end, device=generator.device)
    running = torch.ones(count, dtype=torch.bool, device=generator.device)
    for t in range(length):
        drawn = torch.multinomial(log_policy(actions[:, :t]).exp(), 1, generator=generator).squeeze(
            1
        )
        actions[:, t] = drawn.where(running, end)
        running &= drawn != end
        if not bool(running.any()):
            break
    return actions


class RememberedLogits:
    """The next token's logits with one new position per call.

    The prompts are read once for their n samples.
    """

    def __init__(self, policy: CausalTransformer, prefix: Tensor, n: int) -> None:
        self.policy = policy
        logits, memory = policy.extend(prefix, None)
        self.first = logits[:, -1].repeat_interleave(n, 0)
        self.memory = [
            (key.repeat_interleave(n, 0), value.repeat_interleave(n, 0)) for key, value in memory
        ]

    def __call__(self, actions: Tensor) -> Tensor:
        """Logits [count, V] after the tokens so far [count, t]; each call has one more of them."""
        if actions.shape[1] == 0:
            return self.first
        logits, self.memory = self.policy.extend(actions[:, -1:], self.memory)
        return logits[:, -1]


class RecomputedLogits:
    """The next token's logits by a whole teacher-forced pass per call.

    Slower, but with the digits of teacher forcing itself.
    """

    def __init__(self, policy: nn.Module, prefix: Tensor, n: int, length: int, end: int) -> None:
        self.policy = policy
        self.prefix = prefix.repeat_interleave(n, 0)
        self.length = length
        self.end = end

    def __call__(self, actions: Tensor) -> Tensor:
        """Logits [count, V] after the tokens so far [count, t]."""
        t = actions.shape[1]
        padded = nn.functional.pad(actions, (0, self.length - 1 - t), value=self.end)
        logits: Tensor = self.policy(torch.cat([self.prefix, padded], 1))
        return logits[:, self.prefix.shape[1] - 1 + t]
