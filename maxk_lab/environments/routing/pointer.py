"""RL4CO's attention decoder in fewer operations, for constant node embeddings.

The results are exact up to rounding. The projection of the attended values is folded into the keys
of the logits, and the scale of the products into the keys. Projection is linear, so all nodes are
projected once instead of at every step. Decisions have no gradient; one backward pass for all
decisions uses their stored parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from rl4co.models.nn.attention import PointerAttention, scaled_dot_product_attention
from rl4co.models.nn.env_embeddings import context
from rl4co.models.nn.env_embeddings.dynamic import StaticEmbedding
from rl4co.models.zoo.am.decoder import AttentionModelDecoder, PrecomputedCache
from rl4co.utils.ops import unbatchify
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from maxk_lab.environments.rollouts import TokenStatistics, surprise
from maxk_lab.policies.attention import RepeatedTSPContext

# Maps states, with entries [(n b)] each, to queries [B, n, E].
Queries = Callable[[Any], Tensor]

# Contexts of the first node and the current node,
FIRST_AND_CURRENT = (context.TSPContext, RepeatedTSPContext)
# and of the current node and numbers that RL4CO's `_state_embedding` reads.
NODE_AND_NUMBERS = (context.VRPContext, context.PCTSPContext, context.OPContext)


class Decision(NamedTuple):
    """A decision of N trajectories, n of each of B instances.

    The fields are log-probabilities and probabilities of the next actions, [N, A] each. A pointer's
    have no gradient. `parts` are the inputs of its backward pass: the query [B, n, E], with
    gradient; the attention to the nodes by heads [B·heads, A, n]; the attended values [B, E, n];
    the clipped logits [N, A].
    """

    log_policy: Tensor
    policy: Tensor
    parts: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Pointer:
    """The decoder of an attention model for B instances.

    keys and values by heads: [B·heads, A, d]; logit_keys: [B, A, E]. `on_dictionaries` is True if
    `queries` read states that are dictionaries. `clipping` is the policy's bound of the logits, 0
    for none; `scale` the factor of the clipped logits.
    """

    keys: Tensor
    values: Tensor
    logit_keys: Tensor
    queries: Queries
    on_dictionaries: bool
    clipping: float
    scale: float

    def decide(self, state: Mapping[str, Tensor]) -> Decision:
        """Return the decision in states [(n b)]."""
        query = self.queries(state)
        with torch.no_grad():
            return self._decide(query, state["action_mask"])

    def _decide(self, query: Tensor, mask: Tensor) -> Decision:
        count, n, _ = query.shape
        nodes = mask.shape[-1]
        # [A, n] keeps the heads of a glimpse adjacent, without a copy.
        products = torch.bmm(self.keys, _split_heads(query, self.heads).transpose(1, 2))
        # 0 for an allowed action, else −∞: several times as fast as filling by a mask.
        barred = mask.to(products.dtype).reciprocal_().neg_().add_(1)
        every_head = barred.view(n, count, nodes).permute(1, 2, 0).unsqueeze(1).contiguous()
        products.view(count, -1, nodes, n).add_(every_head)
        attention = products.softmax(1)
        glimpse = torch.bmm(self.values.transpose(1, 2), attention).view(count, -1, n)
        logits = torch.bmm(glimpse.transpose(1, 2), self.logit_keys.transpose(1, 2))
        logits = logits.transpose(0, 1).reshape(mask.shape)
        clipped = logits.tanh_() if self.clipping else logits
        scaled = (clipped * self.scale).add_(barred)
        # softmax is faster than an exponential of −∞.
        log_policy, policy = scaled.log_softmax(-1), scaled.softmax(-1)
        return Decision(log_policy, policy, (query, attention, glimpse, clipped))

    @property
    def heads(self) -> int:
        return len(self.keys) // len(self.logit_keys)

    def with_gradient(
        self, decisions: Sequence[Decision], actions: Tensor, tokens: TokenStatistics
    ) -> TokenStatistics:
        """Return log_probs and entropy [N, T] of the actions of T decisions, with gradient.

        The gradient flows to the keys, the values and the queries; it has no second derivative.
        """
        log_probs, entropy = _Decisions.apply(  # type: ignore[no-untyped-call]
            *(self, decisions, actions, tokens, self.keys, self.values, self.logit_keys),
            *(decision.parts[0] for decision in decisions),
        )
        return replace(tokens, log_probs=log_probs, entropy=entropy)


class _Decisions(torch.autograd.Function):
    """log_probs and entropy [N, T] of keys, values, logit keys and T queries."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.arguments = arguments[:4]
        tokens: TokenStatistics = arguments[3]
        return tokens.log_probs.clone(), tokens.entropy.clone()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, by_log_probs: Tensor | None, by_entropy: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        pointer, decisions, actions, tokens = ctx.arguments
        by_keys, by_values, by_logit_keys = map(
            torch.zeros_like, (pointer.keys, pointer.values, pointer.logit_keys)
        )
        by_queries = []
        for t, (log_policy, policy, (query, attention, glimpse, clipped)) in enumerate(decisions):
            count, n, _ = query.shape
            by_logits = torch.zeros_like(policy)
            if by_log_probs is not None:
                by_chosen = (by_log_probs[:, t] * tokens.mask[:, t]).unsqueeze(1)
                by_logits = (policy * -by_chosen).scatter_add_(1, actions[:, t : t + 1], by_chosen)
            if by_entropy is not None:
                by_sum = (by_entropy[:, t] * tokens.mask[:, t]).unsqueeze(1)
                beyond = surprise(log_policy) - tokens.entropy[:, t : t + 1]
                by_logits = by_logits + policy * beyond * by_sum
            slope: Tensor | float = pointer.scale
            if pointer.clipping:
                slope = clipped.square().sub_(1).mul_(-pointer.scale)
            by_logits = (by_logits * slope).view(n, count, -1).permute(1, 2, 0)
            # Out of place: batched gradients (`is_grads_batched`) cannot be added to a single one.
            by_logit_keys = by_logit_keys.baddbmm(by_logits, glimpse.transpose(1, 2))
            by_glimpse = torch.bmm(pointer.logit_keys.transpose(1, 2), by_logits)
            by_glimpse = by_glimpse.view(len(attention), -1, n)
            by_values = by_values.baddbmm(attention, by_glimpse.transpose(1, 2))
            by_products = torch.bmm(pointer.values, by_glimpse).mul_(attention)
            by_products.addcmul_(attention, by_products.sum(1, keepdim=True), value=-1)
            by_keys = by_keys.baddbmm(by_products, _split_heads(query, pointer.heads))
            by_query = torch.bmm(by_products.transpose(1, 2), pointer.keys)
            by_query = by_query.view(count, pointer.heads, n, -1).transpose(1, 2)
            by_queries.append(by_query.reshape(count, n, -1))
        return None, None, None, None, by_keys, by_values, by_logit_keys, *by_queries


def pointer_of(
    policy: Any, cache: PrecomputedCache, shared: int, temperature: float
) -> Pointer | None:
    """Return the pointer of an attention model with its encoding, or None for any other policy.

    Subclasses are other policies. Hooks of the decoder are not called. `shared` is the number of
    trajectories that share an encoding; `temperature` divides the logits in addition to the
    policy's own.
    """
    decoder = policy.decoder
    if not is_plain(decoder):
        return None
    heads, clipping = decoder.pointer.num_heads, max(policy.tanh_clipping, 0)
    keys = _split_heads(cache.glimpse_key, heads)
    projected = projected_queries(
        decoder.context_embedding, cache.node_embeddings, cache.graph_context
    )

    def queries(state: Any) -> Tensor:
        query: Tensor = decoder._compute_q(
            cache, unbatchify(state, shared) if shared > 1 else state
        )
        return query

    return Pointer(
        keys * keys.shape[-1] ** -0.5,
        _split_heads(cache.glimpse_val, heads),
        cache.logit_key @ (decoder.pointer.project_out.weight * cache.logit_key.shape[-1] ** -0.5),
        projected or queries,
        projected is not None,
        clipping,
        (clipping or 1.0) / (policy.temperature * temperature),
    )


def is_plain(decoder: Any) -> bool:
    """Return whether this is RL4CO's unchanged attention decoder with constant node embeddings."""
    if type(decoder) is not AttentionModelDecoder or type(decoder.pointer) is not PointerAttention:
        return False
    pointer = decoder.pointer
    return (
        type(decoder.dynamic_embedding) is StaticEmbedding
        and type(pointer.project_out) is nn.Linear
        and pointer.project_out.bias is None
        and pointer.sdpa_fn is scaled_dot_product_attention
        and pointer.mask_inner
    )


def projected_queries(embedding: Any, nodes: Tensor, graph: Tensor | float) -> Queries | None:
    """Return the queries of a context embedding, given the nodes' embeddings [B, A, E].

    `graph` is what RL4CO's decoder adds to each, [B, E] or 0. None for embeddings that are not
    named here, and for subclasses.
    """
    if type(embedding) not in (*FIRST_AND_CURRENT, *NODE_AND_NUMBERS):
        return None
    if type(embedding.project_context) is not nn.Linear:
        return None
    weight, bias = embedding.project_context.weight, embedding.project_context.bias
    of_nodes, of_rest = weight[:, : nodes.shape[2]], weight[:, nodes.shape[2] :]
    added = graph.unsqueeze(1) if isinstance(graph, Tensor) else 0.0
    first = _Nodes(linear(nodes, of_nodes, bias) + added)
    if type(embedding) in FIRST_AND_CURRENT:
        placeholder = linear(embedding.W_placeholder, weight, bias) + added
        start = placeholder.expand(len(nodes), 1, -1)
        current = _Nodes(linear(nodes, of_rest))

        def two_nodes(state: Mapping[str, Tensor]) -> Tensor:
            if state["i"].view(-1)[0].item() < 1:
                return start.expand(-1, len(state["i"]) // len(nodes), -1)
            return first[state["first_node"]] + current[state["current_node"]]

        return two_nodes

    def node_and_numbers(state: Mapping[str, Tensor]) -> Tensor:
        numbers = embedding._state_embedding(None, state)
        numbers = numbers.view(-1, len(nodes), numbers.shape[-1]).transpose(0, 1)
        return first[state["current_node"]] + linear(numbers, of_rest)

    return node_and_numbers


class _Nodes:
    """Vectors of B instances' nodes [B, A, E], for a choice of n nodes each."""

    def __init__(self, vectors: Tensor) -> None:
        self.count = len(vectors)
        self.flat = vectors.reshape(-1, vectors.shape[2])
        self.offsets = vectors.shape[1] * torch.arange(self.count, device=vectors.device)

    def __getitem__(self, nodes: Tensor) -> Tensor:
        """Return the vectors of nodes [(n b)]: [B, n, E]."""
        rows = nodes.view(-1, self.count).t() + self.offsets.unsqueeze(1)
        return self.flat.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)


def _split_heads(vectors: Tensor, heads: int) -> Tensor:
    """Return vectors [B, m, E] as [B·heads, m, d]."""
    count, m, _ = vectors.shape
    return vectors.view(count, m, heads, -1).transpose(1, 2).reshape(count * heads, m, -1)
