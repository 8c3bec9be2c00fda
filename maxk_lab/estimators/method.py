"""An estimator with its baseline at a K, parsed once.

A method knows where it runs, what it is for and what it needs, and gives the weights.

Imports torch only when weights are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    Choice,
    choose_baseline,
    choose_estimator,
)
from maxk_lab.estimators.engine import checks, gaps
from maxk_lab.estimators.normalization import normalize_weights, scale_by_gap
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.rows import BaselineRow, EstimatorRow

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Method:
    """An estimator of the catalogue with a baseline of the catalogue at a K.

    `k` is the K that counts: 1 for an estimator such as `reinforce`, whatever was asked for.
    """

    estimator: Choice[EstimatorRow]
    baseline: Choice[BaselineRow]
    k: int

    @classmethod
    def parse(cls, estimator: str, baseline: str = "none", k: int = 1) -> Method:
        """The method of these spellings, `name` or `name[value]`.

        Raises `LabError` for an unknown one.
        """
        chosen = choose_estimator(estimator)
        fixed = chosen.row.fixed_k
        return cls(chosen, choose_baseline(baseline), k if fixed is None else fixed)

    @classmethod
    def of(cls, point: Mapping[str, Any]) -> Method:
        """The method of a cell or a point of a grid: its `estimator`, `baseline` and `k`."""
        return cls.parse(point["estimator"], point["baseline"], point["k"])

    @cached_property
    def objective(self) -> Objective:
        """The objective whose gradient the estimator is for: the expected maximum of K for most.

        Raises `LabError` where K rewards have no such statistic.
        """
        return self.estimator.row.objective_of(self.k, **self.estimator.params)

    def refusal(self, n: int) -> str | None:
        """The reason why the method cannot run with n samples, or None."""
        both = self.estimator, self.baseline
        reasons = (choice.row.refusal(n, self.k, **choice.params) for choice in both)
        return self.pair_refusal or next(filter(None, reasons), None)

    @property
    def pair_refusal(self) -> str | None:
        """The reason why the estimator cannot take the baseline at any n and K, or None."""
        if self.needs_ratios and not self.baseline.row.off_policy:
            names = ", ".join(row.name for row in BASELINES if row.off_policy)
            return (
                f"{self.estimator.row.name} takes only baselines for importance ratios ({names}), "
                f"got {self.baseline.row.name}"
            )
        return self.estimator.row.baseline_refusal(self.baseline.row, **self.baseline.params)

    @property
    def is_unbiased(self) -> bool:
        """Whether the catalogue derives the estimate as unbiased for the objective's gradient."""
        both = self.estimator, self.baseline
        return all(choice.row.is_unbiased(**choice.params) for choice in both)

    def expected_scale(self, n: int) -> float:
        """E[estimate] over the objective's gradient; NaN where the direction is biased, too."""
        return math.prod(
            choice.row.expected_scale(n, self.k, **choice.params)
            for choice in (self.estimator, self.baseline)
        )

    @property
    def catalogue_order(self) -> tuple[int, int, str]:
        """The places of both in the catalogue, then their spellings: a key to sort by."""
        return (
            ESTIMATORS.names().index(self.estimator.row.name),
            BASELINES.names().index(self.baseline.row.name),
            f"{self.estimator.name} {self.baseline.name}",
        )

    @property
    def needs_rewards_alone(self) -> bool:
        """Whether `advantages` computes it from rewards, with nothing fitted or passed in."""
        needed = (self.fit, self.needed_weight)
        return needed == (None, None) and not (self.needs_ratios or self.is_token_level)

    @property
    def takes_baseline(self) -> bool:
        """Whether the estimator takes a baseline other than `none`."""
        return self.estimator.row.takes_baseline

    @property
    def needed_weight(self) -> str | None:
        """The trajectory weight it needs: length, logit_proxy or grad_norm; None for none."""
        return self.baseline.row.needs(**self.baseline.params) if self.takes_baseline else None

    @property
    def fit(self) -> str | None:
        """The fit of its coefficients: cross_fit, same_batch or oracle; None without one."""
        return self.baseline.row.fit(**self.baseline.params) if self.takes_baseline else None

    @property
    def needs_ratios(self) -> bool:
        """Whether it needs importance ratios: it is for trajectories of another policy."""
        return self.estimator.row.needs_ratios

    @property
    def needs_binary_rewards(self) -> bool:
        """Whether it is defined for rewards 0 and 1 only."""
        return self.estimator.row.binary_rewards or self.baseline.row.binary_rewards

    @property
    def is_ordered(self) -> bool:
        """Whether its weights depend on the order in which the samples were drawn."""
        return self.estimator.row.ordered

    @property
    def is_token_level(self) -> bool:
        """Whether it gives one weight per token, through `token_advantages`, not one per sample."""
        return self.baseline.row.token_level

    def weights(
        self,
        rewards: Tensor,
        *,
        trajectory_weights: Mapping[str, Tensor] | None = None,
        weight_normalization: str = "none",
        min_gap_scale: float | None = None,
        ratios: Tensor | None = None,
        coefficients: Tensor | None = None,
    ) -> Tensor:
        """The weights w of the gradient estimate sum_i w_i grad log pi(tau_i).

        It is a sum: w carries the factor 1/n.

        rewards: `[..., n]`, i.i.d. along n, higher is better. Returns `[..., n]` in their floating
        dtype (float64 for integers and booleans), without gradient. `trajectory_weights` holds, by
        kind (length, logit_proxy, grad_norm: the *squared* score norm), what the baseline weights
        the samples with, `[..., n]` each; only the kind that is `needed_weight` is used.

        `ratios`, `[..., n]`, are the positive importance ratios pi / pi_old of whole trajectories,
        for a method that `needs_ratios` and for no other. `coefficients`, `[..., D]` over the same
        leading dimensions or ones that broadcast to them, are those of a method with a `fit`: D = 1
        for `affine` and `constant`, K - 1 for `ladder`; of `joint_optimum` the baseline b_i itself,
        D = n.

        Two options bias every estimate: `min_gap_scale` divides the weights by the group's range of
        rewards, or by this number if it is greater, and `weight_normalization` (a name of
        `WEIGHT_NORMALIZATIONS`) comes after it.

        Raises `LabError` where the method cannot run at this n, a reward is not finite, a
        trajectory weight, ratio or coefficient is missing, wrong or not taken by the method, or the
        baseline is one of tokens.
        """
        n = checks.check_rewards(rewards)
        self.check_size(n)
        if self.is_token_level:
            raise LabError(
                f"{self.baseline.name} gives one weight per token, not one per sample: call "
                "token_advantages(rewards, logit_proxies, mask)"
            )
        values = checks.check_binary(rewards) if self.needs_binary_rewards else rewards
        given = self._numbers(rewards, trajectory_weights, ratios, coefficients)
        weights = self._weigh(values, given).to(gaps.result_dtype(rewards))
        if min_gap_scale is not None:
            weights = scale_by_gap(weights, rewards, min_gap_scale)
        return normalize_weights(weights, weight_normalization)

    def check_size(self, n: int) -> None:
        """Raise `LabError` where the method cannot run with n samples."""
        checks.check_k(self.k, n)
        problem = self.refusal(n)
        if problem is not None:
            raise LabError(problem)

    def _numbers(
        self,
        rewards: Tensor,
        trajectory_weights: Mapping[str, Tensor] | None,
        ratios: Tensor | None,
        coefficients: Tensor | None,
    ) -> dict[str, Tensor]:
        """Check what the method needs per trajectory; under its functions' names for it."""
        numbers: dict[str, Tensor] = {}
        if self.needs_ratios and ratios is None:
            raise LabError(
                f"{self.estimator.name} needs ratios, one positive number pi / pi_old per sample, "
                "got none"
            )
        if ratios is not None:
            if not self.needs_ratios:
                raise LabError(f"{self.estimator.name} takes no ratios: leave them out")
            numbers["ratios"] = checks.check_ratios(ratios, rewards)
        if self.fit is not None and coefficients is None:
            raise LabError(
                f"{self.baseline.name} needs its fitted coefficients, [..., D], got none"
            )
        if coefficients is not None:
            if self.fit is None:
                raise LabError(f"{self.baseline.name} takes no coefficients: leave them out")
            count = self.baseline.row.coefficients(rewards.shape[-1], self.k)
            numbers["coefficients"] = checks.check_coefficients(coefficients, rewards, count)
        kind = self.needed_weight
        if kind is not None:
            if kind not in (trajectory_weights or {}):
                names = ", ".join(trajectory_weights or {}) or "none"
                raise LabError(
                    f"{self.baseline.name} needs trajectory_weights[{kind!r}], one positive number "
                    f"per sample, got {names}"
                )
            assert trajectory_weights is not None
            numbers["g"] = checks.check_trajectory_weights(trajectory_weights[kind], rewards)
        return numbers

    def _weigh(self, rewards: Tensor, numbers: dict[str, Tensor]) -> Tensor:
        """The weights of checked rewards, from the estimator's function or the baseline's."""
        chosen, base = self.estimator, self.baseline
        params = {} if self.fit is not None else dict(base.params)

        def of_baseline(rewards: Tensor, k: int) -> Tensor:
            own = {name: x for name, x in numbers.items() if name != "ratios"}
            objective = None if self.objective.is_max else self.objective
            return base.row.weights(rewards, k, objective=objective, **params, **own)

        if chosen.row.has_objective:
            return of_baseline(rewards, self.k)
        options: dict[str, Any] = {
            "ratios": numbers.get("ratios"),
            "baseline_name": base.name,
            "baseline_weights": of_baseline,
        }
        own = {name: option for name, option in options.items() if name in chosen.row.takes}
        weights: Tensor = chosen.row.function(rewards, self.k, **chosen.params, **own)
        return weights
