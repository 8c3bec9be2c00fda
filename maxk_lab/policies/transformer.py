"""A small causal transformer: embeddings, pre-norm attention and MLP blocks, an untied head."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# Keys and values of the positions already read, one pair per block: [..., heads, positions, width
# of a head].
Memory = list[tuple[Tensor, Tensor]]


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)); the MLP is four times as wide."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.read = nn.Linear(embed_dim, 3 * embed_dim)
        self.write = nn.Linear(embed_dim, embed_dim)
        self.mlp_norm = nn.LayerNorm(embed_dim)
        self.widen = nn.Linear(embed_dim, 4 * embed_dim)
        self.narrow = nn.Linear(4 * embed_dim, embed_dim)

    def forward(
        self, x: Tensor, blocked: Tensor | None, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return x [..., L, E] after the block, and its keys and values.

        `blocked` [L, positions] is True if a position must not be attended to.
        """
        heads = self.read(self.attention_norm(x)).unflatten(-1, (3, self.num_heads, -1))
        query, key, value = (heads[..., i, :, :].transpose(-2, -3) for i in range(3))
        if past is not None:
            key, value = torch.cat([past[0], key], -2), torch.cat([past[1], value], -2)
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)
        if blocked is not None:
            scores = scores.masked_fill(blocked, -torch.inf)
        x = x + self.write((scores.softmax(-1) @ value).transpose(-2, -3).flatten(-2))
        x = x + self.narrow(nn.functional.gelu(self.widen(self.mlp_norm(x))))
        return x, (key, value)


class CausalTransformer(nn.Module):
    """Logits of the next token after every position.

    `inputs` tokens can be read, `outputs` of them written.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        positions: int,
        *,
        embed_dim: int,
        num_layers: int,
        num_heads: int,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(inputs, embed_dim)
        self.position = nn.Embedding(positions, embed_dim)
        self.blocks = nn.ModuleList(Block(embed_dim, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(embed_dim)
        self.head = nn.Linear(embed_dim, outputs, bias=False)

    def initialise(self, std: float) -> CausalTransformer:
        """Draw weights N(0, std²) from the current random state; biases 0, norms the identity.

        Returns itself.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        return self

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits [..., L, outputs] of tokens [..., L]."""
        return self.extend(tokens, None)[0]

    def extend(
        self, tokens: Tensor, memory: Memory | None, *, copies: int = 1
    ) -> tuple[Tensor, Memory]:
        """Return logits of tokens [..., L] that follow those in `memory`, and the new memory.

        The memory has each row `copies` times in a row: the next tokens are [B · copies, L].
        """
        seen = 0 if memory is None else memory[0][0].shape[-2]
        place = torch.arange(seen + tokens.shape[-1], device=tokens.device)
        # A single new token attends to everything before it and to itself.
        blocked = place[seen:].unsqueeze(1) < place if tokens.shape[-1] > 1 else None
        # [1, ..., L]: the same places for every row.
        places = place[seen:].view(*[1] * (tokens.dim() - 1), -1)
        x = self.token(tokens) + self.position(places)
        extended: Memory = []
        for number, block in enumerate(self.blocks):
            x, (keys, values) = block(x, blocked, None if memory is None else memory[number])
            if copies > 1:
                keys, values = (each.repeat_interleave(copies, 0) for each in (keys, values))
            extended.append((keys, values))
        return self.head(self.norm(x)), extended


def fresh_transformer(
    *, inputs: int, outputs: int, positions: int, init_std: float, dtype: str, **sizes: int
) -> CausalTransformer:
    """Return random weights; float32 and float64 agree up to rounding for a seed."""
    transformer = CausalTransformer(inputs, outputs, positions, **sizes)
    return transformer.initialise(init_std).to(getattr(torch, dtype))
