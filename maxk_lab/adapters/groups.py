"""Advantages of a flat batch: rewards in any order, groups of any size, missing rewards.

Trainers average their loss over sequences, and the weights w of a group carry the factor 1/n. So an
advantage is m w, where m of the n samples of the group have a reward. This module imports only
NumPy, torch and `maxk_lab.estimators`.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from maxk_lab.errors import LabError, LabWarning
from maxk_lab.estimators import maxk_curve
from maxk_lab.estimators.by_name import groups_by_size, usable_weights
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.estimators.method import Method

SmallGroups = Literal["raise", "zero"]


def grouped_advantages(
    rewards: Any,
    groups: Any,
    *,
    k: int | None = None,
    estimator: str = "maxk",
    baseline: str | None = None,
    lengths: Any = None,
    small_groups: SmallGroups = "raise",
) -> Any:
    """Return the advantages of a flat batch, for a loss that is averaged over sequences.

    rewards `[N]`: a tensor, an array or a list; None, NaN and masked entries are missing rewards.
    groups `[N]`: a key for each sample, equal for samples of one prompt under one policy. The order
    is free, and groups may differ in size. `estimator`, `baseline` and `k` are as in
    `maxk_lab.advantages`; `lengths` `[N]` are for baselines that weigh by length.

    Returns `[N]`: m w for the m samples of a group with a reward, and 0 for samples without. The
    result is a tensor with the device and floating type of `rewards`, or an array. Raises
    `LabError` for infinite rewards, for a pair that needs more than rewards, and for a group that
    is too small for the pair; with `small_groups="zero"` such a group has advantages of 0.
    """
    weighting = Weighting.chosen(k=k, estimator=estimator, baseline=baseline, lengths=lengths)
    return weighting.advantages(rewards, groups, lengths=lengths, small_groups=small_groups)


def grouped_curve(rewards: Any, groups: Any, ks: Sequence[int]) -> Tensor:
    """Return the unbiased estimates of J_K of every group, [groups, ks], in order of appearance.

    rewards and groups are as in `grouped_advantages`. NaN if fewer than K samples of a group have a
    reward. Raises `LabError` for a K below 1.
    """
    if min(ks, default=1) < 1:
        raise LabError(f"every K must be at least 1, got {min(ks)}")
    batch = _Batch.of(rewards, groups)
    curve = torch.full((len(batch.values), len(ks)), torch.nan, dtype=torch.float64)
    for rows, columns in groups_by_size(batch.usable, lambda size: None):
        values = maxk_curve(batch.values[rows.unsqueeze(1), columns])
        for at, k in enumerate(ks):
            if k <= values.shape[1]:
                curve[rows, at] = values[:, k - 1]
    return curve


# Options of generation that change the distribution of samples → the values that do not.
_TRUNCATES = {"top_p": (None, 1.0), "top_k": (None, 0, -1), "min_p": (None, 0.0)}
_TRUNCATES["repetition_penalty"] = (None, 1.0)


def warn_of_truncation(options: Mapping[str, Any]) -> None:
    """Warn of options of generation that log-probabilities do not follow."""
    changed = [
        f"{name}={options[name]!r}"
        for name, allowed in _TRUNCATES.items()
        if name in options and options[name] not in allowed
    ]
    if changed:
        warnings.warn(
            f"{', '.join(changed)}: samples come from another distribution than the "
            "log-probabilities, so the step is not the gradient of the sampled Max@K; use "
            "top_p=1, no top_k, no min_p and repetition_penalty=1",
            LabWarning,
            stacklevel=4,
        )


@dataclass(frozen=True)
class Weighting:
    """An estimator with its baseline and K, as an adapter applies it to groups."""

    method: Method

    @classmethod
    def chosen(
        cls,
        *,
        k: int | None,
        estimator: str = "maxk",
        baseline: str | None = None,
        n: int | None = None,
        lengths: Any = None,
        centred_by: str = "",
    ) -> Weighting:
        """Return the weighting of these names.

        n: the size of the trainer's groups, None if it is unknown. lengths: None if samples have no
        lengths. centred_by: the setting that has subtracted the mean of the rewards, or empty; then
        only shift-invariant rows are right. Raises `LabError` for invalid names and numbers.
        """
        row = choose_estimator(estimator).row
        if k is None and row.fixed_k is None:
            raise LabError(f"estimator {estimator} needs k, the number of samples to keep the best")
        if k is not None:
            k = _as_whole_k(k)
        if row.fixed_k is not None and k not in (None, row.fixed_k):
            message = f"{row.name} has K = {row.fixed_k}: k = {k} changes nothing"
            warnings.warn(message, LabWarning, stacklevel=3)
        method = Method.parse(estimator, baseline or row.default_baseline, 1 if k is None else k)
        name = f"{method.estimator.name} with {method.baseline.name}"
        lacking = method.needed_beside_rewards
        if method.needed_weight == "length" and lengths is not None:
            lacking = ""
        if lacking:
            raise LabError(f"{name} needs {lacking}, and a batch of rewards has none")
        if centred_by and not method.is_shift_invariant:
            raise LabError(
                f"{name} depends on the level of the rewards, but {centred_by} has subtracted "
                "their mean: use a shift-invariant baseline, such as centred or subloo"
            )
        problem = method.pair_refusal if n is None else method.refusal(n)
        if problem is not None:
            raise LabError(problem + ("" if n is None else ", the samples of a group"))
        return cls(method)

    def keeps_equal_groups(self, n: int) -> bool:
        """Return whether a group of n equal rewards has nonzero weights."""
        weights = usable_weights(self.method, torch.ones(1, n).double(), torch.ones(1, n).bool())[0]
        return bool((weights.abs() > 1e-12).any())

    def curve_ks(self, most: int) -> list[int]:
        """Return the values of K to log: the trained K and the powers of 2, up to `most`."""
        powers = (2**i for i in range(most.bit_length()))
        return sorted({*powers, min(most, self.method.k)})

    def metrics(self, rewards: Any, groups: Any, ks: Sequence[int]) -> dict[str, float]:
        """Return the numbers of a batch to log, for increasing `ks`.

        `max@K`: the mean of `grouped_curve` over the groups with enough rewards for the largest K
        that any group reaches, the same groups at every K. `maxk/too_few_rewards`: the share of
        groups too small for the pair.
        """
        curve, sizes = grouped_curve(rewards, groups, ks), _Batch.of(rewards, groups).usable.sum(1)
        lengths = curve.isfinite().sum(1)
        most = int(lengths.max()) if len(lengths) else 0
        means = curve[lengths == most, :most].mean(0).tolist()
        refused = sum(self.method.refusal(m) is not None for m in sizes.tolist())
        numbers = {f"max@{k}": value for k, value in zip(ks, means, strict=False)}
        return numbers | {"maxk/too_few_rewards": refused / max(1, len(sizes))}

    def advantages(
        self,
        rewards: Any,
        groups: Any,
        *,
        lengths: Any = None,
        small_groups: SmallGroups = "raise",
    ) -> Any:
        """Return the advantages of a flat batch; see `grouped_advantages`."""
        if small_groups not in get_args(SmallGroups):
            raise LabError(f"small_groups must be raise or zero, got {small_groups!r}")
        batch, method = _Batch.of(rewards, groups), self.method
        numbers = {}
        if lengths is not None and method.needed_weight == "length":
            numbers = {"length": batch.table(_flat(lengths, "lengths"))}
        if not len(batch.rows):
            return _like(batch.rows.double(), rewards)
        weights, refused = usable_weights(
            method, batch.values, batch.usable, trajectory_weights=numbers
        )
        sizes = batch.usable.sum(1, keepdim=True)
        if small_groups == "raise" and bool(refused.any()):
            m = int(sizes[refused].max())
            raise LabError(
                f"{int(refused.sum())} of {len(refused)} groups have {m} samples with a reward or "
                f'fewer: {method.refusal(m)}; small_groups="zero" gives them advantages of 0'
            )
        if bool(refused.all()) and len(refused):
            message = f"all advantages are 0: {method.refusal(int(sizes.max()))} in every group"
            warnings.warn(message, LabWarning, stacklevel=3)
        weights = sizes * weights
        return _like(weights[batch.rows, batch.columns], rewards)


@dataclass(frozen=True)
class _Batch:
    """A flat batch as a table of groups: values and usable [groups, n], the places of samples."""

    values: Tensor
    usable: Tensor
    rows: Tensor
    columns: Tensor

    @classmethod
    def of(cls, rewards: Any, groups: Any) -> _Batch:
        """Return the table of a flat batch, on the CPU in float64."""
        flat = _flat(rewards, "rewards")
        if bool(flat.isinf().any()):
            raise LabError("rewards must be finite; NaN or None is a missing reward")
        names = _names(groups)
        if len(names) != len(flat):
            raise LabError(f"{len(flat)} rewards need as many groups, got {len(names)}")
        numbers: dict[Any, int] = {}
        rows = torch.tensor([numbers.setdefault(name, len(numbers)) for name in names]).long()
        sizes = rows.bincount()
        order = rows.argsort(stable=True)
        columns = torch.empty_like(rows)
        columns[order] = torch.arange(len(rows)) - (sizes.cumsum(0) - sizes)[rows[order]]
        shape = len(numbers), max(sizes.tolist(), default=0)
        values = torch.full(shape, torch.nan, dtype=torch.float64)
        values[rows, columns] = flat
        return cls(values.nan_to_num(0.0), ~values.isnan(), rows, columns)

    def table(self, flat: Tensor) -> Tensor:
        """Return numbers of the samples `[N]` at the places of their rewards in the table."""
        if flat.shape != self.rows.shape:
            raise LabError(f"{len(self.rows)} samples need as many lengths, got {len(flat)}")
        table = torch.zeros_like(self.values)
        table[self.rows, self.columns] = flat
        return table


def _as_whole_k(k: Any) -> int:
    """Return `k` as an int. Raises `LabError` unless it is a whole number of at least 1."""
    if isinstance(k, bool) or not hasattr(k, "__index__") or operator.index(k) < 1:
        raise LabError(f"k must be a whole number of at least 1, got {k!r}")
    return operator.index(k)


def _names(groups: Any) -> list[Any]:
    """Return the keys of the groups `[N]`; a row of numbers, as of tokens, becomes a tuple."""
    try:
        names = groups.tolist() if hasattr(groups, "tolist") else list(groups)
        names = [name.tolist() if isinstance(name, Tensor) else name for name in names]
        names = [tuple(name) if isinstance(name, list) else name for name in names]
        _ = set(names)
    except TypeError:
        raise LabError("groups must be one name per sample, each a key or a row of keys") from None
    return names


def _flat(numbers: Any, name: str) -> Tensor:
    """Return numbers `[N]` as float64 on the CPU, None and masked entries as NaN."""
    try:
        if isinstance(numbers, Tensor):
            flat = numbers.detach().cpu().double()
        else:
            table = np.ma.array(numbers, dtype=np.float64, copy=True)
            flat = torch.from_numpy(table.filled(np.nan))
    except (TypeError, ValueError):
        raise LabError(f"{name} must be numbers, one per sample") from None
    if flat.dim() != 1:
        raise LabError(f"{name} must be flat, one number per sample, got {list(flat.shape)}")
    return flat


def _like(advantages: Tensor, rewards: Any) -> Any:
    """Return advantages as a tensor on the device of the rewards, or as an array."""
    if isinstance(rewards, Tensor):
        dtype = rewards.dtype if rewards.is_floating_point() else advantages.dtype
        return advantages.to(rewards.device, dtype)
    kind = getattr(rewards, "dtype", None)
    return advantages.numpy().astype(kind if kind in (np.float32, np.float16) else np.float64)
