"""RL4CO's attention model; some of its embeddings would falsify a run, or hide a gradient."""

from __future__ import annotations

from collections.abc import Callable

from maxk_lab.policies.quiet import without_warnings  # isort: skip

import torch
from rl4co.models.nn.env_embeddings.context import MCPContext, MTSPContext, PDPContext, TSPContext
from rl4co.models.nn.env_embeddings.init import MCPInitEmbedding
from rl4co.models.zoo.am.policy import AttentionModelPolicy
from rl4co.utils.ops import gather_by_index
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.policies.repeated import Repeated


def attention_model(*, environment: str, dtype: str, **sizes: int) -> nn.Module:
    """The attention model for RL4CO's `environment`, with instance normalisation.

    Batch normalisation would couple the instances' scores. `sizes` are the parameters of the
    catalogue's row but `dtype`.
    """
    with without_warnings():
        policy = AttentionModelPolicy(
            env_name=environment, normalization="instance", use_graph_context=False, **sizes
        )
    for owner, attribute, repaired in (
        (policy.encoder, "init_embedding", INITIALS.get(environment)),
        (policy.decoder, "context_embedding", CONTEXTS.get(environment)),
    ):
        if repaired is not None:
            embedding = repaired(policy.decoder.embed_dim)
            embedding.load_state_dict(getattr(owner, attribute).state_dict())
            setattr(owner, attribute, embedding)
    return policy.to(getattr(torch, dtype))


class RepeatedTSPContext(TSPContext):
    """RL4CO's, but for a placeholder whose gradient can be seen by trajectory."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__(embed_dim)
        self.repeated = Repeated()

    def forward(self, embeddings: Tensor, td: TensorDict) -> Tensor:
        if td["i"].flatten()[0].item() >= 1:
            return super().forward(embeddings, td)
        return self.project_context(self.repeated(self.W_placeholder, td.batch_size))


class RepairedPDPContext(PDPContext):
    """RL4CO's drops every dimension of length one, the batch among them."""

    def forward(self, embeddings: Tensor, td: TensorDict) -> Tensor:
        return self.project_context(gather_by_index(embeddings, td["current_node"]))


class RepairedMTSPContext(MTSPContext):
    """RL4CO's drops every dimension of length one, the batch among them."""

    def _cur_node_embedding(self, embeddings: Tensor, td: TensorDict) -> Tensor:
        return gather_by_index(embeddings, td["current_node"])


class RepairedMCPInit(MCPInitEmbedding):
    """In the policy's own floating-point type: RL4CO's sums are always float32."""

    def forward(self, td: TensorDict) -> Tensor:
        return _sum_of_members(self.projection_items(td["weights"].unsqueeze(-1)), td["membership"])


class RepairedMCPContext(MCPContext):
    """In the policy's own floating-point type: RL4CO's sums are always float32."""

    def forward(self, embeddings: Tensor, td: TensorDict) -> Tensor:
        weight = _sum_of_members(td["weights"].unsqueeze(-1), td["membership"])
        return self.project_context((weight.softmax(1) * embeddings).sum(1))


def _sum_of_members(values: Tensor, membership: Tensor) -> Tensor:
    """Sums over the members of each set, [B, sets, h], of values [B, items, h].

    membership [B, sets, size] numbers the items from 1; 0 is none.
    """
    padded = nn.functional.pad(values, (0, 0, 1, 0))
    batch, sets, size = membership.shape
    members = gather_by_index(padded, membership.long().reshape(batch, -1), squeeze=False)
    return members.reshape(batch, sets, size, -1).sum(-2)


CONTEXTS: dict[str, Callable[[int], nn.Module]] = {
    "tsp": RepeatedTSPContext,
    "shpp": RepeatedTSPContext,
    "pdp": RepairedPDPContext,
    "mtsp": RepairedMTSPContext,
    "mcp": RepairedMCPContext,
}
INITIALS: dict[str, Callable[[int], nn.Module]] = {"mcp": RepairedMCPInit}
