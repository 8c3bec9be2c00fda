"""Sorted groups of rewards: by `torch.sort`, and faster to the same order for float32 on CPUs."""

from __future__ import annotations

import torch
from torch import Tensor

_LOW_HALF = 0xFFFFFFFF


def sort_groups(rewards: Tensor, *, stable_sort: bool) -> tuple[Tensor, Tensor]:
    """Sort floating-point rewards `[..., n]`: the values as float64, and the order, int64.

    Both are `[..., n]`, ascending.
    """
    single = rewards.dtype in (torch.float32, torch.float16, torch.bfloat16)
    if single and rewards.device.type == "cpu" and not rewards.requires_grad:
        return _sort_keys(rewards.float())
    values, order = torch.sort(rewards, dim=-1, stable=stable_sort)
    return values.double(), order


def _sort_keys(rewards: Tensor) -> tuple[Tensor, Tensor]:
    """Sort float32 `[..., n]` stably as whole numbers: the reward above, the position below.

    numpy sorts int64 with vector instructions where the processor has them, several times as fast
    as `torch.sort` sorts pairs; as no two keys of a group are equal, the order depends on no
    algorithm. NaN sorts to either end.
    """
    position = torch.arange(rewards.shape[-1])
    # Adding 0 turns -0.0, whose bits differ, into 0.0: they are a tie.
    keys = (
        _order_of_bits((rewards + 0.0).view(torch.int32))
        .long()
        .bitwise_left_shift_(32)
        .bitwise_or_(position)
    )
    keys.numpy().sort(axis=-1)
    order = keys & _LOW_HALF
    values = _order_of_bits((keys >> 32).int()).view(torch.float32)
    return values.double(), order


def _order_of_bits(bits: Tensor) -> Tensor:
    """The bits of float32 as int32 that are ordered as the numbers are; its own inverse.

    Floats are sign and magnitude: among negative ones the greater bits are the smaller number.
    """
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
