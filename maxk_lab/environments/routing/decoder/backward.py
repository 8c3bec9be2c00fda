"""The gradient of all decisions of a decoding loop that ran without one, from what it kept.

The loop's own attention and log-probabilities are all that a backward pass needs besides queries
and keys: nothing is computed forward again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from maxk_lab.environments.rollouts import TokenStatistics, surprise
from maxk_lab.environments.routing.decoder.pointer import Decision, Pointer


@dataclass(frozen=True)
class Made:
    """A decision of N trajectories and the actions taken, [N]."""

    decision: Decision
    action: Tensor


def differentiable(
    pointer: Pointer, made: Sequence[Made], tokens: TokenStatistics
) -> TokenStatistics:
    """The tokens [N, T] of T decisions, log_probs and entropy with gradient.

    It goes to the pointer's keys and values and to the queries of the decisions, and has no
    derivative of its own.
    """
    kept = [
        tensor
        for m in made
        for tensor in (
            *(m.decision.attention, m.decision.glimpse, m.decision.squashed),
            *(m.decision.log_policy, m.decision.policy, m.action),
        )
    ]
    log_probs, entropy = _Decisions.apply(  # type: ignore[no-untyped-call]
        *(pointer, tokens, kept, pointer.keys, pointer.values, pointer.logit_keys),
        *(m.decision.query for m in made),
    )
    return replace(tokens, log_probs=log_probs, entropy=entropy)


class _Decisions(torch.autograd.Function):
    """log_probs and entropy [N, T] of keys, values, logit keys and T queries."""

    @staticmethod
    def forward(
        ctx: Any, pointer: Pointer, tokens: TokenStatistics, kept: list[Tensor], *inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.scales = pointer.clipping, pointer.temperature
        ctx.save_for_backward(tokens.mask, tokens.entropy, *inputs, *kept)
        return tokens.log_probs.clone(), tokens.entropy.clone()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, by_log_probs: Tensor | None, by_entropy: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        mask, entropy, keys, values, logit_keys, *rest = ctx.saved_tensors
        gradient = _Gradient.zero(Pointer(keys, values, logit_keys, *ctx.scales))
        steps = mask.shape[1]
        queries, kept = rest[:steps], iter(rest[steps:])
        by_queries = []
        for t, query in enumerate(queries):
            attention, glimpse, squashed, log_policy, policy, action = islice(kept, 6)
            decision = Decision(query, attention, glimpse, squashed, log_policy, policy)
            by_logits = torch.zeros_like(policy)
            if by_log_probs is not None:
                by_chosen = (by_log_probs[:, t] * mask[:, t]).unsqueeze(1)
                by_logits = (policy * -by_chosen).scatter_add_(1, action.unsqueeze(1), by_chosen)
            if by_entropy is not None:
                by_sum = (by_entropy[:, t] * mask[:, t]).unsqueeze(1)
                beyond = surprise(log_policy) - entropy[:, t].unsqueeze(1)
                by_logits = by_logits + policy * beyond * by_sum
            by_queries.append(gradient.through(decision, by_logits))
        return None, None, None, gradient.keys, gradient.values, gradient.logit_keys, *by_queries


@dataclass
class _Gradient:
    """The gradient of the keys, values and logit keys of a pointer, summed over its decisions."""

    pointer: Pointer
    keys: Tensor
    values: Tensor
    logit_keys: Tensor

    @classmethod
    def zero(cls, pointer: Pointer) -> _Gradient:
        zeros = map(torch.zeros_like, (pointer.keys, pointer.values, pointer.logit_keys))
        return cls(pointer, *zeros)

    def through(self, decision: Decision, by_logits: Tensor) -> Tensor:
        """Add a decision, given the gradient of its scaled logits [N, A]; return its query's."""
        pointer, attention = self.pointer, decision.attention
        count, n, _ = decision.query.shape
        slope = (
            decision.squashed.square().sub_(1).mul_(-pointer.scale)
            if pointer.clipping
            else pointer.scale
        )
        by_logits = (by_logits * slope).view(n, count, -1).permute(1, 2, 0)
        # Out of place: several gradients at once (`is_grads_batched`) cannot be added to one.
        self.logit_keys = self.logit_keys.baddbmm(by_logits, decision.glimpse.transpose(1, 2))
        by_glimpse = torch.bmm(pointer.logit_keys.transpose(1, 2), by_logits)
        by_glimpse = by_glimpse.view(len(attention), -1, n)
        self.values = self.values.baddbmm(attention, by_glimpse.transpose(1, 2))
        by_products = torch.bmm(pointer.values, by_glimpse).mul_(attention)
        by_products.addcmul_(attention, by_products.sum(1, keepdim=True), value=-1)
        self.keys = self.keys.baddbmm(by_products, pointer.by_heads(decision.query))
        by_query = torch.bmm(by_products.transpose(1, 2), pointer.keys)
        return by_query.view(count, pointer.heads, n, -1).transpose(1, 2).reshape(count, n, -1)
