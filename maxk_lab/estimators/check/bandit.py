"""A softmax bandit so small that all A^n outcomes of n draws can be listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators.baselines.least_squares import family_terms, normal_equations
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective


@dataclass(frozen=True)
class TinyBandit:
    """Logits and rewards per arm, and lengths for baselines that look at them, in float64.

    With `behaviour`, the logits of another policy, that one draws the samples, and the importance
    ratios of those that need them are exact; objective and scores are those of `logits`. The score
    of arm a is e_a - p, with p the probabilities. Its squared norm 1 - 2 p_a + sum p^2 is the logit
    proxy, exactly.

    What it enumerates are the estimates sum_i w_i score_i of all outcomes of n i.i.d. draws. The
    weights are those of a method, with options of `Method.weights`, or any function of arms and
    rewards, both `[outcomes, n]`.
    """

    logits: tuple[float, ...]
    rewards: tuple[float, ...]
    lengths: tuple[float, ...] = ()
    behaviour: tuple[float, ...] = ()

    def objective(self, logits: Tensor, of: int | Objective) -> Tensor:
        """J of an objective, or of the maximum of so many rewards: the mean over all K-tuples."""
        of = Objective("max", of) if isinstance(of, int) else of
        drawn = _outcomes(len(self.rewards), of.k)
        chance = torch.softmax(logits, dim=-1)[drawn].prod(-1)
        return chance @ (_double(self.rewards)[drawn].sort(-1).values @ _double(of.order_weights))

    def gradient(self, of: int | Objective) -> Tensor:
        """The exact gradient of `objective` with respect to the logits, `[arms]`."""
        logits = _double(self.logits).requires_grad_()
        (gradient,) = torch.autograd.grad(self.objective(logits, of), logits)
        return gradient

    def ratios(self) -> Tensor:
        """The importance ratio of every arm, `[arms]`: 1 without `behaviour`."""
        drawn_by = _double(self.behaviour or self.logits)
        return torch.softmax(_double(self.logits), -1) / torch.softmax(drawn_by, -1)

    def scores(self) -> Tensor:
        """The gradient of log p_a with respect to the logits, `[arms, arms]`."""
        p = torch.softmax(_double(self.logits), dim=-1)
        return torch.eye(len(self.logits), dtype=torch.float64) - p

    def trajectory_weight(self, kind: str) -> Tensor:
        """The trajectory weight g of every arm, `[arms]`: length or exact squared score norm."""
        if kind == "length":
            return _double(self.lengths or tuple(range(1, len(self.logits) + 1)))
        return self.scores().square().sum(-1)

    def mean_estimate(
        self, n: int, weigh: Method | Callable[[Tensor, Tensor], Tensor], **options: Any
    ) -> Tensor:
        """The mean of the estimates, `[arms]`."""
        by_arm, chance = self._by_arm(n, weigh, options)
        return (chance * by_arm).sum(dim=0) @ self.scores()

    def trace_variance(
        self, n: int, weigh: Method | Callable[[Tensor, Tensor], Tensor], **options: Any
    ) -> float:
        """The trace of the covariance of the estimates."""
        by_arm, chance = self._by_arm(n, weigh, options)
        from_mean = (by_arm - (chance * by_arm).sum(dim=0)) @ self.scores()
        return float((chance * from_mean.square()).sum())

    def _by_arm(
        self,
        n: int,
        weigh: Method | Callable[[Tensor, Tensor], Tensor],
        options: dict[str, Any],
    ) -> tuple[Tensor, Tensor]:
        """The summed weight of every arm's draws, `[outcomes, arms]`, and the outcome's chance."""
        arms = _outcomes(len(self.logits), n)
        rewards = _double(self.rewards)[arms]
        if isinstance(weigh, Method):
            w = weigh.weights(rewards, **options, **self._numbers(weigh, arms, rewards))
        else:
            w = weigh(arms, rewards)
        chance = torch.softmax(_double(self.behaviour or self.logits), dim=-1)[arms]
        by_arm = w.new_zeros(len(arms), len(self.logits)).scatter_add_(1, arms, w)
        return by_arm, chance.prod(dim=-1, keepdim=True)

    def _numbers(self, method: Method, arms: Tensor, rewards: Tensor) -> dict[str, Any]:
        """All that a method needs beside rewards, for arms `[outcomes, n]`.

        A same-batch fit gets the outcome's own coefficients; any other some that leave the estimate
        unbiased, as they depend on nothing, or for `joint_optimum` on the other samples alone.
        """
        kind, row, numbers = method.needed_weight, method.baseline.row, dict[str, Any]()
        if kind is not None:
            numbers["trajectory_weights"] = {kind: self.trajectory_weight(kind)[arms]}
        if method.needs_ratios:
            numbers["ratios"] = self.ratios()[arms]
        if row.name == "joint_optimum":
            marks = self.trajectory_weight("length")[arms]
            numbers["coefficients"] = torch.sin(marks.sum(-1, keepdim=True) - marks)
        elif method.fit == "same_batch":
            scores = self.scores()[arms]
            terms = family_terms(rewards, method.k, row.name)
            numbers["coefficients"] = normal_equations(*terms, scores @ scores.mT).solution()
        elif method.fit is not None:
            numbers["coefficients"] = some_coefficients(
                row.coefficients(rewards.shape[-1], method.k)
            )
        return numbers


def some_coefficients(count: int) -> Tensor:
    """Numbers of no meaning, of either sign, `[count]`."""
    return 0.7 - 0.9 * torch.arange(count, dtype=torch.float64).remainder(3)


def _double(numbers: tuple[float, ...]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@lru_cache(maxsize=8)
def _outcomes(arms: int, n: int) -> Tensor:
    """Every n-tuple of arms, `[arms^n, n]`."""
    return torch.cartesian_prod(*[torch.arange(arms)] * n).reshape(-1, n)
