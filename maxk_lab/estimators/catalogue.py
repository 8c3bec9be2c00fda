"""The catalogue of estimators and baselines: formula, objective, bias, limits and source of each.

Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from maxk_lab.catalogue import Catalogue, Parameter, Row
from maxk_lab.errors import LabError

_PKPO = "Walder and Karkhanis 2025 (PKPO), arXiv 2505.15201"


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
    least_k: int = 1
    k_below_n: bool = False
    # Where E[estimate] = scale(n, K) * gradient; None for a bias that is not of scale alone.
    scale: Callable[[int, int], float] | None = lambda n, k: 1.0
    # Further spellings, with other values of the parameter, that `maxk-lab check` runs.
    examples: tuple[str, ...] = ()

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        """Why this row cannot run with n samples and subsets of K, or None."""
        if self.least_k <= k <= (n - 1 if self.k_below_n else n):
            return None
        return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"

    def expected_scale(self, n: int, k: int) -> float:
        """The factor between the estimate's mean and the gradient; NaN if its direction is biased too."""
        return float("nan") if self.scale is None else self.scale(n, k)


@dataclass(frozen=True, kw_only=True)
class EstimatorRow(MethodRow):
    """An estimator `f(rewards, k, baseline_function, *, stable_sort, **params) -> w`."""

    fixed_k: int | None = None
    takes_baseline: bool = True


@dataclass(frozen=True, kw_only=True)
class BaselineRow(MethodRow):
    """A baseline `f(rewards, k, *, stable_sort, **params) -> w = s - b`."""


@dataclass(frozen=True, kw_only=True)
class AffineRow(BaselineRow):
    """A baseline whose second end, at K - 1, exists from K = 2 on."""

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        if k < 2 and params.get("alpha", 0.5) != 0:
            return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"
        return super().refusal(n, k, **params)


ESTIMATORS: Catalogue[EstimatorRow] = Catalogue(
    "estimator",
    [
        EstimatorRow(
            name="maxk",
            meaning="gradient of the expected maximum of K rewards, from all subsets of n samples",
            formula="s_i = sum of max R over the K-subsets that contain i, divided by C(n,K)",
            unbiased=True,
            condition="the n samples are i.i.d. and the baseline is unbiased",
            constraint="1 <= K <= n",
            shift_invariant=False,
            implementation="maxk_lab.estimators.weights:maxk",
            citation=_PKPO,
        ),
        EstimatorRow(
            name="reinforce",
            meaning="gradient of the ordinary expected reward: maxk at K = 1",
            formula="s_i = R_i / n",
            objective="J_1",
            unbiased=True,
            condition="the n samples are i.i.d. and the baseline is unbiased",
            constraint="1 <= n, K counts as 1",
            shift_invariant=False,
            fixed_k=1,
            implementation="maxk_lab.estimators.weights:reinforce",
            citation="Williams 1992; with `centred`: Kool, van Hoof and Welling 2019 (RLOO)",
        ),
    ],
    "maxk_lab.estimators",
)

BASELINES: Catalogue[BaselineRow] = Catalogue(
    "baseline",
    [
        BaselineRow(
            name="none",
            meaning="no baseline",
            formula="w_i = s_i",
            unbiased=True,
            condition="the n samples are i.i.d.",
            constraint="1 <= K <= n",
            shift_invariant=False,
            implementation="maxk_lab.estimators.weights:maxk_gradient_weights",
            citation=_PKPO,
        ),
        BaselineRow(
            name="group_mean",
            meaning="mean score weight of the group, own sample included: right direction, too short",
            formula="w_i = s_i - mean(s)",
            unbiased=False,
            condition="biased in scale only: (1 - K/n) times the gradient",
            constraint="1 <= K < n",
            shift_invariant=True,
            k_below_n=True,
            scale=lambda n, k: 1.0 - k / n,
            implementation="maxk_lab.estimators.baselines:group_mean_weights",
            citation="K = 1: the numerator of GRPO, Shao et al. 2024, arXiv 2402.03300",
        ),
        BaselineRow(
            name="centred",
            meaning="Max@K value of the other samples, on the scale of s; RLOO at K = 1",
            formula="w_i = s_i - (K/n) rho_-i(K) = n/(n-K) (s_i - mean(s))",
            unbiased=True,
            condition="the n samples are i.i.d.",
            constraint="1 <= K < n",
            shift_invariant=True,
            k_below_n=True,
            implementation="maxk_lab.estimators.baselines:centred_weights",
            citation="K = 1: Kool, van Hoof and Welling 2019 (RLOO), Buy 4 REINFORCE samples",
        ),
        BaselineRow(
            name="sample_loo",
            meaning="Max@K value of the other samples as it is: n/K too large for s",
            formula="w_i = s_i - rho_-i(K)",
            unbiased=True,
            condition="the n samples are i.i.d.",
            constraint="1 <= K < n",
            shift_invariant=False,
            k_below_n=True,
            implementation="maxk_lab.estimators.baselines:sample_loo_weights",
            citation="Sample-LOO: the plain leave-one-out value as a baseline",
        ),
        BaselineRow(
            name="pkpo_sloo",
            meaning="mean score weight of the other samples among themselves (PKPO's sloo)",
            formula="w_i = s_i - K/(n-1) rho_-i(K)",
            unbiased=True,
            condition="the n samples are i.i.d.",
            constraint="1 <= K < n",
            shift_invariant=False,
            k_below_n=True,
            implementation="maxk_lab.estimators.baselines:pkpo_sloo_weights",
            citation=_PKPO,
        ),
        BaselineRow(
            name="subloo",
            meaning="each subset's gap between best and second best, to its best (PKPO's sloo_minus_one)",
            formula="w_i = s_i - (K/n) rho_-i(K-1)",
            unbiased=True,
            condition="the n samples are i.i.d.",
            constraint="2 <= K <= n",
            shift_invariant=True,
            least_k=2,
            implementation="maxk_lab.estimators.baselines:subloo_weights",
            citation=_PKPO,
        ),
        AffineRow(
            name="affine",
            meaning="between centred (alpha = 0) and subloo (alpha = 1), and beyond",
            formula="w_i = s_i - (K/n) [rho_-i(K) - alpha (rho_-i(K) - rho_-i(K-1))]",
            unbiased=True,
            condition="the n samples are i.i.d. and alpha is fixed before they are drawn",
            constraint="2 <= K < n (1 <= K < n if alpha = 0)",
            shift_invariant=True,
            k_below_n=True,
            parameter=Parameter("alpha", float, 0.5, meaning="0 is centred, 1 is subloo"),
            examples=("affine[0.0]", "affine[1.0]", "affine[-0.75]", "affine[1.5]"),
            implementation="maxk_lab.estimators.baselines:affine_weights",
            citation="this project",
        ),
    ],
    "maxk_lab.baselines",
)

MethodType = TypeVar("MethodType", bound=MethodRow)
_SPELLING = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<value>[^\[\]]*)\])?")


@dataclass(frozen=True)
class Choice(Generic[MethodType]):
    """A row with its parameter bound; `name` is its one canonical spelling, such as `affine[0.5]`."""

    row: MethodType
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


def _choose(catalogue: Catalogue[MethodType], spelling: str) -> Choice[MethodType]:
    match = _SPELLING.fullmatch(spelling.strip()) if isinstance(spelling, str) else None
    if match is None:
        raise LabError(f"{catalogue.kind} must be a name or name[value], got {spelling!r}")
    row = catalogue.get(match["name"].strip())
    if row.parameter is None:
        if match["value"] is not None:
            raise LabError(f"{catalogue.kind} {row.name} takes no parameter, got {spelling!r}")
        return Choice(row, row.name)
    written = row.parameter.default if match["value"] is None else match["value"].strip()
    value = row.parameter.parse(written)
    if value == 0 and row.parameter.kind is float:
        value = 0.0  # not -0.0, which would be a second spelling
    return Choice(row, f"{row.name}[{value}]", {row.parameter.name: value})


def choose_estimator(spelling: str) -> Choice[EstimatorRow]:
    """The estimator that `name` or `name[value]` means. Raises `LabError` with what is allowed."""
    return _choose(ESTIMATORS, spelling)


def choose_baseline(spelling: str) -> Choice[BaselineRow]:
    """The baseline that `name` or `name[value]` means. Raises `LabError` with what is allowed."""
    return _choose(BASELINES, spelling)


def effective_k(estimator: str, k: int) -> int:
    """The K of the objective that the estimator targets when asked for `k`: 1 for `reinforce`."""
    fixed = choose_estimator(estimator).row.fixed_k
    return k if fixed is None else fixed


def refusal(estimator: str, baseline: str, n: int, k: int) -> str | None:
    """Why this pair cannot run with n samples and subsets of K, or None.

    Raises `LabError` for unknown names.
    """
    chosen, base = choose_estimator(estimator), choose_baseline(baseline)
    k = effective_k(estimator, k)
    if not chosen.row.takes_baseline and base.name != "none":
        return f"{chosen.row.name} takes no baseline, got {base.name}"
    return chosen.row.refusal(n, k, **chosen.params) or base.row.refusal(n, k, **base.params)


def is_unbiased(estimator: str, baseline: str) -> bool:
    """Whether the pair is catalogued as unbiased for the gradient of its objective."""
    return choose_estimator(estimator).row.unbiased and choose_baseline(baseline).row.unbiased


def expected_scale(estimator: str, baseline: str, n: int, k: int) -> float:
    """E[estimate] = this number * gradient of J_effective_k; NaN where the direction is biased too."""
    rows = choose_estimator(estimator).row, choose_baseline(baseline).row
    at_k = effective_k(estimator, k)
    return rows[0].expected_scale(n, at_k) * rows[1].expected_scale(n, at_k)
