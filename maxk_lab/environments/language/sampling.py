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
        probabilities = log_policy(actions[:, :t]).exp()
        drawn = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
        actions[:, t] = drawn.where(running, end)
        running &= drawn != end
        if not bool(running.any()):
            break
    return actions


def remembered_logits(
    policy: CausalTransformer, prefix: Tensor, n: int
) -> Callable[[Tensor], Tensor]:
    """The next token's logits [count, V] after the tokens so far [count, t].

    Each call has one token more and reads but that one; the prompts are read once for their n
    samples.
    """
    logits, memory = policy.extend(prefix, None)
    first = logits[:, -1].repeat_interleave(n, 0)
    memory = [(k.repeat_interleave(n, 0), v.repeat_interleave(n, 0)) for k, v in memory]

    def after(actions: Tensor) -> Tensor:
        nonlocal memory
        if actions.shape[1] == 0:
            return first
        logits, memory = policy.extend(actions[:, -1:], memory)
        return logits[:, -1]

    return after


def recomputed_logits(
    policy: nn.Module, prefix: Tensor, n: int, length: int, end: int
) -> Callable[[Tensor], Tensor]:
    """The same by a whole teacher-forced pass per call.

    Slower, but with the digits of teacher forcing itself.
    """
    prefix = prefix.repeat_interleave(n, 0)

    def after(actions: Tensor) -> Tensor:
        t = actions.shape[1]
        padded = nn.functional.pad(actions, (0, length - 1 - t), value=end)
        logits: Tensor = policy(torch.cat([prefix, padded], 1))
        return logits[:, prefix.shape[1] - 1 + t]

    return after
