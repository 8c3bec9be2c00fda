"""What rewards and K must be, said once; the errors name the argument, its value and the allowed range."""

from __future__ import annotations

import math
import operator

import torch
from torch import Tensor


def check_rewards(rewards: Tensor, name: str = "rewards") -> int:
    """The number n of samples of rewards `[..., n]`.

    Raises `TypeError` for anything but a tensor and `ValueError` for a scalar, n = 0 or complex numbers.
    """
    if not isinstance(rewards, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor of shape [..., n], got {type(rewards).__name__}")
    if rewards.dim() == 0 or rewards.shape[-1] == 0:
        raise ValueError(f"{name} must have shape [..., n] with n >= 1, got shape {list(rewards.shape)}")
    if rewards.is_complex():
        raise ValueError(f"{name} must be floating-point, integer or boolean, got dtype {rewards.dtype}")
    return int(rewards.shape[-1])


def check_k(k: int, n: int, *, low: int = 1, below_n: bool = False) -> int:
    """`k` as an int. Raises `ValueError` unless `low` <= k <= n (k < n if `below_n`)."""
    allowed = f"an integer with {low} <= k {'<' if below_n else '<='} n = {n}"
    try:
        whole = operator.index(k)
    except TypeError:
        raise ValueError(f"k must be {allowed}, got {k!r}") from None
    if isinstance(k, bool) or not low <= whole <= (n - 1 if below_n else n):
        raise ValueError(f"k must be {allowed}, got {k!r}")
    return whole


def check_finite(low: Tensor, high: Tensor) -> None:
    """Raise `ValueError` where a group's least or greatest reward (`[...]`) shows NaN, infinity or overflow.

    Sorting puts minus infinity first, infinity and NaN last, so the two ends tell everything. Only CPU
    tensors are checked: elsewhere the check would wait for the device, and the whole group's weights come
    out as NaN instead.
    """
    # A finite sum, one fast pass, has finite terms; that of huge terms may overflow, hence the second look.
    if low.device.type != "cpu" or math.isfinite((high - low).detach().sum()):
        return
    if bool(torch.isfinite(high - low).all()):
        return
    for end in (high, low):
        wrong = end[~torch.isfinite(end)]
        if wrong.numel():
            raise ValueError(f"rewards must be finite, got {wrong.flatten()[0].item()}")
    raise ValueError(
        f"rewards of a group must span less than {torch.finfo(torch.float64).max:.3g}, got an overflow"
    )
