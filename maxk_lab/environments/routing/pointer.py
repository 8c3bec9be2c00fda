"""RL4CO's attention decoder in fewer operations, for nodes whose embeddings stay the same.

Algebra and no approximation: the projection of what a query attends to goes into the keys of the
logits, the scale of the products into the keys; and as the projection of a query is linear, all
nodes are projected once instead of one by one at every step. Values are RL4CO's up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from rl4co.models.nn.attention import PointerAttention, scaled_dot_product_attention
from rl4co.models.nn.env_embeddings import context
from rl4co.models.nn.env_embeddings.dynamic import StaticEmbedding
from rl4co.models.zoo.am.decoder import AttentionModelDecoder, PrecomputedCache
from rl4co.utils.ops import unbatchify
from torch import Tensor, nn
from torch.nn.functional import linear

from maxk_lab.policies.attention import RepeatedTSPContext

# The queries [B, n, E] of states, whose entries are [(n b)] each.
Queries = Callable[[Any], Tensor]

# Contexts of the first node and the current one,
FIRST_AND_CURRENT = (context.TSPContext, RepeatedTSPContext)
# and of the current node and of numbers that RL4CO's own `_state_embedding` reads.
NODE_AND_NUMBERS = (
    *(context.VRPContext, context.VRPTWContext, context.MTVRPContext),
    *(context.PCTSPContext, context.OPContext),
)


@dataclass(frozen=True)
class Pointer:
    """The decoder of an attention model, made ready for B instances.

    keys and values by heads: [B·heads, A, d]; logit_keys: [B, A, E]. `plain` says whether `queries`
    read states that are plain dictionaries. `clipping` is the policy's bound of the logits, 0 for
    none; `scale` the factor of the clipped ones.
    """

    keys: Tensor
    values: Tensor
    logit_keys: Tensor
    queries: Queries
    plain: bool
    clipping: float
    scale: float

    def decide(self, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probabilities and probabilities of the next actions in states [(n b)]: [N, A] each.

        Both have a gradient.
        """
        mask, query = state["action_mask"], self.queries(state)
        count, n, _ = query.shape
        nodes = mask.shape[-1]
        # [A, n] keeps the heads of a glimpse side by side, without a copy.
        heads = len(self.keys) // len(self.logit_keys)
        products = torch.bmm(self.keys, _by_heads(query, heads).transpose(1, 2))
        # 0 where an action is allowed, else −∞: several times as fast as filling by a mask.
        barred = mask.to(products.dtype).reciprocal_().neg_().add_(1)
        every_head = barred.view(n, count, nodes).permute(1, 2, 0).unsqueeze(1).contiguous()
        products.view(count, -1, nodes, n).add_(every_head)
        glimpse = torch.bmm(self.values.transpose(1, 2), products.softmax(1)).view(count, -1, n)
        logits = torch.bmm(glimpse.transpose(1, 2), self.logit_keys.transpose(1, 2))
        logits = logits.transpose(0, 1).reshape(mask.shape)
        clipped = logits.tanh_() if self.clipping else logits
        scaled = (clipped * self.scale).add_(barred)
        # An exponential of −∞ takes its time, softmax does not.
        return scaled.log_softmax(-1), scaled.softmax(-1)


def pointer_of(
    policy: Any, cache: PrecomputedCache, shared: int, temperature: float
) -> Pointer | None:
    """The pointer of an attention model with its encoding, or None for any other policy.

    Subclasses are others, and so are a decoder with hooks, which would not be called, and one under
    autocast, whose precision is decided operation by operation. `shared` is the number of
    trajectories that share an encoding, `temperature` divides the logits on top of the policy's.
    """
    decoder = policy.decoder
    if not is_plain(decoder) or torch.is_autocast_enabled(cache.logit_key.device.type):
        return None
    heads, clipping = decoder.pointer.num_heads, max(policy.tanh_clipping, 0)
    keys = _by_heads(cache.glimpse_key, heads)
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
        _by_heads(cache.glimpse_val, heads),
        cache.logit_key @ (decoder.pointer.project_out.weight * cache.logit_key.shape[-1] ** -0.5),
        projected or queries,
        projected is not None,
        clipping,
        (clipping or 1.0) / (policy.temperature * temperature),
    )


def is_plain(decoder: Any) -> bool:
    """Whether this is RL4CO's attention decoder as it comes, with node embeddings that stay."""
    if type(decoder) is not AttentionModelDecoder or type(decoder.pointer) is not PointerAttention:
        return False
    pointer = decoder.pointer
    hooked = (
        *(
            hooks
            for module in decoder.modules()
            for hooks in (
                *(module._forward_hooks, module._forward_pre_hooks),
                *(module._backward_hooks, module._backward_pre_hooks),
            )
        ),
        *("forward" in vars(module) for module in decoder.modules()),
    )
    return (
        type(decoder.dynamic_embedding) is StaticEmbedding
        and type(pointer.project_out) is nn.Linear
        and pointer.project_out.bias is None
        and pointer.sdpa_fn is scaled_dot_product_attention
        and pointer.mask_inner
        and not any(hooked)
    )


def projected_queries(embedding: Any, nodes: Tensor, graph: Tensor | float) -> Queries | None:
    """The queries of a context embedding, given the nodes' embeddings [B, A, E].

    `graph` is what RL4CO's decoder adds to each, [B, E] or 0. None for other embeddings than those
    named here, subclasses among them.
    """
    if type(embedding) not in (*FIRST_AND_CURRENT, *NODE_AND_NUMBERS):
        return None
    if type(embedding.project_context) is not nn.Linear:
        return None
    weight, bias = embedding.project_context.weight, embedding.project_context.bias
    left, right = weight[:, : nodes.shape[2]], weight[:, nodes.shape[2] :]
    added = graph.unsqueeze(1) if isinstance(graph, Tensor) else 0.0
    first = _Nodes(linear(nodes, left, bias) + added)
    if type(embedding) in FIRST_AND_CURRENT:
        placeholder = linear(embedding.W_placeholder, weight, bias) + added
        start = placeholder.expand(len(nodes), 1, -1)
        current = _Nodes(linear(nodes, right))

        def of_two_nodes(state: Mapping[str, Tensor]) -> Tensor:
            if state["i"].view(-1)[0].item() < 1:
                return start.expand(-1, len(state["i"]) // len(nodes), -1)
            return first[state["first_node"]] + current[state["current_node"]]

        return of_two_nodes

    def of_node_and_numbers(state: Mapping[str, Tensor]) -> Tensor:
        numbers = embedding._state_embedding(None, state)
        numbers = numbers.view(-1, len(nodes), numbers.shape[-1]).transpose(0, 1)
        return first[state["current_node"]] + linear(numbers, right)

    return of_node_and_numbers


class _Nodes:
    """Vectors of B instances' nodes [B, A, E], from which those of n nodes each are taken."""

    def __init__(self, vectors: Tensor) -> None:
        self.count = len(vectors)
        self.flat = vectors.reshape(-1, vectors.shape[2])
        self.offsets = vectors.shape[1] * torch.arange(self.count, device=vectors.device)

    def __getitem__(self, nodes: Tensor) -> Tensor:
        """The vectors of nodes [(n b)]: [B, n, E]."""
        rows = nodes.view(-1, self.count).t() + self.offsets.unsqueeze(1)
        return self.flat.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)


def _by_heads(vectors: Tensor, heads: int) -> Tensor:
    """Vectors [B, m, E] as [B·heads, m, d]."""
    count, m, _ = vectors.shape
    return vectors.view(count, m, heads, -1).transpose(1, 2).reshape(count * heads, m, -1)
