"""The checks of rewards, K and other arguments, done once on a user's tensors.

Errors name the argument, its value and the allowed range. Values are checked on the CPU alone: on
other devices a check would wait for the device, and an invalid value becomes NaN instead.
"""

from __future__ import annotations

import math
import operator

import torch
from torch import Tensor

from maxk_lab.errors import LabError

# The value that replaces a trajectory weight of 0, relative to the largest of its group.
LEAST_WEIGHT = 1e-200
# float64 is not exact for whole numbers beyond this.
LARGEST_WHOLE = 2**53
_DTYPES = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}


def check_rewards(rewards: Tensor, name: str = "rewards", *, least_n: int = 1) -> int:
    """Return the number n of samples of finite rewards `[..., n]`.

    Raises `TypeError` for anything but a tensor. Raises `LabError` for a scalar, n < `least_n`,
    sparse tensors, complex or 8-bit floating-point numbers, and whole numbers beyond 2^53. On the
    CPU it also raises if a reward, or the difference of two rewards of a group, is not finite.
    """
    check_real(rewards, name, "of shape [..., n]")
    if rewards.dim() == 0 or rewards.shape[-1] < least_n:
        raise LabError(
            f"{name} must have shape [..., n] with n >= {least_n}, got shape {list(rewards.shape)}"
        )
    values = rewards.detach()
    if values.device.type != "cpu" or not values.numel():
        return int(rewards.shape[-1])
    if not values.is_floating_point():
        check_whole(values, name)
        return int(rewards.shape[-1])
    # One fast pass over all groups suffices if all is finite: NaN is in both extremes.
    low, high = values.aminmax()
    if not math.isfinite(high.item() - low.item()):
        check_values(values, values == values, f"{name} must be finite")
        low, high = (end.double() for end in values.aminmax(dim=-1))
        if not bool(torch.isfinite(high - low).all()):
            raise LabError(
                f"{name} of a group must span less than {torch.finfo(torch.float64).max:.3g}, got "
                "an overflow"
            )
    return int(rewards.shape[-1])


def check_real(values: Tensor, name: str, what: str) -> None:
    """Raise an error unless `values` is a dense tensor of real numbers with 16 bits or more."""
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor {what}, got {type(values).__name__}")
    if values.layout != torch.strided:
        raise LabError(f"{name} must be a dense tensor, got {values.layout}: call .to_dense()")
    if values.is_nested or values.is_meta:
        kind = "a nested tensor" if values.is_nested else "a tensor without data"
        raise LabError(f"{name} must be a dense tensor, got {kind}")
    if values.dtype not in _DTYPES:
        raise LabError(
            f"{name} must be floating-point with 16 bits or more, integer or boolean, got dtype "
            f"{values.dtype}"
        )


def check_whole(values: Tensor, name: str) -> None:
    """Raise `LabError` if integers on the CPU exceed 2^53, because float64 would round them."""
    if values.element_size() < 8:
        return
    numbers = values.numpy()  # torch has no minimum of uint64
    for end in (int(numbers.min()), int(numbers.max())):
        check_largest(end, name)


def check_largest(number: int, name: str) -> None:
    """Raise `LabError` for a whole number beyond 2^53."""
    if abs(number) > LARGEST_WHOLE:
        raise LabError(
            f"{name} must be whole numbers of at most 2^53 in size, got {number}: float64 would "
            "round it; subtract a constant first"
        )


def result_dtype(rewards: Tensor) -> torch.dtype:
    """Return the rewards' own dtype if it is floating-point, else float64."""
    return rewards.dtype if rewards.is_floating_point() else torch.float64


def round_to(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `values`, float64, as `dtype`. Raises `LabError` on the CPU if a value overflows."""
    rounded = values.to(dtype)
    if dtype == torch.float64 or rounded.device.type != "cpu" or not rounded.numel():
        return rounded
    # A finite sum proves finite weights, and is faster.
    finite = math.isfinite(rounded.sum().item())
    if not finite and bool((rounded.isinf() & values.isfinite()).any()):
        kind = str(dtype).split(".")[1]
        raise LabError(f"the results leave the range of {kind}: give rewards as float64")
    return rounded


def check_k(k: int, n: int, *, low: int = 1, below_n: bool = False) -> int:
    """Return `k` as an int. Raises `LabError` unless `low` <= k <= n (k < n if `below_n`)."""
    try:
        index = operator.index(k)
    except TypeError:
        index = -1
    if isinstance(k, bool) or not low <= index <= n - below_n:
        sign = "<" if below_n else "<="
        raise LabError(f"k must be an integer with {low} <= k {sign} n = {n}, got {k!r}")
    return index


def check_values(
    values: Tensor, right: Tensor, rule: str, *, fill: float | None = torch.nan
) -> Tensor:
    """Return `values` if all are finite and `right` is True.

    Other values raise a `LabError` on the CPU, and become `fill` on other devices.
    """
    right = right & torch.isfinite(values)
    if values.device.type != "cpu":
        return values if fill is None else torch.where(right, values, fill)
    if not bool(right.all()):
        raise LabError(f"{rule}, got {values[~right][0].item()}")
    return values


def check_binary(rewards: Tensor) -> Tensor:
    """Return rewards `[..., n]` that are 0 or 1, in float64, without gradient."""
    values = rewards.detach().double()
    return check_values(values, (values == 0) | (values == 1), "rewards must be 0 or 1 here")


def check_ratios(ratios: Tensor, rewards: Tensor) -> Tensor:
    """Return importance ratios of the shape of rewards `[..., n]`, positive and finite, float64."""
    values = _like_rewards(ratios, rewards, "ratios")
    return check_values(values, values > 0, "ratios must be positive and finite")


def check_trajectory_weights(g: Tensor, rewards: Tensor) -> Tensor:
    """Return trajectory weights `g` `[..., n]` in float64, divided by the group's largest.

    A 0 becomes `LEAST_WEIGHT`, which is negligible next to a positive g. If all samples of a mean
    have g = 0, the mean is unweighted. On other devices than the CPU, an invalid g makes the whole
    group NaN.
    """
    values = _like_rewards(g, rewards, "g")
    low, high = values.amin(dim=-1, keepdim=True), values.amax(dim=-1, keepdim=True)
    # A NaN is in both extremes.
    fine = (low >= 0) & (high < torch.inf)
    if values.device.type == "cpu" and not bool(fine.all()):
        check_values(values, values >= 0, "g must be finite and not negative")
    scale = torch.where(fine, torch.where(high > 0, high, 1.0), torch.nan)
    return (values / scale).clamp(min=LEAST_WEIGHT)


def _like_rewards(values: Tensor, rewards: Tensor, name: str) -> Tensor:
    check_real(values, name, "of the shape of rewards")
    if values.shape != rewards.shape:
        raise LabError(
            f"{name} must have the shape of rewards {list(rewards.shape)}, got {list(values.shape)}"
        )
    return values.detach().double()


def check_coefficients(coefficients: Tensor, rewards: Tensor, count: int) -> Tensor:
    """Return finite coefficients `[..., count]`, which broadcast over the groups, in float64."""
    check_real(coefficients, "coefficients", f"of shape [..., {count}]")
    groups, shape = rewards.shape[:-1], coefficients.shape
    sizes = zip(reversed(shape[:-1]), reversed(groups), strict=False)
    fits = shape[-1:] == (count,) and len(shape) <= len(groups) + 1
    if not (fits and all(size in (1, group) for size, group in sizes)):
        raise LabError(
            f"coefficients must be [..., {count}] over the leading dimensions of rewards "
            f"{list(rewards.shape)}, got shape {list(shape)}"
        )
    values = coefficients.detach().double()
    return check_values(values, values == values, "coefficients must be finite")
