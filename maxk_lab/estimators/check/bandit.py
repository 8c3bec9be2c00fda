"""A softmax bandit so small that all A^n outcomes of n draws can be listed.

It has means and variances without sampling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from maxk_lab.estimators.baselines.least_squares import family_terms, normal_equations
from maxk_lab.estimators.catalogue import choose_baseline
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
        """J of an objective, or of the maximum of so many rewards.

        J_K = sum_j R_(j) (F_j^K - F_(j-1)^K) over the distinct rewards, F the cumulative
        probability; any other J is the mean over all K-tuples of arms.
        """
        p = self.probabilities(logits)
        if isinstance(of, Objective):
            if not of.is_max:
                alpha = torch.tensor(of.order_weights, dtype=torch.float64)
                drawn = _drawn(self.rewards, of.k).sort(-1).values
                return p[_outcomes(len(self.rewards), of.k)].prod(-1) @ (drawn @ alpha)
            of = of.k
        levels = sorted(set(self.rewards))
        arm_rewards = torch.tensor(self.rewards, dtype=torch.float64)
        below = [p[arm_rewards <= level].sum() ** of for level in levels]
        # F = 1 exactly at the top, whatever the rounding of the sum.
        below[-1] = torch.ones((), dtype=torch.float64)
        masses = [below[0], *(b - a for a, b in pairwise(below))]
        return torch.stack([level * mass for level, mass in zip(levels, masses, strict=True)]).sum()

    def gradient(self, of: int | Objective) -> Tensor:
        """The exact gradient of an objective, or of J_K for a number K, `[arms]`.

        It is with respect to the logits.
        """
        logits = torch.tensor(self.logits, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(self.objective(logits, of), logits)
        return gradient

    def ratios(self) -> Tensor:
        """The importance ratio of every arm, `[arms]`: 1 without `behaviour`."""
        own, drawn_by = (
            torch.tensor(x, dtype=torch.float64)
            for x in (self.logits, self.behaviour or self.logits)
        )
        return self.probabilities(own) / self.probabilities(drawn_by)

    def scores(self) -> Tensor:
        """The gradient of log p_a with respect to the logits, `[arms, arms]`."""
        p = self.probabilities(torch.tensor(self.logits, dtype=torch.float64))
        return torch.eye(len(self.logits), dtype=torch.float64) - p

    def trajectory_weight(self, kind: str) -> Tensor:
        """The trajectory weight g of every arm, `[arms]`: length or exact squared score norm."""
        if kind == "length":
            return torch.tensor(self.lengths or range(1, len(self.logits) + 1), dtype=torch.float64)
        return self.scores().square().sum(-1)

    def coefficients(
        self, arms: Tensor, rewards: Tensor, k: int, baseline: str, fit: str
    ) -> Tensor:
        """Coefficients for the arms and rewards of the outcomes, `[outcomes, n]` each.

        Of a same-batch fit the outcome's own, `[outcomes, D]`. Of `joint_optimum` some function of
        the other samples, `[outcomes, n]`; of any other some numbers that depend on nothing, `[D]`:
        both must leave the estimate unbiased.
        """
        family = choose_baseline(baseline).row.name
        if family == "joint_optimum":
            marks = self.trajectory_weight("length")[arms]
            return torch.sin(marks.sum(-1, keepdim=True) - marks)
        start, directions = family_terms(rewards, k, family)
        if fit == "same_batch":
            scores = self.scores()[arms]
            return normal_equations(start, directions, scores @ scores.mT).solution()
        return some_coefficients(directions.shape[-1])

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
        method = Method.parse(estimator, baseline, k)
        kind, fit = method.needed_weight, method.fit
        by_arm = {} if kind is None else {kind: self.trajectory_weight(kind)}
        ratios = self.ratios() if method.needs_ratios else None

        def weights(arms: Tensor, rewards: Tensor) -> Tensor:
            g = {name: table[arms] for name, table in by_arm.items()}
            own: dict[str, Any] = {} if ratios is None else {"ratios": ratios[arms]}
            if fit is not None:
                own["coefficients"] = self.coefficients(arms, rewards, k, baseline, fit)
            return method.weights(rewards, trajectory_weights=g, **own, **options)

        return weights

    def _by_arm(self, weights: Callable[[Tensor, Tensor], Tensor], n: int) -> tuple[Tensor, Tensor]:
        """The summed weight of every arm's draws, `[outcomes, arms]`.

        With the outcome's probability, `[outcomes, 1]`.

        Draws of one arm share its score.
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
