"""The shape of an estimator's row, and where an estimator cannot run. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.estimators.baselines.kinds import BaselineRow
from maxk_lab.estimators.kinds import MethodRow
from maxk_lab.estimators.objectives import Objective


@dataclass(frozen=True, kw_only=True)
class EstimatorRow(MethodRow):
    """An estimator `f(rewards, k, baseline_function, *, stable_sort, **params) -> w`.

    One that `needs_ratios` is `f(rewards, ratios, k, baseline) -> w` instead, `baseline` being a
    name. The twin is `f(group, k, baseline, **params) -> w` with the twin of the baseline, its
    parameters bound; `f(group, k, **params)` where the estimator takes no baseline, and with
    importance ratios `f(group, k, *, ratios, baseline)`, `ratios` being the group's and `baseline`
    a name.
    """

    condition: str = "the n samples are i.i.d. and the baseline is unbiased"
    fixed_k: int | None = None
    takes_baseline: bool = True
    # Whether the weights need the samples' importance ratios.
    needs_ratios: bool = False
    # Whether the weights depend on the order in which the samples were drawn, too.
    ordered: bool = False

    @property
    def default_baseline(self) -> str:
        """The baseline where none is asked for: the estimator's built-in one, else `centred`."""
        return "centred" if self.takes_baseline else "none"

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
            return self.unmet(n, k)
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
            return self.unmet(n, k)
        return problem
