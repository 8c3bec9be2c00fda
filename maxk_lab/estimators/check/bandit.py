"""A softmax bandit so small that all A^n outcomes of n draws can be enumerated."""

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
    """Logits, rewards and lengths per arm, in float64.

    `behaviour` are the logits of another policy. If it is set, this policy draws the samples, and
    methods that need importance ratios get exact ratios. The objective and the scores are always
    those of `logits`.

    `starts` imitates forced first actions. Sample i adds the logits of start i, and after the last
    start the first follows. The samples are independent and not identically distributed.

    The score of arm a is e_a - p, with the probabilities p of the sample. The squared norm of the
    score, 1 - 2 p_a + sum p^2, equals the logit proxy.

    The estimates sum_i w_i score_i are enumerated over all outcomes of n draws. The weights come
    from a method, with options of `Method.weights`, or from a function of arms and rewards, both
    `[outcomes, n]`.
    """

    logits: tuple[float, ...]
    rewards: tuple[float, ...]
    lengths: tuple[float, ...] = ()
    behaviour: tuple[float, ...] = ()
    starts: tuple[tuple[float, ...], ...] = ()

    def gradient(self, of: int | Objective, n: int | None = None) -> Tensor:
        """Return the exact gradient of J with respect to the logits, `[arms]`.

        `of` is an objective, or a K for the maximum of K rewards. J is the mean over all K-tuples.
        With `starts`, J is the mean over the K-subsets of the n samples; the default n is K.
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
        """Return the probabilities under the policy and under the sampling policy."""
        both = _double(self.logits), _double(self.behaviour or self.logits)
        return self._probabilities(both[0], n), self._probabilities(both[1], n)

    def _estimates(
        self, n: int, weigh: Method | Callable[[Tensor, Tensor], Tensor], options: dict[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """Return the estimates of all outcomes, `[outcomes, arms]`, and the probability of each."""
        arms = _outcomes(len(self.logits), n)
        rewards = _double(self.rewards)[arms]
        if isinstance(weigh, Method) and weigh.uses_other_prompts:
            # The mean does not depend on the other prompts' groups: two groups test this.
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
        """Return the arguments of a method besides rewards, for arms `[outcomes, n]`.

        Fitted coefficients are constants; those of `joint_optimum` depend on the other samples
        alone.
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
    """Return the entries of numbers `[n, arms]` at the drawn arms `[outcomes, n]`."""
    return by_arm.gather(1, arms.T).T


def some_coefficients(count: int) -> Tensor:
    """Return arbitrary numbers of both signs, `[count]`."""
    return 0.7 - 0.9 * torch.arange(count, dtype=torch.float64).remainder(3)


def _double(numbers: Any) -> Tensor:
    return torch.as_tensor(numbers, dtype=torch.float64)


@lru_cache(maxsize=8)
def _outcomes(arms: int, n: int) -> Tensor:
    """Return every n-tuple of arms, `[arms^n, n]`."""
    return torch.cartesian_prod(*[torch.arange(arms)] * n).reshape(-1, n)
