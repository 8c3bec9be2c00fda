"""The memory that an environment and its policy take at least, for what exceeds a machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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


def bytes_of(settings: Mapping[str, Any]) -> int:
    """Return the bytes of a number of the policy: 8 of a float64, else 4."""
    return 8 if settings.get("dtype") == "float64" else 4


def of_attention(settings: Mapping[str, Any], nodes: float, decisions: float) -> Footprint:
    """Return that of the attention model where it chooses among so many nodes, so many times.

    A decision has the attention of every head to every node, and logits, log-probabilities and
    probabilities of them; those of a trajectory that is taught are all kept.
    """
    width, heads = settings["embed_dim"], settings["num_heads"]
    layers, hidden = settings["num_encoder_layers"], settings["feedforward_hidden"]
    decision = nodes * (heads + 3) + width
    numbers = Footprint(
        # Coordinates, and the keys, values and logit keys of every node.
        instance=nodes * (2 + 3 * width),
        sampled=decision,
        taught=decisions * decision,
        policy=layers * (4 * width**2 + 2 * width * hidden),
    )
    return _times(numbers, bytes_of(settings))


def of_transformer(settings: Mapping[str, Any], length: float) -> Footprint:
    """Return that of the small transformer on rows of this length, read whole by teacher forcing.

    Every head has a square of attention, of which a backward pass needs that of all layers.
    """
    width, layers = settings["embed_dim"], settings["num_layers"]
    square = settings["num_heads"] * length**2
    numbers = Footprint(
        instance=length,
        sampled=2 * square + 4 * width * length,
        taught=layers * (square + 12 * width * length),
        policy=layers * 12 * width**2 + length * width,
    )
    return _times(numbers, bytes_of(settings))


def _times(numbers: Footprint, size: int) -> Footprint:
    own = {name: size * value for name, value in vars(numbers).items() if name != "different"}
    return replace(numbers, **own)
