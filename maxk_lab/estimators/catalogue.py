"""The catalogue of estimators and baselines: formula, objective, bias, limits and source of each.

Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

from maxk_lab.catalogue import Catalogue
from maxk_lab.errors import LabError
from maxk_lab.estimators.baselines.rows import BASELINE_ROWS
from maxk_lab.estimators.kinds import (
    TRAJECTORY_WEIGHTS,
    AffineRow,
    BaselineRow,
    EstimatorRow,
    MethodRow,
)
from maxk_lab.estimators.methods.rows import ESTIMATOR_ROWS
from maxk_lab.estimators.objectives import Objective
from maxk_lab.estimators.parameters import spell

__all__ = [
    "BASELINES",
    "ESTIMATORS",
    "TRAJECTORY_WEIGHTS",
    "AffineRow",
    "BaselineRow",
    "Choice",
    "EstimatorRow",
    "MethodRow",
    "Objective",
    "choose_baseline",
    "choose_estimator",
    "effective_k",
    "expected_scale",
    "fit_of",
    "is_ordered",
    "is_token_level",
    "is_unbiased",
    "needed_weight",
    "needs_binary_rewards",
    "needs_ratios",
    "objective",
    "refusal",
]

ESTIMATORS: Catalogue[EstimatorRow] = Catalogue("estimator", ESTIMATOR_ROWS, "maxk_lab.estimators")
BASELINES: Catalogue[BaselineRow] = Catalogue("baseline", BASELINE_ROWS, "maxk_lab.baselines")

MethodType = TypeVar("MethodType", bound=MethodRow)
_SPELLING = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<value>[^\[\]]*)\])?")


@dataclass(frozen=True)
class Choice(Generic[MethodType]):
    """A row with its parameter bound; `name` is its one canonical spelling, such as `affine[0.5]`."""

    row: MethodType
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


def _choose(catalogue: Catalogue[MethodType], spelling: str) -> Choice[MethodType]:
    if not isinstance(spelling, str):
        raise LabError(f"{catalogue.kind} must be a name or name[value], got {spelling!r}")
    return cast("Choice[MethodType]", _chosen(catalogue, spelling))


# A plan asks for the same few names once per grid point.
@lru_cache(maxsize=512)
def _chosen(catalogue: Catalogue[Any], spelling: str) -> Choice[Any]:
    match = _SPELLING.fullmatch(spelling.strip())
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
    return Choice(row, f"{row.name}[{spell(value)}]", {row.parameter.name: value})


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


def objective(estimator: str, k: int) -> Objective:
    """The objective whose gradient the estimator is for when asked for `k`: the expected maximum for most.

    Raises `LabError` where K rewards have no such statistic.
    """
    chosen = choose_estimator(estimator)
    return chosen.row.objective_of(k, **chosen.params)


def refusal(estimator: str, baseline: str, n: int, k: int) -> str | None:
    """Why this pair cannot run with n samples and subsets of K, or None.

    Raises `LabError` for unknown names.
    """
    chosen, base = choose_estimator(estimator), choose_baseline(baseline)
    k = effective_k(estimator, k)
    return (
        chosen.row.baseline_refusal(base.row, **base.params)
        or chosen.row.refusal(n, k, **chosen.params)
        or base.row.refusal(n, k, **base.params)
    )


def is_unbiased(estimator: str, baseline: str) -> bool:
    """Whether the pair is catalogued as unbiased for the gradient of its objective."""
    chosen, base = choose_estimator(estimator), choose_baseline(baseline)
    return chosen.row.is_unbiased(**chosen.params) and base.row.is_unbiased(**base.params)


def expected_scale(estimator: str, baseline: str, n: int, k: int) -> float:
    """E[estimate] = this number * gradient of J_effective_k; NaN where the direction is biased too."""
    chosen, base = choose_estimator(estimator), choose_baseline(baseline)
    at_k = effective_k(estimator, k)
    return chosen.row.expected_scale(n, at_k, **chosen.params) * base.row.expected_scale(
        n, at_k, **base.params
    )


def needed_weight(estimator: str, baseline: str) -> str | None:
    """The kind of trajectory weight that the pair needs: length, logit_proxy or grad_norm; None for none."""
    base = choose_baseline(baseline)
    return base.row.needs(**base.params) if choose_estimator(estimator).row.takes_baseline else None


def needs_ratios(estimator: str) -> bool:
    """Whether the estimator needs the samples' importance ratios: it is for trajectories of another policy."""
    return choose_estimator(estimator).row.needs_ratios


def is_ordered(estimator: str) -> bool:
    """Whether the estimator's weights depend on the order in which the samples were drawn."""
    return choose_estimator(estimator).row.ordered


def fit_of(estimator: str, baseline: str) -> str | None:
    """How the pair's coefficients are fitted: cross_fit, same_batch or oracle; None where it has none to fit."""
    base = choose_baseline(baseline)
    return base.row.fit(**base.params) if choose_estimator(estimator).row.takes_baseline else None


def is_token_level(baseline: str) -> bool:
    """Whether the baseline gives one weight per token, through `token_advantages`, not one per sample."""
    return choose_baseline(baseline).row.token_level


def needs_binary_rewards(estimator: str, baseline: str) -> bool:
    """Whether the pair is defined for rewards 0 and 1 only."""
    return (
        choose_estimator(estimator).row.binary_rewards
        or choose_baseline(baseline).row.binary_rewards
    )
