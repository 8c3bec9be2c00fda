"""The shape of a catalogue row of this room.

A row says what holds for an estimator or a baseline, and where it cannot run.

Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Parameter, Row
from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective

# The positive numbers per trajectory that a baseline may weight by, and what each is.
TRAJECTORY_WEIGHTS = {
    "uniform": "1",
    "length": "the number of tokens or decisions",
    "logit_proxy": "the sum over t of 1 - 2 pi_t + sum_a pi_t(a)^2",
    "grad_norm": "the exact squared norm of grad log pi",
}


@dataclass(frozen=True, kw_only=True)
class MethodRow(Row):
    """The facts of estimators and baselines alike: objective, bias, and (n, K) allowed."""

    formula: str
    objective: str = "J_K"
    unbiased: bool
    condition: str
    constraint: str
    shift_invariant: bool
    parameter: Parameter | None = None
    least_n: int = 1
    least_k: int = 1
    most_k: int | None = None
    k_below_n: bool = False
    # Whether the row is defined for rewards 0 and 1 only.
    binary_rewards: bool = False
    # Where E[estimate] = scale(n, K) * gradient; None for a bias that is not of scale alone.
    scale: Callable[[int, int], float] | None = lambda n, k: 1.0
    # Values of the parameter at which a row that is biased in general is unbiased.
    unbiased_settings: tuple[Any, ...] = ()
    # Values of the parameter at which a row that is unbiased in general is biased, in direction
    # too.
    biased_settings: tuple[Any, ...] = ()
    # The definition on a group of exact fractions, `package.module:name`, that `maxk-lab check`
    # compares the function with; a row without one is checked for its bias only.
    twin: str | None = None
    # Further spellings, with other values of the parameter, that `maxk-lab check` runs.
    examples: tuple[str, ...] = ()

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        """Why this row cannot run with n samples and subsets of K, or None."""
        most = n - 1 if self.k_below_n else n
        if self.most_k is not None:
            most = min(most, self.most_k)
        if n >= self.least_n and self.least_k <= k <= most:
            return None
        return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"

    def is_unbiased(self, **params: Any) -> bool:
        """Whether the row is unbiased with its parameter at this value, by default the default."""
        if self.parameter is None:
            return self.unbiased
        value = params.get(self.parameter.name, self.parameter.default)
        return (
            value not in self.biased_settings if self.unbiased else value in self.unbiased_settings
        )

    def expected_scale(self, n: int, k: int, **params: Any) -> float:
        """The estimate's mean over the gradient; NaN if its direction is biased, too."""
        if self.scale is not None and (self.is_unbiased(**params) or not self.unbiased):
            return self.scale(n, k)
        return 1.0 if self.is_unbiased(**params) else float("nan")


@dataclass(frozen=True, kw_only=True)
class EstimatorRow(MethodRow):
    """An estimator `f(rewards, k, baseline_function, *, stable_sort, **params) -> w`.

    One that `needs_ratios` is `f(rewards, ratios, k, baseline) -> w` instead, `baseline` being a
    name. The twin is `f(group, k, baseline, **params) -> w` with the twin of the baseline, its
    parameters bound; `f(group, k, **params)` where the estimator takes no baseline, and with
    importance ratios `f(group, k, *, ratios, baseline)`, `ratios` being the group's and `baseline`
    a name.
    """

    fixed_k: int | None = None
    takes_baseline: bool = True
    # Whether the weights need the samples' importance ratios.
    needs_ratios: bool = False
    # Whether the weights depend on the order in which the samples were drawn, too.
    ordered: bool = False

    def objective_of(self, k: int, **params: Any) -> Objective:
        """The objective at `k`: the expected maximum of K rewards, or of `fixed_k`."""
        return Objective("max", k if self.fixed_k is None else self.fixed_k)

    def own_options(self, **params: Any) -> dict[str, Any]:
        """The keyword arguments of the estimator's function: its parameter."""
        return params

    def baseline_options(self, k: int, **params: Any) -> dict[str, Any]:
        """The keyword arguments of the baseline's function beside those of the baseline: none."""
        return {}

    def baseline_refusal(self, baseline: BaselineRow, **params: Any) -> str | None:
        """Why this estimator cannot take `baseline`, whose parameters are `params`, or None."""
        if not self.takes_baseline and baseline.name != "none":
            return f"{self.name} takes no baseline, got {baseline.name}"
        return None


@dataclass(frozen=True, kw_only=True)
class WholeGroupRow(EstimatorRow):
    """An estimator that exists for the maximum of all n samples only: K = n."""

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        if k != n:
            return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"
        return super().refusal(n, k, **params)


@dataclass(frozen=True, kw_only=True)
class ObjectiveRow(EstimatorRow):
    """An estimator whose name, with its parameter, is the form of an objective.

    Its function takes no parameter: the objective is bound to the baseline's function.
    """

    def objective_of(self, k: int, **params: Any) -> Objective:
        """The row's form at `k`. Raises `LabError` where K rewards have no such statistic."""
        value = None if self.parameter is None else params[self.parameter.name]
        return Objective.of(self.name, value, k)

    def own_options(self, **params: Any) -> dict[str, Any]:
        return {}

    def baseline_options(self, k: int, **params: Any) -> dict[str, Any]:
        return {"objective": self.objective_of(k, **params)}

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        problem = super().refusal(n, k, **params)
        if problem is None:
            try:
                self.objective_of(k, **params)
            except LabError as error:
                return str(error)
        return problem

    def baseline_refusal(self, baseline: BaselineRow, **params: Any) -> str | None:
        if baseline.any_objective and baseline.fit(**params) is None:
            return super().baseline_refusal(baseline, **params)
        also = " with fitted coefficients" if baseline.any_objective else ""
        return f"{self.name} takes no baseline of the maximum alone, got {baseline.name}{also}"


@dataclass(frozen=True, kw_only=True)
class PartitionedRow(EstimatorRow):
    """An estimator on disjoint groups of K samples.

    K divides n, and `loo` needs another group.
    """

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        problem = super().refusal(n, k, **params)
        if problem is None and (n % k or (params.get("baseline") == "loo" and n < 2 * k)):
            return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"
        return problem


@dataclass(frozen=True, kw_only=True)
class BaselineRow(MethodRow):
    """A baseline `f(rewards, k, *, stable_sort, **params) -> w = s - b`.

    Where `needs` names a kind of trajectory weight, the function takes it as `g`, `[..., n]`. One
    of `any_objective` takes an `objective`, too. A `token_level` row gives one weight per token and
    runs through `token_advantages` alone. The twin is `f(group, k, **params) -> w`, with the same
    `g` and `objective`.
    """

    trajectory_weight: str | None = None
    token_level: bool = False
    # Whether the baseline exists for every L-statistic, not for the maximum alone.
    any_objective: bool = False
    # Whether the baseline exists for the estimators with importance ratios.
    off_policy: bool = False

    def needs(self, **params: Any) -> str | None:
        """The trajectory weight it needs: length, logit_proxy or grad_norm; None for none."""
        return self.trajectory_weight

    def fit(self, **params: Any) -> str | None:
        """The way the coefficients are fitted: cross_fit, same_batch or oracle; None without."""
        return None


@dataclass(frozen=True, kw_only=True)
class FittedRow(BaselineRow):
    """A baseline whose parameter is its coefficients, or the word for how they are fitted.

    Fitted, its weights are `f(rewards, k, *, coefficients, stable_sort) -> w` with `f` the function
    `fitted`, and `f(group, k, *, coefficients) -> w` with `f` the definition `fitted_twin`.
    """

    fitted: str
    fitted_twin: str | None = None
    biased_settings: tuple[Any, ...] = ("same_batch",)

    def fit(self, **params: Any) -> str | None:
        if self.parameter is None:
            return "oracle"
        value = params.get(self.parameter.name, self.parameter.default)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, kw_only=True)
class AffineRow(FittedRow):
    """A baseline whose second end, at K - 1, exists from K = 2 on."""

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        if k < 2 and params.get("alpha", 0.5) != 0:
            return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"
        return super().refusal(n, k, **params)


@dataclass(frozen=True, kw_only=True)
class LadderRow(FittedRow):
    """A baseline with one coefficient per rung 1..K."""

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        problem = super().refusal(n, k, **params)
        alpha = params.get("alpha")
        if problem is None and isinstance(alpha, tuple):
            if len(alpha) != k:
                return (
                    f"{self.name} needs one coefficient per rung 1..K, got {len(alpha)} and K = {k}"
                )
            if abs(math.fsum(alpha) - 1.0) > 1e-9:
                return f"{self.name} needs coefficients whose sum is 1, got {math.fsum(alpha)}"
        return problem


@dataclass(frozen=True, kw_only=True)
class WeightedRow(BaselineRow):
    """A baseline whose parameter is the kind of trajectory weight; `uniform` needs none."""

    def needs(self, **params: Any) -> str | None:
        assert self.parameter is not None
        kind: str = params.get(self.parameter.name, self.parameter.default)
        return None if kind == "uniform" else kind
