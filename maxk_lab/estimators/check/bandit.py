"""A softmax bandit so small that all A^n outcomes of n draws can be listed.

It has means and variances without sampling.
"""

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
    """

    logits: tuple[float, ...]
    rewards: tuple[float, ...]
    lengths: tuple[float, ...] = ()
    behaviour: tuple[float, ...] = ()

    def probabilities(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits, dim=-1)

    def objective(self, logits: Tensor, of: int | Objective) -> Tensor:
        """J of an objective, or of the maximum of so many rewards: the mean over all K-tuples."""
        of = Objective("max", of) if isinstance(of, int) else of
        alpha = torch.tensor(of.order_weights, dtype=torch.float64)
        drawn = _drawn(self.rewards, of.k).sort(-1).values
        chance = self.probabilities(logits)[_outcomes(len(self.rewards), of.k)].prod(-1)
        return chance @ (drawn @ alpha)

    def gradient(self, of: int | Objective) -> Tensor:
        """The exact gradient of `objective` with respect to the logits, `[arms]`."""
        logits = torch.tensor(self.logits, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(self.objective(logits, of), logits)
        return gradient

    def ratios(self) -> Tensor:
        """The importance ratio of every arm, `[arms]`: 1 without `behaviour`."""
        policies = torch.tensor([self.logits, self.behaviour or self.logits], dtype=torch.float64)
        target, drawn_by = self.probabilities(policies).unbind()
        return target / drawn_by

    def scores(self) -> Tensor:
        """The gradient of log p_a with respect to the logits, `[arms, arms]`."""
        p = self.probabilities(torch.tensor(self.logits, dtype=torch.float64))
        return torch.eye(len(self.logits), dtype=torch.float64) - p

    def trajectory_weight(self, kind: str) -> Tensor:
        """The trajectory weight g of every arm, `[arms]`: length or exact squared score norm."""
        if kind == "length":
            return torch.tensor(self.lengths or range(1, len(self.logits) + 1), dtype=torch.float64)
        return self.scores().square().sum(-1)

    def mean_estimate(
        self, n: int, k: int, *, estimator: str, baseline: str, **options: Any
    ) -> Tensor:
        """E[sum_i w_i score_i] over all outcomes of n i.i.d. draws, `[arms]`.

        Options go to `Method.weights`.
        """
        return self.mean_of(self._weights(k, estimator, baseline, options), n)

    def trace_variance(
        self, n: int, k: int, *, estimator: str, baseline: str, **options: Any
    ) -> float:
        """tr Cov[sum_i w_i score_i] over all outcomes of n i.i.d. draws.

        Options go to `Method.weights`.
        """
        by_arm, chance = self._by_arm(self._weights(k, estimator, baseline, options), n)
        from_mean = (by_arm - (chance * by_arm).sum(dim=0)) @ self.scores()
        return float((chance * from_mean.square()).sum())

    def mean_of(self, weights: Callable[[Tensor, Tensor], Tensor], n: int) -> Tensor:
        """E[sum_i w_i score_i] for weights that are a function of arms and rewards.

        All three are `[outcomes, n]`.
        """
        by_arm, chance = self._by_arm(weights, n)
        return (chance * by_arm).sum(dim=0) @ self.scores()

    def _weights(
        self, k: int, estimator: str, baseline: str, options: dict[str, Any]
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """The method's weights of arms and rewards, `[outcomes, n]` each, with all that it needs.

        A same-batch fit gets the outcome's own coefficients; any other some that leave the estimate
        unbiased, as they depend on nothing, or for `joint_optimum` on the other samples alone.
        """
        method = Method.parse(estimator, baseline, k)
        kind, family = method.needed_weight, method.baseline.row.name

        def weights(arms: Tensor, rewards: Tensor) -> Tensor:
            numbers = dict(options)
            if kind is not None:
                numbers["trajectory_weights"] = {kind: self.trajectory_weight(kind)[arms]}
            if method.needs_ratios:
                numbers["ratios"] = self.ratios()[arms]
            if family == "joint_optimum":
                marks = self.trajectory_weight("length")[arms]
                numbers["coefficients"] = torch.sin(marks.sum(-1, keepdim=True) - marks)
            elif method.fit == "same_batch":
                scores = self.scores()[arms]
                terms = family_terms(rewards, k, family)
                numbers["coefficients"] = normal_equations(*terms, scores @ scores.mT).solution()
            elif method.fit is not None:
                count = method.baseline.row.coefficients(rewards.shape[-1], k)
                numbers["coefficients"] = some_coefficients(count)
            return method.weights(rewards, **numbers)

        return weights

    def _by_arm(self, weights: Callable[[Tensor, Tensor], Tensor], n: int) -> tuple[Tensor, Tensor]:
        """The summed weight of every arm's draws, `[outcomes, arms]`, as these share its score.

        With the outcome's probability, `[outcomes, 1]`.
        """
        arms = _outcomes(len(self.logits), n)
        w = weights(arms, _drawn(self.rewards, n))
        return w.new_zeros(len(arms), len(self.logits)).scatter_add_(1, arms, w), _chances(
            self.behaviour or self.logits, n
        )


def some_coefficients(count: int) -> Tensor:
    """Numbers of no meaning, of either sign, `[count]`."""
    return 0.7 - 0.9 * torch.arange(count, dtype=torch.float64).remainder(3)


@lru_cache(maxsize=8)
def _drawn(by_arm: tuple[float, ...], n: int) -> Tensor:
    """The value of every draw of every n-tuple of arms, `[arms^n, n]`."""
    return torch.tensor(by_arm, dtype=torch.float64)[_outcomes(len(by_arm), n)]


@lru_cache(maxsize=8)
def _chances(logits: tuple[float, ...], n: int) -> Tensor:
    """The probability of every n-tuple of arms, `[arms^n, 1]`."""
    p = torch.softmax(torch.tensor(logits, dtype=torch.float64), dim=-1)
    return p[_outcomes(len(logits), n)].prod(dim=-1, keepdim=True)


@lru_cache(maxsize=8)
def _outcomes(arms: int, n: int) -> Tensor:
    """Every n-tuple of arms, `[arms^n, n]`."""
    return torch.cartesian_prod(*[torch.arange(arms)] * n).reshape(-1, n)
