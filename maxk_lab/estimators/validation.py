"""The checks of rewards and K; errors name the argument, its value and the allowed range."""

from __future__ import annotations

import math
import operator

import torch
from torch import Tensor

from maxk_lab.errors import LabError

# What a trajectory weight of 0 counts as, next to the largest of its group.
LEAST_WEIGHT = 1e-200


def check_rewards(rewards: Tensor, name: str = "rewards", *, least_n: int = 1) -> int:
    """The number n of samples of rewards `[..., n]`.

    Raises `TypeError` for anything but a tensor and `ValueError` for a scalar, n < `least_n` or
    complex numbers.
    """
    if not isinstance(rewards, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor of shape [..., n], got {type(rewards).__name__}"
        )
    if rewards.dim() == 0 or rewards.shape[-1] < least_n:
        raise LabError(
            f"{name} must have shape [..., n] with n >= {least_n}, got shape {list(rewards.shape)}"
        )
    if rewards.is_complex():
        raise LabError(
            f"{name} must be floating-point, integer or boolean, got dtype {rewards.dtype}"
        )
    return int(rewards.shape[-1])


def check_k(k: int, n: int, *, low: int = 1, below_n: bool = False, most: int | None = None) -> int:
    """`k` as an int.

    Raises `ValueError` unless `low` <= k <= n (k < n if `below_n`) and k <= `most`.
    """
    limit = n - 1 if below_n else n
    allowed = f"an integer with {low} <= k {'<' if below_n else '<='} n = {n}"
    if most is not None and most < limit:
        limit, allowed = most, f"{low}" if most == low else f"an integer with {low} <= k <= {most}"
    try:
        whole = operator.index(k)
    except TypeError:
        raise LabError(f"k must be {allowed}, got {k!r}") from None
    if isinstance(k, bool) or not low <= whole <= limit:
        raise LabError(f"k must be {allowed}, got {k!r}")
    return whole


def check_finite(low: Tensor, high: Tensor) -> None:
    """Raise `ValueError` where a group's least or greatest reward `[...]` is not finite.

    So it does where their difference overflows.

    Sorting puts minus infinity first, infinity and NaN last, so the two ends tell everything. Only
    CPU tensors are checked: elsewhere the check would wait for the device, and the whole group's
    weights come out as NaN instead.
    """
    # A finite sum, one fast pass, has finite terms; that of huge terms may overflow, hence the
    # second look.
    if low.device.type != "cpu" or math.isfinite((high - low).detach().sum()):
        return
    if bool(torch.isfinite(high - low).all()):
        return
    for end in (high, low):
        wrong = end[~torch.isfinite(end)]
        if wrong.numel():
            raise LabError(f"rewards must be finite, got {wrong.flatten()[0].item()}")
    raise LabError(
        f"rewards of a group must span less than {torch.finfo(torch.float64).max:.3g}, got an "
        "overflow"
    )


def below_top(rewards: Tensor) -> Tensor:
    """Rewards `[..., n]` minus their group's maximum, float64, no gradient: 0 for the best.

    Raises `ValueError` where a CPU reward is not finite.
    """
    values = rewards.detach().double()
    top = values.amax(dim=-1, keepdim=True)
    check_finite(values.amin(dim=-1, keepdim=True), top)
    return values - top


def check_binary(rewards: Tensor) -> Tensor:
    """Rewards `[..., n]` that are 0 or 1, in float64, with no gradient.

    Raises `ValueError` for any other reward on the CPU; elsewhere it becomes NaN.
    """
    values = rewards.detach().double()
    binary = (values == 0) | (values == 1)
    if values.device.type != "cpu":
        return torch.where(binary, values, torch.nan)
    if not bool(binary.all()):
        raise LabError(f"rewards must be 0 or 1 here, got {values[~binary][0].item()}")
    return values


def check_trajectory_weights(g: Tensor, rewards: Tensor) -> Tensor:
    """Trajectory weights `g` in float64, relative to the group's largest.

    g has the shape of rewards `[..., n]`.

    A 0 becomes `LEAST_WEIGHT`: it counts for nothing next to a positive g, and where all that a
    mean averages over are 0, the mean is the plain one.

    Raises `TypeError` for anything but a tensor and `ValueError` for another shape and, on the CPU,
    where a g is not finite or negative. Elsewhere what is wrong becomes NaN.
    """
    if not isinstance(g, Tensor):
        raise TypeError(f"g must be a torch.Tensor of the shape of rewards, got {type(g).__name__}")
    if g.shape != rewards.shape:
        raise LabError(
            f"g must have the shape of rewards {list(rewards.shape)}, got {list(g.shape)}"
        )
    if g.is_complex():
        raise LabError(f"g must be floating-point, integer or boolean, got dtype {g.dtype}")
    own = g.detach().to(torch.float64, copy=True)
    low, high = own.amin(dim=-1, keepdim=True), own.amax(dim=-1, keepdim=True)
    # NaN is neither, and shows in both ends.
    fine = (low >= 0) & (high < torch.inf)
    if own.device.type == "cpu" and not bool(fine.all()):
        wrong = own[~((own >= 0) & (own < torch.inf))]
        raise LabError(f"g must be finite and not negative, got {wrong[0].item()}")
    own.div_(torch.where(fine, torch.where(high > 0, high, 1.0), torch.nan))
    return own.clamp_(min=LEAST_WEIGHT)
