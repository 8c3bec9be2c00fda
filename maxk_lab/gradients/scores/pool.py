"""The score pool: rewards and score products of M trajectories per instance, for all cells."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class ScorePool:
    """M i.i.d. trajectories of each of I instances, and all that measures need of their scores.

    rewards, lengths, logit_proxy [I, M]; rows [I, M], the row of `gram` or `scores` of each
    trajectory (equal ones may share one); gram [I, A, A], ψ·ψ of the distinct trajectories,
    zero-padded, or for policies of few parameters scores [I, A, P], ψ itself; the other one is [I,
    0, 0]. Where the exact gradient is known, for each objective named in `objectives`: inner [I, A,
    D] = ψ·∇J, norm [I, D] = ‖∇J‖², value [I, D] = J; else D = 0. Where the rows of `gram` are all
    the trajectories there are, of each: probabilities, listed_rewards, listed_lengths,
    listed_logit_proxy [I, A], zero-padded; else [I, 0].

    Scores, gradients and probabilities are those of the policy π. The trajectories may have been
    drawn from another, the behaviour policy: then ratios [I, M] and listed_ratios [I, A] are π over
    it, and behaviour [I, A] are its probabilities. Else the ratios are exactly 1. All floats are
    float64; `tolerance` is the relative bias that the policy's own precision explains.
    """

    rewards: Tensor
    lengths: Tensor
    logit_proxy: Tensor
    rows: Tensor
    gram: Tensor
    scores: Tensor
    objectives: tuple[str, ...]
    inner: Tensor
    norm: Tensor
    value: Tensor
    probabilities: Tensor
    listed_rewards: Tensor
    listed_lengths: Tensor
    listed_logit_proxy: Tensor
    ratios: Tensor
    listed_ratios: Tensor
    behaviour: Tensor
    tolerance: float

    @property
    def exact(self) -> bool:
        """Whether the exact gradient is known."""
        return bool(self.objectives)

    @property
    def listed(self) -> bool:
        """Whether every trajectory has its row in `gram`."""
        return self.probabilities.shape[1] > 0

    @property
    def off_policy(self) -> bool:
        """Whether the trajectories were drawn from a policy other than π."""
        return bool(self.ratios.ne(1).any())

    def squared_norms(self) -> Tensor:
        """‖ψ‖² by row, [I, A]."""
        return (
            self.scores.square().sum(2)
            if self.scores.shape[1]
            else self.gram.diagonal(dim1=1, dim2=2)
        )

    def trajectory_weight(self, kind: str) -> Tensor:
        """Return g of the drawn trajectories, [I, M]: length, logit_proxy or grad_norm (‖ψ‖²)."""
        if kind == "grad_norm":
            return self.squared_norms().gather(1, self.rows)
        return {"length": self.lengths, "logit_proxy": self.logit_proxy}[kind]

    def listed_weight(self, kind: str) -> Tensor:
        """g of all trajectories, [I, A]; as `trajectory_weight`."""
        if kind == "grad_norm":
            return self.squared_norms()
        return {"length": self.listed_lengths, "logit_proxy": self.listed_logit_proxy}[kind]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The pool as arrays, for an `.npz` file."""
        arrays = {name: getattr(self, name).numpy() for name in _TENSORS}
        scalars = {
            "objectives": np.asarray(self.objectives, dtype=np.str_),
            "tolerance": np.asarray(self.tolerance),
        }
        return arrays | scalars

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> ScorePool:
        """The inverse of `to_arrays`."""
        tensors = {name: torch.from_numpy(np.asarray(arrays[name])) for name in _TENSORS}
        objectives = tuple(str(name) for name in arrays["objectives"])
        return cls(objectives=objectives, tolerance=float(arrays["tolerance"]), **tensors)


_TENSORS = tuple(part.name for part in fields(ScorePool) if part.type == "Tensor")
