"""The shape of a baseline's row, and where a baseline cannot run. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from maxk_lab.estimators.kinds import MethodRow


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
            return self.unmet(n, k)
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
