"""The shape of a catalogue row of this room: what holds for an estimator or a baseline, and where it cannot run.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Parameter, Row

# The positive numbers per trajectory that a baseline may weight by, and what each is.
TRAJECTORY_WEIGHTS = {
    "uniform": "1",
    "length": "the number of tokens or decisions",
    "logit_proxy": "the sum over t of 1 - 2 pi_t + sum_a pi_t(a)^2",
    "grad_norm": "the exact squared norm of grad log pi",
}


@dataclass(frozen=True, kw_only=True)
class MethodRow(Row):
    """What holds for estimators and baselines alike: which objective, how biased, for which (n, K)."""

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
        """Whether the row, with its parameter at this value (the default if not given), is unbiased."""
        if self.unbiased or self.parameter is None:
            return self.unbiased
        return params.get(self.parameter.name, self.parameter.default) in self.unbiased_settings

    def expected_scale(self, n: int, k: int, **params: Any) -> float:
        """The factor between the estimate's mean and the gradient; NaN if its direction is biased too."""
        if self.scale is not None:
            return self.scale(n, k)
        return 1.0 if self.is_unbiased(**params) else float("nan")


@dataclass(frozen=True, kw_only=True)
class EstimatorRow(MethodRow):
    """An estimator `f(rewards, k, baseline_function, *, stable_sort, **params) -> w`."""

    fixed_k: int | None = None
    takes_baseline: bool = True


@dataclass(frozen=True, kw_only=True)
class WholeGroupRow(EstimatorRow):
    """An estimator that exists for the maximum of all n samples only: K = n."""

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        if k != n:
            return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"
        return super().refusal(n, k, **params)


@dataclass(frozen=True, kw_only=True)
class BaselineRow(MethodRow):
    """A baseline `f(rewards, k, *, stable_sort, **params) -> w = s - b`.

    Where `needs` names a kind of trajectory weight, the function takes it as `g`, `[..., n]`. A `token_level`
    row gives one weight per token and runs through `token_advantages` alone.
    """

    trajectory_weight: str | None = None
    token_level: bool = False

    def needs(self, **params: Any) -> str | None:
        """The kind of trajectory weight the function needs: length, logit_proxy or grad_norm; None for none."""
        return self.trajectory_weight


@dataclass(frozen=True, kw_only=True)
class AffineRow(BaselineRow):
    """A baseline whose second end, at K - 1, exists from K = 2 on."""

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        if k < 2 and params.get("alpha", 0.5) != 0:
            return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"
        return super().refusal(n, k, **params)


@dataclass(frozen=True, kw_only=True)
class WeightedRow(BaselineRow):
    """A baseline whose parameter is the kind of trajectory weight; `uniform` needs none."""

    def needs(self, **params: Any) -> str | None:
        assert self.parameter is not None
        kind: str = params.get(self.parameter.name, self.parameter.default)
        return None if kind == "uniform" else kind
