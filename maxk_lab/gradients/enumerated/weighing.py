"""The score weights of enumerated groups: by a cell's method, with and without its baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.gradients.enumerated.moments import Weigh


def weigh_of(cell: Mapping[str, Any], kind: str | None, baseline: str | None = None) -> Weigh:
    """The weights of the cell's estimator, with its own baseline or this one."""
    own = cell["baseline"] if baseline is None else baseline
    method = Method.parse(cell["estimator"], own, cell["k"])

    def weigh(rewards: Tensor, g: Tensor | None, ratios: Tensor | None) -> Tensor:
        return method.weights(
            rewards,
            trajectory_weights={} if kind is None or g is None else {kind: g},
            ratios=_ratios(rewards, ratios) if method.needs_ratios else None,
        )

    return weigh


def _ratios(rewards: Tensor, ratios: Tensor | None) -> Tensor:
    return torch.ones_like(rewards) if ratios is None else ratios


def plain_weigh_of(cell: Mapping[str, Any]) -> Weigh | None:
    """The same estimator without its baseline; None where it has none."""
    method = Method.of(cell)
    return (
        weigh_of(cell, None, "none")
        if method.takes_baseline and method.baseline.name != "none"
        else None
    )
