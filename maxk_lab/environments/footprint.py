"""The memory that an environment and its policy take at least, for what exceeds a machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Footprint:
    """Bytes that are in memory at once, each counted low: nothing that fits is to be refused.

    They are those of an `instance`, of a trajectory while it is `sampled`, of one that is `taught`,
    kept for a backward pass, and of the parameters of the `policy`. There are `different`
    trajectories.
    """

    instance: float = 0
    sampled: float = 0
    taught: float = 0
    policy: float = 0
    different: float = math.inf


def of_attention(settings: Mapping[str, Any], nodes: float, decisions: float) -> Footprint:
    """Return that of the attention model where it chooses among so many nodes, so many times.

    A decision has the attention of every head to every node, and logits, log-probabilities and
    probabilities of them; those of a trajectory that is taught are all kept. An instance has
    coordinates, and the keys, values and logit keys of every node.
    """
    width, size = settings["embed_dim"], _bytes_of_a_number(settings)
    decision = size * (nodes * (settings["num_heads"] + 3) + width)
    layer = 4 * width**2 + 2 * width * settings["feedforward_hidden"]
    return Footprint(
        instance=size * nodes * (2 + 3 * width),
        sampled=decision,
        taught=decisions * decision,
        policy=size * settings["num_encoder_layers"] * layer,
    )


def of_transformer(settings: Mapping[str, Any], length: float) -> Footprint:
    """Return that of the small transformer on rows of this length, read whole by teacher forcing.

    Every head has a square of attention, of which a backward pass needs that of all layers.
    """
    width, layers, size = (
        settings["embed_dim"],
        settings["num_layers"],
        _bytes_of_a_number(settings),
    )
    square = settings["num_heads"] * length**2
    return Footprint(
        instance=size * length,
        sampled=size * (2 * square + 4 * width * length),
        taught=size * layers * (square + 12 * width * length),
        policy=size * (layers * 12 * width**2 + length * width),
    )


def _bytes_of_a_number(settings: Mapping[str, Any]) -> int:
    return 8 if settings.get("dtype") == "float64" else 4
