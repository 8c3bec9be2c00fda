"""The score pool: rewards and Gram matrix of M trajectories per instance, from which every cell of a study is measured."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class ScorePool:
    """M i.i.d. trajectories of each of I instances, and everything about their scores that a measure needs.

    rewards, lengths, logit_proxy [I, M]; rows [I, M], the row of `gram` of each trajectory (equal trajectories share one);
    gram [I, A, A], ψ·ψ of the distinct trajectories, zero-padded. Where the exact gradient is known, for each K in `ks`:
    inner [I, A, D] = ψ·∇J_K, norm [I, D] = ‖∇J_K‖², value [I, D] = J_K; else D = 0. Where the rows of `gram` are all the
    trajectories there are, of each: probabilities, listed_rewards, listed_lengths, listed_logit_proxy [I, A], zero-padded; else
    [I, 0]. All floats are float64; `tolerance` is the relative bias that the policy's own precision explains.
    """

    rewards: Tensor
    lengths: Tensor
    logit_proxy: Tensor
    rows: Tensor
    gram: Tensor
    ks: tuple[int, ...]
    inner: Tensor
    norm: Tensor
    value: Tensor
    probabilities: Tensor
    listed_rewards: Tensor
    listed_lengths: Tensor
    listed_logit_proxy: Tensor
    tolerance: float

    @property
    def exact(self) -> bool:
        """Whether the exact gradient is known."""
        return bool(self.ks)

    @property
    def listed(self) -> bool:
        """Whether every trajectory has its row in `gram`."""
        return self.probabilities.shape[1] > 0

    def trajectory_weight(self, kind: str) -> Tensor:
        """g of the drawn trajectories, [I, M]; `kind` is length, logit_proxy or grad_norm (‖ψ‖²)."""
        if kind == "grad_norm":
            return self.gram.diagonal(dim1=1, dim2=2).gather(1, self.rows)
        return {"length": self.lengths, "logit_proxy": self.logit_proxy}[kind]

    def listed_weight(self, kind: str) -> Tensor:
        """g of all trajectories, [I, A]; as `trajectory_weight`."""
        if kind == "grad_norm":
            return self.gram.diagonal(dim1=1, dim2=2)
        return {"length": self.listed_lengths, "logit_proxy": self.listed_logit_proxy}[kind]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The pool as arrays, for an `.npz` file."""
        arrays = {name: getattr(self, name).numpy() for name in _TENSORS}
        scalars = {"ks": np.asarray(self.ks, dtype=np.int64), "tolerance": np.asarray(self.tolerance)}
        return arrays | scalars

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> ScorePool:
        """The inverse of `to_arrays`."""
        tensors = {name: torch.from_numpy(np.asarray(arrays[name])) for name in _TENSORS}
        return cls(ks=tuple(int(k) for k in arrays["ks"]), tolerance=float(arrays["tolerance"]), **tensors)


_TENSORS = tuple(part.name for part in fields(ScorePool) if part.type == "Tensor")
