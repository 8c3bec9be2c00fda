"""Weights of an estimator and a baseline by their names, from tensors, arrays or lists.

Unusable samples do not enter the baseline of any other sample.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from maxk_lab.errors import LabError, shown
from maxk_lab.estimators import checks
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.estimators.method import Method


class Array(Protocol):
    """A NumPy array, or an object that converts to an array: a pandas column, a JAX array."""

    def __array__(self) -> Any:
        """Return the NumPy array."""


Numbers = Array | Sequence[Any]


def advantages(
    rewards: Tensor | Numbers,
    *,
    estimator: str = "maxk",
    baseline: str | Callable[..., Any] | None = None,
    k: int | None = None,
    usable: Tensor | Numbers | None = None,
    trajectory_weights: Mapping[str, Tensor | Numbers] | None = None,
    weight_normalization: str = "none",
    ratios: Tensor | Numbers | None = None,
    coefficients: Tensor | Numbers | None = None,
) -> Tensor:
    """Return the weights w of the gradient estimate sum_i w_i grad log pi(tau_i), as a tensor.

    The estimate is a sum: w carries the factor 1/n, so the loss of a group is -(w *
    log_probs).sum(). The advantages of GRPO and similar trainers are n w.

    rewards: `[..., n]`, i.i.d. along n, higher is better; a tensor, a NumPy array, or lists, whose
    numbers count as float64. Returns `[..., n]` on the rewards' device, in their floating type
    (float64 for whole numbers and booleans), without a gradient.

    `estimator` and `baseline` are names that `maxk-lab list estimators` and `maxk-lab list
    baselines` print, with a parameter in brackets if the row has a parameter (`affine[0.5]`), or
    `module:name`. `baseline` may also be a function of (rewards, k) that returns weights. The
    default baseline is `centred`, or `none` for an estimator without baseline, such as `grpo`. `k`
    is the K of J_K = E[max of K rewards], the number of samples whose best will be used. Omit `k`
    only for an estimator with a fixed K, such as `reinforce` with K = 1.

    A reward may be missing: None in a list, a masked entry of a NumPy array, or False in `usable`,
    `[..., n]`. The m remaining samples of a group are weighted as a group of m, and missing samples
    have weight 0. If m samples are too few for the pair, all weights of the group are 0. A reward
    of NaN is an error (on a GPU, where a check would cost time, all weights of its group become
    NaN).

    The other arguments are those of `Method.weights`. Raises `LabError` for an unknown name, a
    missing `k`, a `k` that the pair does not accept at this n, rewards that are not finite, and any
    other invalid argument.
    """
    if not isinstance(trajectory_weights, Mapping | None):
        raise LabError(
            f"trajectory_weights must be a mapping from names, got {shown(trajectory_weights)}"
        )
    method = _method_of(estimator, baseline, k)
    values, present = _as_rewards(rewards)
    checks.check_real(values, "rewards", "of shape [..., n]")
    if usable is not None:
        present = _mask(usable, values) & (present if present is not None else True)

    def like_rewards(numbers: Tensor | Numbers | None, name: str) -> Tensor | None:
        return None if numbers is None else _as_tensor(numbers, name).to(values.device)

    options: dict[str, Any] = {
        "trajectory_weights": {
            name: like_rewards(g, f"trajectory_weights[{name!r}]")
            for name, g in (trajectory_weights or {}).items()
        },
        "weight_normalization": weight_normalization,
        "ratios": like_rewards(ratios, "ratios"),
        "coefficients": like_rewards(coefficients, "coefficients"),
    }
    return _weights_of(method, values, present, options)


def _method_of(estimator: str, baseline: str | Callable[..., Any] | None, k: int | None) -> Method:
    """Return the method with its default baseline. Raises `LabError` if K is missing."""
    row = choose_estimator(estimator).row
    if k is None and row.fixed_k is None:
        raise LabError(
            f"estimator {estimator} needs k, the number of samples whose best is used: give "
            'k=8, for example; k=1 is the plain policy gradient, and so is estimator="reinforce"'
        )
    baseline = row.default_baseline if baseline is None else baseline
    return Method.parse(estimator, baseline, 1 if k is None else k)


def _weights_of(
    method: Method, rewards: Tensor, usable: Tensor | None, options: Mapping[str, Any]
) -> Tensor:
    """Return the weights of rewards `[..., n]`, some of them unusable."""
    if usable is not None:
        method.check_size(checks.check_rewards(rewards.where(usable, torch.zeros_like(rewards))))
        groups = rewards.to(checks.result_dtype(rewards))
        return usable_weights(method, groups, usable, **options)[0]
    try:
        return method.weights(rewards, **options)
    except LabError as error:
        if not bool(rewards.isnan().any()):
            raise
        raise LabError(
            f"{error}: where a trajectory has no reward, say so, with None in a list or with "
            "usable=~rewards.isnan()"
        ) from None


def _mask(usable: Tensor | Numbers, rewards: Tensor) -> Tensor:
    """Return the mask of usable rewards `[..., n]` as booleans on the rewards' device."""
    values = _as_tensor(usable, "usable")
    checks.check_real(values, "usable", "of the shape of rewards")
    # On a GPU, a check of the values would cost time.
    if not values.is_cuda and bool(((values != 0) & (values != 1)).any()):
        raise LabError(f"usable must be True and False, or 1 and 0, got {shown(usable)}")
    if values.shape != rewards.shape:
        raise LabError(
            f"usable must have the shape of rewards {list(rewards.shape)}, got {list(values.shape)}"
        )
    return values.bool().to(rewards.device)


def _joined(numbers: Any) -> Any:
    """Return a list of masked arrays as one masked array; other values unchanged."""
    if isinstance(numbers, list | tuple) and any(map(np.ma.isMaskedArray, numbers)):
        return np.ma.array(numbers)
    return numbers


def _as_tensor(numbers: Tensor | Numbers, name: str) -> Tensor:
    """Return numbers as a tensor: tensors unchanged, arrays in their type, lists as float64."""
    if isinstance(numbers, torch.Tensor):
        return numbers
    numbers = _joined(numbers)
    if np.ma.is_masked(numbers):
        raise LabError(f"{name} must have no masked entries")
    try:
        if hasattr(numbers, "__array__"):
            return torch.from_numpy(numbers.__array__().copy())
        return torch.tensor(numbers, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise LabError(
            f"{name} must be numbers in a tensor, an array, or lists of equal lengths, "
            f"got {shown(numbers)}"
        ) from None


def _as_rewards(numbers: Tensor | Numbers) -> tuple[Tensor, Tensor | None]:
    """Return rewards, and the mask of present rewards, or None if no reward is None."""
    numbers = _joined(numbers)
    if np.ma.is_masked(numbers):
        masked = cast("np.ma.MaskedArray[Any, Any]", numbers)
        return _as_tensor(masked.filled(0), "rewards"), torch.from_numpy(~masked.mask)
    if not isinstance(numbers, torch.Tensor):
        try:
            table = np.asarray(numbers, dtype=object if isinstance(numbers, list | tuple) else None)
        except ValueError:  # lists of unequal lengths are refused below
            return _as_tensor(numbers, "rewards"), None
        if table.dtype.hasobject:
            present = np.array([entry is not None for entry in table.flat]).reshape(table.shape)
            checks.check_largest(max(map(_whole_size, table.flat), default=0), "rewards")
            filled = _as_tensor(np.where(present, table, 0.0).tolist(), "rewards")
            return filled, None if present.all() else torch.from_numpy(present)
    return _as_tensor(numbers, "rewards"), None


def _whole_size(entry: Any) -> int:
    """Return the absolute value of a whole number of Python, NumPy or torch; else 0."""
    try:
        return abs(operator.index(entry))
    except TypeError:
        return 0


def usable_weights(
    method: Method,
    rewards: Tensor,
    usable: Tensor,
    *,
    weight_normalization: str = "none",
    **numbers: Any,
) -> tuple[Tensor, Tensor]:
    """Return the weights of groups of n samples `[..., n]`, and the mask of refused groups `[...]`.

    rewards and usable are `[..., n]`; the other arguments are those of `Method.weights`.

    The m usable samples of a group are weighted as a group of m (their weights carry 1/m), so
    unusable samples enter no baseline. The weights of unusable samples are 0. If the pair (or
    `zscore`: m = 1) refuses m samples, all weights of the group are 0. With `centred`, the weights
    sum to 0, and the estimate is unbiased for J_K *among usable trajectories*. With other
    baselines, there is also a pull towards usable trajectories, in proportion to the sum. For
    `shrinkage`, the other prompts are those with equally many usable samples.
    """
    if method.uses_other_prompts and rewards.dim() > 2 and rewards.numel():
        # Only the first dimension is prompts.
        options = numbers | {"trajectory_weights": {}, "weight_normalization": weight_normalization}
        ratios, parts = numbers.get("ratios"), []
        for i in range(rewards.shape[1]):
            options["ratios"] = None if ratios is None else ratios[:, i]
            parts.append(usable_weights(method, rewards[:, i], usable[:, i], **options))
        values, refused = (torch.stack(each, 1) for each in zip(*parts, strict=True))
        return values, refused

    def groups(values: Tensor) -> Tensor:
        size = values.shape[-1]
        return values.expand(*rewards.shape[:-1], size).reshape(-1, size)

    def weigh(rows: Tensor, columns: Tensor) -> Tensor:
        def select(name: str, values: Any) -> Any:
            if isinstance(values, Mapping):
                return {kind: select(name, g) for kind, g in values.items()}
            if values is None:
                return None
            return groups(values)[rows if name == "coefficients" else (rows.unsqueeze(1), columns)]

        return method.weights(
            select("rewards", rewards),
            weight_normalization=weight_normalization,
            **{name: select(name, values) for name, values in numbers.items()},
        )

    least, weights = 2 if weight_normalization == "zscore" else 1, groups(torch.zeros_like(rewards))
    unusable = torch.ones(len(weights), dtype=torch.bool, device=weights.device)
    for rows, columns in groups_by_size(groups(usable), method.refusal, least=least):
        unusable[rows] = False
        weights[rows.unsqueeze(1), columns] = weigh(rows, columns).to(weights)
    return weights.view(rewards.shape), unusable.view(rewards.shape[:-1])


def groups_by_size(
    usable: Tensor, refusal: Callable[[int], str | None], *, least: int = 1
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (rows, columns) of the groups with m usable samples, for every accepted m.

    usable is `[P, n]`; columns `[rows, m]` are the usable samples of these groups.
    """
    sizes = usable.sum(1)
    for size in sorted(set(sizes.tolist())):
        if size < least or refusal(size) is not None:
            continue
        rows = (sizes == size).nonzero().squeeze(1)
        yield rows, (~usable[rows]).long().argsort(dim=1, stable=True)[:, :size]
