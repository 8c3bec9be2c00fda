"""The definition of the linear families of baselines, on a group of exact fractions."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from maxk_lab.estimators.reference import baselines
from maxk_lab.estimators.reference.exact import Group, left_out_values, minus, per_group, score


def family_terms(rewards: Tensor, k: int, family: str) -> tuple[Tensor, Tensor]:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]` and `[..., n, D]`."""
    count = k - 1 if family == "ladder" else 1
    directions = [per_group(direction, rewards, k, family=family, number=d) for d in range(count)]
    return per_group(start, rewards, k, family=family), torch.stack(directions, dim=-1)


def start(group: Group, k: int, *, family: str) -> list[Fraction]:
    """The weights at coefficients of 0: without baseline for `constant`, else the centred ones."""
    return score(group, k) if family == "constant" else baselines.centred(group, k)


def direction(group: Group, k: int, *, family: str, number: int) -> list[Fraction]:
    """The weights at 1 in coefficient `number` and 0 in all others, minus those at 0."""
    share = Fraction(k, len(group))
    if family == "constant":
        return [-share] * len(group)
    rung = k - 1 if family == "affine" else number + 1
    moved = minus(score(group, k), [share * value for value in left_out_values(group, rung)])
    return minus(moved, start(group, k, family=family))
