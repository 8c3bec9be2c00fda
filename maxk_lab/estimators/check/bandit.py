"""A softmax bandit so small that all A^n outcomes of n draws can be listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective


@dataclass(frozen=True)
class TinyBandit:
    """Logits and rewards per arm, and lengths for baselines that look at them, in float64.

    With `behaviour`, the logits of another policy, that one draws the samples, and the importance
    ratios of those that need them are exact; objective and scores are those of `logits`. With
    `starts`, as with forced first actions, sample i adds those of start i to its logits, the first
    start following the last: samples are independent, and not identically distributed. The score
    of arm a is e_a - p, with p the probabilities of the sample. Its squared norm 1 - 2 p_a +
    sum p^2 is the logit proxy, exactly.

    What it enumerates are the estimates sum_i w_i score_i of all outcomes of n draws. The weights
    are those of a method, with options of `Method.weights`, or any function of arms and rewards,
    both `[outcomes, n]`.
    """

    logits: tuple[float, ...]
    rewards: tuple[float, ...]
    lengths: tuple[float, ...] = ()
    behaviour: tuple[float, ...] = ()
    starts: tuple[tuple[float, ...], ...] = ()

    def gradient(self, of: int | Objective, n: int | None = None) -> Tensor:
        """Return the exact gradient of J with respect to the logits, `[arms]`.

        J is of an objective, or of the maximum of K = `of` rewards: the mean over all K-tuples;
        with `starts`, the mean over the K-subsets of the n samples, by default K.
        """
        of = Objective("max", of) if isinstance(of, int) else of
        drawn = _outcomes(len(self.rewards), of.k)
        values = _double(self.rewards)[drawn].sort(-1).values @ _double(of.order_weights)
        logits = _double(self.logits).requires_grad_()
        p = self._probabilities(logits, n or of.k)
        subsets = combinations(range(len(p)), of.k) if self.starts else [range(of.k)]
        chances = [p[list(slots)].gather(1, drawn.T).prod(0) for slots in subsets]
        (gradient,) = torch.autograd.grad(torch.stack(chances).mean(0) @ values, logits)
        return gradient

    def scores(self, n: int) -> Tensor:
        """Return the gradient of log p_a with respect to the logits, `[n, arms, arms]`."""
        p, _ = self._policies(n)
        return torch.eye(len(self.logits), dtype=torch.float64) - p.unsqueeze(1)

    def trajectory_weight(self, kind: str, n: int) -> Tensor:
        """The trajectory weight g of every arm, `[n, arms]`: length or exact squared score norm."""
        if kind == "length":
            lengths = _double(self.lengths or tuple(range(1, len(self.logits) + 1)))
            return lengths.expand(n, -1)
        return self.scores(n).square().sum(-1)

    def mean_estimate(
        self, n: int, weigh: Method | Callable[[Tensor, Tensor], Tensor], **options: Any
    ) -> Tensor:
        """Return the mean of the estimates, `[arms]`."""
        estimates, chance = self._estimates(n, weigh, options)
        return (chance * estimates).sum(dim=0)

    def trace_variance(
        self, n: int, weigh: Method | Callable[[Tensor, Tensor], Tensor], **options: Any
    ) -> float:
        """Return the trace of the covariance of the estimates."""
        estimates, chance = self._estimates(n, weigh, options)
        from_mean = estimates - (chance * estimates).sum(dim=0)
        return float((chance * from_mean.square()).sum())

    def _probabilities(self, logits: Tensor, n: int) -> Tensor:
        """Return the probabilities of every sample's arms, `[n, arms]`."""
        added = _double(self.starts or (0.0 * _double(self.logits)).unsqueeze(0))
        return torch.softmax(logits + added[torch.arange(n) % len(added)], -1)

    def _policies(self, n: int) -> tuple[Tensor, Tensor]:
        """Return the probabilities under the policy, and under the one that draws the samples."""
        both = _double(self.logits), _double(self.behaviour or self.logits)
        return self._probabilities(both[0], n), self._probabilities(both[1], n)

    def _estimates(
        self, n: int, weigh: Method | Callable[[Tensor, Tensor], Tensor], options: dict[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """Return the estimates of all outcomes, `[outcomes, arms]`, and the chance of each."""
        arms = _outcomes(len(self.logits), n)
        rewards = _double(self.rewards)[arms]
        if isinstance(weigh, Method) and weigh.uses_other_prompts:
            # Given any groups of other prompts the mean is the same: two groups show it.
            others = [0.5 * rewards[len(rewards) // 3] - 1.0, 2.0 * rewards[len(rewards) // 2]]
            groups = torch.stack([rewards, *(group.expand_as(rewards) for group in others)])
            w = weigh.weights(groups, **options)[0]
        elif isinstance(weigh, Method):
            w = weigh.weights(rewards, **options, **self._numbers(weigh, arms, rewards))
        else:
            w = weigh(arms, rewards)
        p, drawn_by = self._policies(n)
        by_arm = w.new_zeros(len(arms), len(self.logits)).scatter_add_(1, arms, w)
        return by_arm - w @ p.to(w), _pick(drawn_by, arms).prod(-1, keepdim=True)

    def _numbers(self, method: Method, arms: Tensor, rewards: Tensor) -> dict[str, Any]:
        """Return all that a method needs beside rewards, for arms `[outcomes, n]`.

        Fitted coefficients depend on nothing, or for `joint_optimum` on the other samples alone.
        """
        kind, row, numbers = method.needed_weight, method.baseline.row, dict[str, Any]()
        n = arms.shape[-1]
        if kind is not None:
            numbers["trajectory_weights"] = {kind: _pick(self.trajectory_weight(kind, n), arms)}
        if method.needs_ratios:
            p, drawn_by = self._policies(n)
            numbers["ratios"] = _pick(p / drawn_by, arms)
        if row.name == "joint_optimum":
            marks = _pick(self.trajectory_weight("length", n), arms)
            numbers["coefficients"] = torch.sin(marks.sum(-1, keepdim=True) - marks)
        elif method.fit is not None:
            numbers["coefficients"] = some_coefficients(row.coefficients(n, method.k))
        return numbers


def _pick(by_arm: Tensor, arms: Tensor) -> Tensor:
    """Return the numbers `[n, arms]` of the arms `[outcomes, n]` that were drawn."""
    return by_arm.gather(1, arms.T).T


def some_coefficients(count: int) -> Tensor:
    """Numbers of no meaning, of either sign, `[count]`."""
    return 0.7 - 0.9 * torch.arange(count, dtype=torch.float64).remainder(3)


def _double(numbers: Any) -> Tensor:
    return torch.as_tensor(numbers, dtype=torch.float64)


@lru_cache(maxsize=8)
def _outcomes(arms: int, n: int) -> Tensor:
    """Return every n-tuple of arms, `[arms^n, n]`."""
    return torch.cartesian_prod(*[torch.arange(arms)] * n).reshape(-1, n)
