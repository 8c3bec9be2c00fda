"""The queries of RL4CO's decoder, which say where a trajectory is, by nodes projected only once.

RL4CO gathers the embeddings of nodes and projects them at every step. The projection is linear:
here all nodes are projected before the first step and gathered after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from rl4co.models.nn.env_embeddings import context
from torch import Tensor, nn
from torch.nn.functional import linear

from maxk_lab.policies.attention import RepeatedTSPContext

# The entries of a state, [(n b)] each.
Entries = Mapping[str, Tensor]
# Of B instances' states: [B, n, E].
Queries = Callable[[Entries], Tensor]

# Contexts of the first node and the current one,
FIRST_AND_CURRENT = (context.TSPContext, RepeatedTSPContext)
# and of the current node and of numbers that RL4CO's own `_state_embedding` reads.
NODE_AND_NUMBERS = (
    *(context.VRPContext, context.VRPTWContext, context.MTVRPContext),
    *(context.PCTSPContext, context.OPContext),
)


def projected_queries(embedding: Any, nodes: Tensor, graph: Tensor | float) -> Queries | None:
    """The queries of a context embedding, given the nodes' embeddings [B, A, E].

    `graph` is what RL4CO's decoder adds to each, [B, E] or 0. None for other embeddings than those
    known here, subclasses among them.
    """
    if type(embedding) not in (*FIRST_AND_CURRENT, *NODE_AND_NUMBERS):
        return None
    if type(embedding.project_context) is not nn.Linear:
        return None
    weight, bias = embedding.project_context.weight, embedding.project_context.bias
    own, other = weight[:, : nodes.shape[2]], weight[:, nodes.shape[2] :]
    added = graph.unsqueeze(1) if isinstance(graph, Tensor) else 0.0
    if type(embedding) in FIRST_AND_CURRENT:
        start = linear(embedding.W_placeholder, weight, bias) + added
        first = _Nodes(linear(nodes, own, bias) + added)
        return FirstAndCurrent(start.expand(len(nodes), 1, -1), first, _Nodes(linear(nodes, other)))
    return CurrentAndNumbers(embedding, _Nodes(linear(nodes, own, bias) + added), other)


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


@dataclass(frozen=True)
class FirstAndCurrent:
    """Queries of tsp: of the first node and the current one, `start` [B, 1, E] before the first."""

    start: Tensor
    first: _Nodes
    current: _Nodes

    def __call__(self, state: Entries) -> Tensor:
        if state["i"].view(-1)[0].item() < 1:
            return self.start.expand(-1, len(state["i"]) // self.current.count, -1)
        return self.first[state["first_node"]] + self.current[state["current_node"]]


@dataclass(frozen=True)
class CurrentAndNumbers:
    """Queries of the current node, and of the state's numbers by their weights [E, numbers]."""

    embedding: Any
    current: _Nodes
    weights: Tensor

    def __call__(self, state: Entries) -> Tensor:
        numbers = self.embedding._state_embedding(None, state)
        numbers = numbers.view(-1, self.current.count, numbers.shape[-1]).transpose(0, 1)
        return self.current[state["current_node"]] + linear(numbers, self.weights)
