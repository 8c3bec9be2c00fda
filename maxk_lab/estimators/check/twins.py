"""The slow twin of any method, and what both need of a group besides its rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from maxk_lab.catalogue import load
from maxk_lab.estimators.baselines.kinds import FittedRow
from maxk_lab.estimators.check.bandit import some_coefficients
from maxk_lab.estimators.check.result import importance_ratios, trajectory_weights
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.reference.exact import per_group


def has_twin(method: Method) -> bool:
    """Whether the rows of the method bring what its slow twin is made of."""
    own = method.estimator.row.twin is not None
    return own and (_baseline_twin(method) is not None or not _is_of_baseline(method))


def slow_twin(method: Method) -> Callable[..., Tensor]:
    """The slow twin of `Method.weights`, for rewards and what `inputs` gives.

    The method must have one.
    """
    definition = _definition(method)

    def slow(
        rewards: Tensor,
        *,
        trajectory_weights: Mapping[str, Tensor] | None = None,
        ratios: Tensor | None = None,
        coefficients: Tensor | None = None,
    ) -> Tensor:
        of_group: dict[str, Any] = {}
        if trajectory_weights is not None and method.needed_weight is not None:
            of_group["g"] = trajectory_weights[method.needed_weight]
        if ratios is not None:
            of_group["ratios"] = ratios
        if coefficients is not None:
            of_group["coefficients"] = coefficients.expand(*rewards.shape[:-1], -1)
        return per_group(definition, rewards, method.k, **of_group)

    return slow


def _definition(method: Method) -> Callable[..., Any]:
    """The weights of a group of fractions at K, from the twins of the rows."""
    chosen, base = method.estimator, method.baseline
    assert chosen.row.twin is not None
    twin = partial(load(chosen.row.twin), **chosen.row.own_options(**chosen.params))
    if method.needs_ratios:
        return partial(twin, baseline=base.name)
    if not _is_of_baseline(method):
        return twin
    path = _baseline_twin(method)
    assert path is not None
    bound = {} if method.fit is not None else base.params
    options = chosen.row.baseline_options(method.k, **chosen.params)
    of_baseline = partial(load(path), **bound, **options)
    return lambda group, k, **of_group: twin(group, k, partial(of_baseline, **of_group))


def _is_of_baseline(method: Method) -> bool:
    """Whether the estimator is a function of its baseline's weights."""
    return method.takes_baseline and not method.needs_ratios


def _baseline_twin(method: Method) -> str | None:
    row = method.baseline.row
    if isinstance(row, FittedRow) and method.fit is not None:
        return row.fitted_twin
    return row.twin


def inputs(method: Method, group: Tensor) -> dict[str, Any]:
    """The arguments of `Method.weights` besides the rewards `[..., n]` of `group`."""
    found: dict[str, Any] = {}
    if method.needed_weight is not None:
        found["trajectory_weights"] = trajectory_weights(group)
    if method.needs_ratios:
        found["ratios"] = importance_ratios(group)
    if method.fit is not None:
        family = method.baseline.row.name
        # The baseline itself, or D numbers.
        count = method.k - 1 if family == "ladder" else 1
        found["coefficients"] = (
            importance_ratios(group) if family == "joint_optimum" else some_coefficients(count)
        )
    return found
