"""Advantages of a flat batch: rewards in any order, in groups of any size, some of them missing.

Trainers average their loss over sequences, while the weights w of a group carry the factor 1/n: an
advantage is n w, or m w in a group of which m samples have a reward. Imports nothing but NumPy,
torch and `maxk_lab.estimators`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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
    """The advantages of a flat batch, on the scale of a loss that is averaged over sequences.

    rewards `[N]`: a tensor, an array or a list; None and NaN are missing rewards. groups `[N]`: the
    name of each sample's group (samples of one prompt under one policy), whatever can be a key; the
    order is free and groups may differ in size. `estimator`, `baseline` and `k` are those of
    `maxk_lab.advantages`; `lengths` `[N]` are for baselines that weigh by length.

    Returns `[N]`, m w of the m samples of a group that have a reward and 0 for the others: a tensor
    on the device and in the floating type of `rewards`, or an array. A group whose m the pair does
    not take raises `LabError`; with `small_groups="zero"` its advantages are 0. Raises `LabError`,
    too, for a pair that needs more than rewards, and for infinite rewards.
    """
    weighting = Weighting.chosen(k=k, estimator=estimator, baseline=baseline, lengths=lengths)
    return weighting.advantages(rewards, groups, lengths=lengths, small_groups=small_groups)


def grouped_curve(rewards: Any, groups: Any, ks: Sequence[int]) -> Tensor:
    """The unbiased estimates of J_K of every group, [groups, ks], in order of appearance.

    rewards and groups are those of `grouped_advantages`. NaN where fewer than K samples of a group
    have a reward. Raises `LabError` for a K below 1.
    """
    if min(ks, default=1) < 1:
        raise LabError(f"every K must be at least 1, got {min(ks)}")
    batch = _Batch.of(rewards, groups)
    curve = torch.full((len(batch.values), len(ks)), torch.nan, dtype=torch.float64)
    for rows, columns in groups_by_size(batch.usable, lambda size: None):
        whole = maxk_curve(batch.values[rows.unsqueeze(1), columns])
        for at, k in enumerate(ks):
            if k <= whole.shape[1]:
                curve[rows, at] = whole[:, k - 1]
    return curve


@dataclass(frozen=True)
class Weighting:
    """A pair of the catalogue that an adapter weighs groups with."""

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
        """The weighting of these names, or `LabError` for what can't be right.

        `n` is the size of the trainer's groups, if it is known. `lengths` is None where there are
        none. `centred_by` names who has subtracted the mean of the rewards, if somebody has: only
        rows that a shift of the rewards does not change are right then.
        """
        row = choose_estimator(estimator).row
        if k is None and row.fixed_k is None:
            raise LabError(f"estimator {estimator} needs k, the number of samples to keep the best")
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise LabError(f"k must be a whole number of at least 1, got {k!r}")
        if row.fixed_k is not None and k not in (None, row.fixed_k):
            said = f"{row.name} is of K = {row.fixed_k}: k = {k} changes nothing"
            warnings.warn(said, LabWarning, stacklevel=3)
        method = Method.parse(estimator, baseline or row.default_baseline, 1 if k is None else k)
        name = f"{method.estimator.name} with {method.baseline.name}"
        lacking = method.needed_beside_rewards
        if method.needed_weight == "length" and lengths is not None:
            lacking = ""
        if lacking:
            raise LabError(f"{name} needs {lacking}; a batch of rewards does not have that")
        if centred_by and not method.is_shift_invariant:
            raise LabError(
                f"{name} depends on the level of the rewards, but {centred_by} has subtracted "
                "their mean: take a row that a shift does not change, as centred or subloo"
            )
        problem = method.pair_refusal if n is None else method.refusal(n)
        if problem is not None:
            raise LabError(problem + ("" if n is None else ", the samples of a group"))
        return cls(method)

    def curve_ks(self, most: int) -> list[int]:
        """The Ks of a log: its own and the powers of 2, up to so many samples of a group."""
        powers = (2**i for i in range(most.bit_length()))
        return sorted({*powers, min(most, self.method.k)})

    def metrics(self, rewards: Any, groups: Any, ks: Sequence[int]) -> dict[str, float]:
        """The numbers to log of a batch, for Ks in their order.

        `max@K` is the mean of `grouped_curve` over the same groups at every K, those with the most
        rewards; `maxk/too_few_rewards` the share of groups whose advantages are therefore 0.
        """
        curve, sizes = grouped_curve(rewards, groups, ks), _Batch.of(rewards, groups).usable.sum(1)
        known = curve.isfinite().sum(1)
        most = int(known.max()) if len(known) else 0
        whole = curve[known == most, :most].mean(0).tolist()
        refused = sum(self.method.refusal(m) is not None for m in sizes.tolist())
        found = {f"max@{k}": value for k, value in zip(ks, whole, strict=False)}
        return found | {"maxk/too_few_rewards": refused / max(1, len(sizes))}

    def advantages(
        self,
        rewards: Any,
        groups: Any,
        *,
        lengths: Any = None,
        small_groups: SmallGroups = "raise",
    ) -> Any:
        """The advantages of a flat batch; see `grouped_advantages`."""
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
                f'fewer: {method.refusal(m)}; with small_groups="zero" they have advantages of 0'
            )
        if bool(refused.all()) and len(refused):
            said = f"all advantages are 0: {method.refusal(int(sizes.max()))} in every group"
            warnings.warn(said, LabWarning, stacklevel=3)
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
        """The table of a flat batch, on the CPU in float64."""
        flat = _flat(rewards, "rewards")
        if bool(flat.isinf().any()):
            raise LabError("rewards must be finite; NaN or None says that there is none")
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
        """More numbers of the samples `[N]`, placed as the rewards are."""
        if flat.shape != self.rows.shape:
            raise LabError(f"{len(self.rows)} samples need as many lengths, got {len(flat)}")
        table = torch.zeros_like(self.values)
        table[self.rows, self.columns] = flat
        return table


def _names(groups: Any) -> list[Any]:
    """The names of the groups `[N]`; a row of numbers, as the tokens of a prompt, is one, too."""
    try:
        names = groups.tolist() if hasattr(groups, "tolist") else list(groups)
        names = [name.tolist() if isinstance(name, Tensor) else name for name in names]
        names = [tuple(name) if isinstance(name, list) else name for name in names]
        _ = set(names)
    except TypeError:
        raise LabError("groups must be one name per sample, each a key or a row of keys") from None
    return names


def _flat(numbers: Any, name: str) -> Tensor:
    """Numbers `[N]` as float64 on the CPU, None as NaN."""
    try:
        if isinstance(numbers, Tensor):
            flat = numbers.detach().cpu().double()
        else:
            flat = torch.from_numpy(np.array(numbers, dtype=np.float64))
    except (TypeError, ValueError):
        raise LabError(f"{name} must be numbers, one per sample") from None
    if flat.dim() != 1:
        raise LabError(f"{name} must be flat, one number per sample, got {list(flat.shape)}")
    return flat


def _like(advantages: Tensor, rewards: Any) -> Any:
    """Advantages as the rewards are: a tensor on their device, or an array."""
    if isinstance(rewards, Tensor):
        dtype = rewards.dtype if rewards.is_floating_point() else advantages.dtype
        return advantages.to(rewards.device, dtype)
    kind = getattr(rewards, "dtype", None)
    return advantages.numpy().astype(kind if kind in (np.float32, np.float16) else np.float64)
