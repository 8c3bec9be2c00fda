"""The pointer attention of RL4CO's decoder, by keys that are made ready once for all steps.

Algebra and no approximation: the projection of what a query attends to goes into the keys of the
logits, and the scale of the products into the keys. Values are RL4CO's up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from rl4co.models.nn.attention import PointerAttention, scaled_dot_product_attention
from rl4co.models.nn.env_embeddings.dynamic import StaticEmbedding
from rl4co.models.zoo.am.decoder import AttentionModelDecoder, PrecomputedCache
from torch import Tensor, nn


@dataclass(frozen=True)
class Decision:
    """A decision of N trajectories, n of each of B instances, with what a backward pass needs.

    The query [B, n, E]; the attention to the nodes, by heads [B·heads, A, n]; what was attended to
    [B, E, n]; the logits, squashed where the policy clips them, and the logarithms of all
    probabilities and these themselves, [N, A] each.
    """

    query: Tensor
    attention: Tensor
    glimpse: Tensor
    squashed: Tensor
    log_policy: Tensor
    policy: Tensor


@dataclass(frozen=True)
class Pointer:
    """The keys and values of B instances by heads, [B·heads, A, d], and logit keys [B, A, E].

    `clipping` is the policy's bound of the logits, 0 for none; `temperature` divides them.
    """

    keys: Tensor
    values: Tensor
    logit_keys: Tensor
    clipping: float
    temperature: float

    @property
    def heads(self) -> int:
        return len(self.keys) // len(self.logit_keys)

    def by_heads(self, vectors: Tensor) -> Tensor:
        """Vectors [B, m, E] as [B·heads, m, d]."""
        return _by_heads(vectors, self.heads)

    def decide(self, query: Tensor, mask: Tensor) -> Decision:
        """The decisions of queries [B, n, E] among the actions in `mask` [(n b), A]."""
        count, n, _ = query.shape
        nodes = mask.shape[-1]
        # [A, n] keeps the heads of a glimpse side by side, without a copy.
        products = torch.bmm(self.keys, self.by_heads(query).transpose(1, 2))
        barred = _barred(mask, products.dtype)
        every_head = barred.view(n, count, nodes).permute(1, 2, 0).unsqueeze(1).contiguous()
        products.view(count, -1, nodes, n).add_(every_head)
        attention = products.softmax(1)
        glimpse = torch.bmm(self.values.transpose(1, 2), attention).view(count, -1, n)
        logits = torch.bmm(glimpse.transpose(1, 2), self.logit_keys.transpose(1, 2))
        logits = logits.transpose(0, 1).reshape(mask.shape)
        squashed = logits.tanh_() if self.clipping else logits
        scaled = (squashed * self.scale).add_(barred)
        # An exponential of −∞ takes its time, softmax does not.
        return Decision(
            query, attention, glimpse, squashed, scaled.log_softmax(-1), scaled.softmax(-1)
        )

    @property
    def scale(self) -> float:
        """The factor of the squashed logits."""
        return (self.clipping or 1.0) / self.temperature


def pointer_of(policy: Any, cache: PrecomputedCache, temperature: float) -> Pointer | None:
    """The pointer of an attention model with its encoding, or None for any other policy.

    Subclasses are others, and so are a decoder with hooks, which would not be called, and one under
    autocast, whose precision is decided operation by operation.
    """
    if not is_plain(policy.decoder) or torch.is_autocast_enabled(cache.logit_key.device.type):
        return None
    attention, embed_dim = policy.decoder.pointer, cache.logit_key.shape[-1]
    keys = _by_heads(cache.glimpse_key, attention.num_heads)
    return Pointer(
        keys * keys.shape[-1] ** -0.5,
        _by_heads(cache.glimpse_val, attention.num_heads),
        cache.logit_key @ (attention.project_out.weight * embed_dim**-0.5),
        max(policy.tanh_clipping, 0),
        policy.temperature * temperature,
    )


def is_plain(decoder: Any) -> bool:
    """Whether this is RL4CO's attention decoder as it comes, with node embeddings that stay."""
    if type(decoder) is not AttentionModelDecoder or type(decoder.pointer) is not PointerAttention:
        return False
    pointer = decoder.pointer
    return (
        type(decoder.dynamic_embedding) is StaticEmbedding
        and type(pointer.project_out) is nn.Linear
        and pointer.project_out.bias is None
        and pointer.sdpa_fn is scaled_dot_product_attention
        and pointer.mask_inner
        and not any(map(_is_watched, decoder.modules()))
    )


def _is_watched(module: Any) -> bool:
    """Whether somebody would notice, or decide, what a call of the module gives."""
    hooks = (
        *(module._forward_hooks, module._forward_pre_hooks),
        *(module._backward_hooks, module._backward_pre_hooks),
    )
    return any(hooks) or "forward" in vars(module)


def _barred(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where `mask` is True, else −∞: 1 − 1/mask, several times as fast as filling by a mask."""
    return mask.to(dtype).reciprocal_().neg_().add_(1)


def _by_heads(vectors: Tensor, heads: int) -> Tensor:
    """Vectors [B, m, E] as [B·heads, m, d]."""
    count, m, _ = vectors.shape
    return vectors.view(count, m, heads, -1).transpose(1, 2).reshape(count * heads, m, -1)
