"""RL4CO's attention model, with embeddings that accept one trajectory and expose its gradient."""

from __future__ import annotations

from collections.abc import Callable

from maxk_lab.policies.quiet import without_warnings  # isort: skip

import torch
from rl4co.models.nn.env_embeddings.context import PDPContext, TSPContext
from rl4co.models.zoo.am.policy import AttentionModelPolicy
from rl4co.utils.ops import gather_by_index
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.policies.repeated import Repeated


def attention_model(*, environment: str, dtype: str, **sizes: int) -> nn.Module:
    """Return the attention model for RL4CO's `environment`, with instance normalisation.

    Batch normalisation would couple the instances' scores. `sizes` are the parameters of the
    catalogue's row but `dtype`.
    """
    with without_warnings():
        policy = AttentionModelPolicy(
            env_name=environment, normalization="instance", use_graph_context=False, **sizes
        )
    if environment in CONTEXTS:
        embedding = CONTEXTS[environment](policy.decoder.embed_dim)
        embedding.load_state_dict(policy.decoder.context_embedding.state_dict())
        policy.decoder.context_embedding = embedding
    return policy.to(getattr(torch, dtype))


class RepeatedTSPContext(TSPContext):
    """RL4CO's context with a placeholder whose gradient is visible by trajectory."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__(embed_dim)
        self.repeated = Repeated()

    def forward(self, embeddings: Tensor, td: TensorDict) -> Tensor:
        if td["i"].flatten()[0].item() >= 1:
            return super().forward(embeddings, td)
        return self.project_context(self.repeated(self.W_placeholder, td.batch_size))


class RepairedPDPContext(PDPContext):
    """RL4CO's context without its error: it drops every dimension of length one, also the batch."""

    def forward(self, embeddings: Tensor, td: TensorDict) -> Tensor:
        return self.project_context(gather_by_index(embeddings, td["current_node"]))


CONTEXTS: dict[str, Callable[[int], nn.Module]] = {
    "tsp": RepeatedTSPContext,
    "shpp": RepeatedTSPContext,
    "pdp": RepairedPDPContext,
}
