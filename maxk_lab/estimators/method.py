"""A method: an estimator with a baseline at a K, with its conditions, inputs and weights.

torch is imported only when weights are computed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    Choice,
    choose_baseline,
    choose_estimator,
)
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.rows import BaselineRow, EstimatorRow

if TYPE_CHECKING:
    from torch import Tensor

# The ways to normalise the weights of a group, with their meaning.
WEIGHT_NORMALIZATIONS = {
    "none": "the weights as they are",
    "zscore": (
        "(w - mean w) / (std w + 1e-8) in the group, std with ddof = 1; biased in direction; "
        "drops the factor 1/n"
    ),
    "sum_to_zero": (
        "w - mean w in the group; biased, for `centred` and others that sum to 0 already "
        "without effect"
    ),
}
_EPS = 1e-8
_BESIDE_REWARDS = {
    None: "",
    "grad_norm": "the gradient of every trajectory",
    "logit_proxy": "the whole distribution of every decision",
    "length": "the length of every trajectory",
}


@dataclass(frozen=True)
class Method:
    """A method: an estimator of the catalogue with a baseline at a K.

    `k` is the effective K: 1 for an estimator such as `reinforce`, for any given K.
    """

    estimator: Choice[EstimatorRow]
    baseline: Choice[BaselineRow]
    k: int

    @classmethod
    def parse(
        cls, estimator: str, baseline: str | Callable[..., Any] = "none", k: int = 1
    ) -> Method:
        """Return the method with these spellings. Raises `LabError` for an unknown name."""
        chosen = choose_estimator(estimator)
        if chosen.row.fixed_k is not None:
            k = chosen.row.fixed_k
        elif not isinstance(k, bool):
            with suppress(TypeError):  # other numbers are reported by the checks
                k = operator.index(k)
        kind = cls
        if "parts" in chosen.params:
            from maxk_lab.estimators.mixtures import Mixture

            kind = Mixture
        return kind(chosen, choose_baseline(baseline), k)

    @classmethod
    def of(cls, point: Mapping[str, Any]) -> Method:
        """Return the method of a cell or a grid point: its `estimator`, `baseline` and `k`."""
        return cls.parse(point["estimator"], point["baseline"], point["k"])

    def objective_at(self, n: int) -> Objective:
        """Return the estimator's objective. Raises `LabError` if it is undefined for n and K."""
        row, params = self.estimator.row, self.estimator.params
        return self._objective if row.aim is None else row.aim(n, self.k, **params)

    @cached_property
    def _objective(self) -> Objective:
        """The objective, if it does not depend on n."""
        row, params = self.estimator.row, self.estimator.params
        made: Objective = (
            row.function(self.k, **params) if row.has_objective else Objective("max", self.k)
        )
        return made

    def refusal(self, n: int) -> str | None:
        """Return the reason why the method cannot run with n samples, or None."""
        chosen, base = self.estimator, self.baseline
        problem = self.pair_refusal or chosen.row.refusal(n, self.k, **chosen.params)
        if problem is not None:
            return problem
        try:
            _ = self.objective_at(n)
        except LabError as error:
            return str(error)
        return base.row.refusal(n, self.k, **base.params)

    @property
    def pair_refusal(self) -> str | None:
        """Return why the estimator does not accept the baseline at any n and K, or None."""
        row, base = self.estimator.row, self.baseline.row
        if self.needs_ratios and not base.off_policy:
            names = ", ".join(row.name for row in BASELINES if row.off_policy)
            kinds = f"only baselines for importance ratios ({names})"
        elif not row.takes_baseline and base.name != "none":
            kinds = "no baseline"
        elif row.objective == "L_K" and not (base.any_objective and self.fit is None):
            also = " with fitted coefficients" if base.any_objective else ""
            return f"{row.name} takes no baseline of the maximum alone, got {base.name}{also}"
        else:
            return None
        return f"{row.name} takes {kinds}, got {base.name}"

    @property
    def is_unbiased(self) -> bool:
        """Whether the catalogue derives the estimate as unbiased for the objective's gradient."""
        both = self.estimator, self.baseline
        return all(choice.row.is_unbiased(**choice.params) for choice in both)

    @property
    def is_derived(self) -> bool:
        """Whether the catalogue derives the bias of the estimate, or its absence."""
        return self.estimator.row.derived and self.baseline.row.derived

    def expected_scale(self, n: int) -> float:
        """Return E[estimate] over the objective's gradient; NaN if the direction is biased, too."""
        both = self.estimator, self.baseline
        return math.prod(choice.row.expected_scale(n, self.k, **choice.params) for choice in both)

    @property
    def catalogue_order(self) -> tuple[int, int, str]:
        """The places of estimator and baseline in the catalogue, then the spellings: a sort key."""
        estimators, baselines = ESTIMATORS.names(), BASELINES.names()
        estimator, baseline = self.estimator.row.name, self.baseline.row.name
        return (
            # The user's own functions come last.
            estimators.index(estimator) if estimator in estimators else len(estimators),
            baselines.index(baseline) if baseline in baselines else len(baselines),
            f"{self.estimator.name} {self.baseline.name}",
        )

    @property
    def needed_beside_rewards(self) -> str:
        """The inputs of the weights besides rewards, as text; empty if there are none."""
        if self.fit == "oracle":
            return "complete enumeration"
        if self.needs_ratios:
            return "importance ratios, of several steps per batch"
        if self.uses_other_prompts:
            return "the groups of other prompts"
        return _BESIDE_REWARDS["grad_norm" if self.fit else self.needed_weight]

    @property
    def needs_rewards_alone(self) -> bool:
        """Whether `advantages` computes the weights from rewards alone."""
        return not self.needed_beside_rewards

    @property
    def is_shift_invariant(self) -> bool:
        """Whether adding a constant to all rewards of a group changes no weight."""
        row = self.baseline.row if self.estimator.row.has_objective else self.estimator.row
        return row.shift_invariant

    @property
    def takes_baseline(self) -> bool:
        """Whether the estimator takes a baseline other than `none`."""
        return self.estimator.row.takes_baseline

    @property
    def needed_weight(self) -> str | None:
        """The trajectory weight of the baseline: length, logit_proxy, grad_norm, or None."""
        return self.baseline.row.needs(**self.baseline.params) if self.takes_baseline else None

    @property
    def fit(self) -> str | None:
        """The fit of the coefficients: cross_fit or oracle; None without coefficients."""
        return self.baseline.row.fit(**self.baseline.params) if self.takes_baseline else None

    @property
    def uses_other_prompts(self) -> bool:
        """Whether the weights of a group use the groups of other prompts."""
        return self.takes_baseline and self.baseline.row.across_prompts

    @property
    def needs_ratios(self) -> bool:
        """Whether it needs importance ratios, because another policy sampled the trajectories."""
        return self.estimator.row.needs_ratios

    @property
    def needs_binary_rewards(self) -> bool:
        """Whether it is defined for rewards 0 and 1 only."""
        return self.estimator.row.binary_rewards or self.baseline.row.binary_rewards

    def weights(
        self,
        rewards: Tensor,
        *,
        trajectory_weights: Mapping[str, Tensor] | None = None,
        weight_normalization: str = "none",
        ratios: Tensor | None = None,
        coefficients: Tensor | None = None,
    ) -> Tensor:
        """Return the weights w of the estimate sum_i w_i grad log pi(tau_i); w carries 1/n.

        rewards: `[..., n]`, i.i.d. along n, higher is better. Returns `[..., n]` in their floating
        dtype (float64 for integers and booleans), without gradient. `trajectory_weights` maps a
        kind (length, logit_proxy, grad_norm: the *squared* score norm) to the weights of the
        samples `[..., n]` in the baseline. Only the kind `needed_weight` is used.

        `ratios`, `[..., n]`, are the positive importance ratios pi / pi_old of whole trajectories;
        pass them if and only if the method `needs_ratios`. `coefficients`, `[..., D]`, broadcast
        over the groups; pass them for a method with a `fit`: D = 1 for `affine` and `constant`, D =
        K - 1 for `ladder`. For `joint_optimum`, D = n, and the coefficients are the baselines b_i.

        A `weight_normalization` other than none (of `WEIGHT_NORMALIZATIONS`) biases the estimate.

        Raises `LabError` if the method cannot run at this n, a reward is not finite, or a
        trajectory weight, ratio or coefficient is missing, invalid or not accepted by the method.
        """
        from maxk_lab.estimators import checks

        self.check_size(checks.check_rewards(rewards))
        values = checks.check_binary(rewards) if self.needs_binary_rewards else rewards
        numbers = self._numbers(rewards, trajectory_weights, ratios, coefficients)
        chosen, base = self.estimator, self.baseline
        options = {"ratios": numbers.pop("ratios", None), "baseline_name": base.name}
        if base.row.any_objective:
            numbers["objective"] = None if self._objective.is_max else self._objective
        if self.fit is None:
            numbers |= base.params
        if chosen.row.has_objective:
            weights = base.row.weights(values, self.k, **numbers)
        else:
            options["baseline_weights"] = partial(base.row.weights, **numbers)
            options = {name: x for name, x in options.items() if name in chosen.row.takes}
            weights = chosen.row.function(values, self.k, **chosen.params, **options)
        weights = checks.round_to(weights, checks.result_dtype(rewards))
        return _normalized(weights, weight_normalization)

    def check_size(self, n: int) -> None:
        """Raise `LabError` if the method cannot run with n samples."""
        from maxk_lab.estimators.checks import check_k

        check_k(self.k, n)
        problem = self.refusal(n)
        if problem is not None:
            raise LabError(problem)

    def _numbers(
        self,
        rewards: Tensor,
        trajectory_weights: Mapping[str, Tensor] | None,
        ratios: Tensor | None,
        coefficients: Tensor | None,
    ) -> dict[str, Any]:
        """Return the checked arguments besides rewards, by the parameter names of the functions."""
        from maxk_lab.estimators import checks

        estimator, baseline, kind = self.estimator.name, self.baseline.name, self.needed_weight
        for name, numbers, needed, who, what in (
            (
                "ratios",
                ratios,
                self.needs_ratios,
                estimator,
                "ratios, one positive number pi / pi_old per sample",
            ),
            ("coefficients", coefficients, self.fit, baseline, "its fitted coefficients, [..., D]"),
        ):
            if needed and numbers is None:
                raise LabError(f"{who} needs {what}, got none")
            if numbers is not None and not needed:
                raise LabError(f"{who} takes no {name}: leave them out")
        checked: dict[str, Any] = {}
        if ratios is not None:
            checked["ratios"] = checks.check_ratios(ratios, rewards)
        if coefficients is not None:
            count = self.baseline.row.coefficients(rewards.shape[-1], self.k)
            checked["coefficients"] = checks.check_coefficients(coefficients, rewards, count)
        if kind is not None:
            by_kind = trajectory_weights or {}
            if kind not in by_kind:
                raise LabError(
                    f"{baseline} needs trajectory_weights[{kind!r}], one positive number per "
                    f"sample, got {', '.join(by_kind) or 'none'}"
                )
            checked["g"] = checks.check_trajectory_weights(by_kind[kind], rewards)
        return checked


def _normalized(weights: Tensor, how: str) -> Tensor:
    """Return weights `[..., n]` normalised within each group, in their own dtype."""
    if how == "none":
        return weights
    if how not in WEIGHT_NORMALIZATIONS:
        also = did_you_mean(how, WEIGHT_NORMALIZATIONS)
        raise LabError(
            f"weight_normalization must be one of {', '.join(WEIGHT_NORMALIZATIONS)}, got "
            f"{how!r}{also}"
        )
    exact = weights.double()
    centred = exact - exact.mean(-1, keepdim=True)
    if how == "zscore":
        if weights.shape[-1] < 2:
            raise LabError("weight_normalization zscore needs n >= 2 samples, got n = 1")
        centred = centred / (exact.std(-1, keepdim=True) + _EPS)
    return centred.to(weights.dtype)
