"""The weights of any pair of the catalogue by its names, in one call, for numbers of any kind.

Samples that are not usable touch no sibling's baseline.
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
    """An array of NumPy, or what turns into one: a column of pandas, an array of JAX."""

    def __array__(self) -> Any:
        """Return the array of NumPy."""


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

    It is a sum: w carries the factor 1/n, so that the loss of a group is -(w * log_probs).sum().
    n w is what GRPO and others call advantages.

    rewards: `[..., n]`, i.i.d. along n, higher is better; a tensor, a NumPy array, or lists, whose
    numbers count as float64. Returns `[..., n]` on their device, in their floating type (float64
    for whole numbers and booleans), without a gradient.

    `estimator` and `baseline` are names that `maxk-lab list estimators` and `maxk-lab list
    baselines` print, with a parameter in brackets where the row has one (`affine[0.5]`), or
    `module:name`; `baseline` may also be a function of (rewards, k) that gives weights. Without
    `baseline` it is `centred`, or `none` for an estimator that takes none, as `grpo`. `k` is the K
    of J_K = E[max of K rewards], the number of samples whose best will be used. Only an
    estimator that has a K of its own, as `reinforce` has 1, goes without.

    A reward may be missing: None in a list, a masked entry of a NumPy array, or False in `usable`,
    `[..., n]`. Of each group the m others are weighted as a group of m, and these have weight 0; so
    have all where m samples are too few for the pair. NaN is no reward: it is refused (on a GPU,
    where a look would cost time, its group becomes NaN).

    The other arguments are those of `Method.weights`. Raises `LabError` for an unknown name, a
    missing `k` or one that the pair does not take at this n, for rewards that are not finite, and
    for whatever else of its arguments cannot be used.
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
    """Return the method with its default baseline. Raises `LabError` where K is missing."""
    row = choose_estimator(estimator).row
    if k is None and row.fixed_k is None:
        raise LabError(
            f"estimator {estimator} needs k, the number of samples whose best is used: give "
            'k=8 or the like; k=1 is the plain policy gradient, and so is estimator="reinforce"'
        )
    baseline = row.default_baseline if baseline is None else baseline
    return Method.parse(estimator, baseline, 1 if k is None else k)


def _weights_of(
    method: Method, rewards: Tensor, usable: Tensor | None, options: Mapping[str, Any]
) -> Tensor:
    """Return the weights of rewards `[..., n]`, where some samples may not be usable."""
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
    """Which rewards `[..., n]` are usable, as booleans on their device."""
    values = _as_tensor(usable, "usable")
    checks.check_real(values, "usable", "of the shape of rewards")
    # On a GPU a look would cost time.
    if not values.is_cuda and bool(((values != 0) & (values != 1)).any()):
        raise LabError(f"usable must be True and False, or 1 and 0, got {shown(usable)}")
    if values.shape != rewards.shape:
        raise LabError(
            f"usable must have the shape of rewards {list(rewards.shape)}, got {list(values.shape)}"
        )
    return values.bool().to(rewards.device)


def _joined(numbers: Any) -> Any:
    """Return a list of masked arrays as one masked array, whose mask counts; all else as it is."""
    if isinstance(numbers, list | tuple) and any(map(np.ma.isMaskedArray, numbers)):
        return np.ma.array(numbers)
    return numbers


def _as_tensor(numbers: Tensor | Numbers, name: str) -> Tensor:
    """Numbers as a tensor: tensors as they are, arrays in their own type, lists as float64."""
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
    """Rewards, and which are there; None where no list has a None in place of a number."""
    numbers = _joined(numbers)
    if np.ma.is_masked(numbers):
        masked = cast("np.ma.MaskedArray[Any, Any]", numbers)
        return _as_tensor(masked.filled(0), "rewards"), torch.from_numpy(~masked.mask)
    if not isinstance(numbers, torch.Tensor):
        try:
            table = np.asarray(numbers, dtype=object if isinstance(numbers, list | tuple) else None)
        except ValueError:  # lists of unequal lengths, which are refused below
            return _as_tensor(numbers, "rewards"), None
        if table.dtype.hasobject:
            present = np.array([entry is not None for entry in table.flat]).reshape(table.shape)
            checks.check_largest(max(map(_whole_size, table.flat), default=0), "rewards")
            filled = _as_tensor(np.where(present, table, 0.0).tolist(), "rewards")
            return filled, None if present.all() else torch.from_numpy(present)
    return _as_tensor(numbers, "rewards"), None


def _whole_size(entry: Any) -> int:
    """Return the size of an entry that is a whole number, as of Python, NumPy or torch; else 0."""
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
    """Return the weights of groups of n samples, `[..., n]`, and which groups have none, `[...]`.

    rewards and usable are `[..., n]`; the other arguments are those of `Method.weights`.

    Of each group, the m usable samples are weighted as a group of m (their weights carry 1/m), so
    that the others enter no baseline; the others' weights are 0, and so are all weights of a group
    whose m the pair (or `zscore`: m = 1) refuses. With `centred`, whose weights sum to 0, the
    estimate is then unbiased for J_K *among usable trajectories*; with others there is also a pull
    towards being usable, of the size of the sum.
    """

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
    """Yield (rows, columns) of the groups with m usable samples, for every m that is not refused.

    usable is `[P, n]`; columns `[rows, m]` are the usable samples of these groups.
    """
    sizes = usable.sum(1)
    for size in sorted(set(sizes.tolist())):
        if size < least or refusal(size) is not None:
            continue
        rows = (sizes == size).nonzero().squeeze(1)
        yield rows, (~usable[rows]).long().argsort(dim=1, stable=True)[:, :size]
