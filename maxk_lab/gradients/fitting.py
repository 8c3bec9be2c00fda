"""Baselines whose coefficients are fitted: on other instances, on the own group, or exactly.

A family's weights are w0 + D α with directions D, so ‖ĝ‖² of a group is a quadratic form in α and
its mean over groups has a least value: the estimate's variance, as no α moves its mean. Where α
comes from *other* instances (cross_fit) or from the policy itself (oracle) it does not depend on
the group, and the estimate stays unbiased; fitted on the own group (same_batch) it is biased.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Protocol

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.baselines.least_squares import Equations, normal_equations
from maxk_lab.estimators.baselines.linear_families import family_terms
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.enumerated.moments import Classes, Outcomes, Weigh
from maxk_lab.gradients.enumerated.oracle import joint_optimum


class Groups(Protocol):
    """Groups of n trajectories of I instances, U units each, Rep groups a unit.

    Their rewards are [I, U, Rep, n] float64.
    """

    rewards: Tensor

    def products(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ⟨Σ_i a_i ψ_i, Σ_i b_i ψ_i⟩ of every group, [I, U, Rep, P, Q].

        a is [I, U, Rep, n, P] and b [I, U, Rep, n, Q].
        """
        ...


def cross_fit(rewards: Tensor, gram: Tensor, k: int, family: str) -> Tensor:
    """Return the coefficients for each of I instances from the groups of all others, [I, D].

    rewards are [I, ..., n], gram [I, ..., n, n]. `family` is affine or ladder. Raises `ValueError`
    for fewer than two instances and where the family does not take (n, k).
    """
    a, c = normal_equations(*family_terms(rewards, k, family), gram)
    shape = a.shape[-1]
    by_instance = Equations(
        a.reshape(len(a), -1, shape, shape).sum(1), c.reshape(len(c), -1, shape).sum(1)
    )
    return _from_others(by_instance)


def same_batch(rewards: Tensor, gram: Tensor, k: int, family: str) -> Tensor:
    """Return the coefficients of each group from itself, which biases it: [..., D].

    rewards are [..., n], gram [..., n, n].
    """
    return normal_equations(*family_terms(rewards, k, family), gram).solution()


def _from_others(by_instance: Equations) -> Tensor:
    """Return the coefficients [I, D] for each instance from all others.

    Raises `ValueError` for fewer than two instances.
    """
    instances = len(by_instance.a)
    if instances < 2:
        raise ValueError(
            "a cross-fit takes its coefficients from the other instances: "
            f"it needs at least 2, got {instances}"
        )
    return by_instance.of_others().solution()


class SampledFits:
    """The coefficients that sampled groups give.

    `groups` are those of several partitions of the same trajectories.
    """

    def __init__(self, groups: Sequence[Groups]) -> None:
        self._groups = groups
        self._by_instance = cache(self._by_instance_of)

    def coefficients(self, estimator: str, baseline: str, k: int) -> list[Tensor] | list[None]:
        """Return the pair's coefficients per partition, as `advantages` takes them, or None.

        cross_fit: [I, 1, 1, D], the same for every partition; same_batch: [I, U, Rep, D], of every
        group from itself. Raises `LabError` for what only complete enumeration gives (oracle),
        `ValueError` for a cross-fit of one instance and for a pair that cannot run at this (n, K).
        """
        method = Method.parse(estimator, baseline, k)
        if method.fit is None:
            return [None] * len(self._groups)
        how, family, k = _checked(method, self._groups[0].rewards.shape[-1])
        if how == "oracle":
            raise LabError(
                f"{baseline} needs every group to be enumerated: set complete: true, "
                "with an environment, n and so few "
                "trajectories that this can be done"
            )
        if how == "same_batch":
            return [_equations(part, k, family).solution() for part in self._groups]
        return [self.cross_fit(k, family)[:, None, None]] * len(self._groups)

    def cross_fit(self, k: int, family: str) -> Tensor:
        """Return the coefficients for each instance from all partitions of all others, [I, D].

        `family` is affine or ladder.
        """
        found = self._by_instance(k)
        if family == "affine":  # its one direction is the ladder's last
            found = Equations(found.a[..., -1:, -1:], found.c[..., -1:])
        return _from_others(found)

    def _by_instance_of(self, k: int) -> Equations:
        """The ladder's equations of each instance, summed over its groups under all partitions."""
        parts = [_equations(part, k, "ladder") for part in self._groups]
        a = torch.stack([part.a.sum((1, 2)) for part in parts]).sum(0)
        return Equations(a, torch.stack([part.c.sum((1, 2)) for part in parts]).sum(0))


def _checked(method: Method, n: int) -> tuple[str | None, str, int]:
    """How the method is fitted, its family, and its K. Raises `ValueError` where it cannot run."""
    problem = method.refusal(n)
    if problem is not None:
        raise ValueError(problem)
    return method.fit, method.baseline.row.name, method.k


def _equations(groups: Groups, k: int, family: str) -> Equations:
    w0, directions = family_terms(groups.rewards, k, family)
    both = torch.cat([directions, w0.unsqueeze(-1)], -1)
    return Equations.of_products(groups.products(directions, both))


def oracle_coefficients(outcomes: Outcomes, n: int, k: int, family: str) -> Tensor:
    """Return the coefficients of least variance under the policy itself: [D].

    They solve the normal equations over every group of n. `family` is affine, ladder or constant.
    Raises `LabError` for trajectories of another policy, whose estimate the coefficients would
    move.
    """
    _check_on_policy(outcomes)
    classes = Classes.of(outcomes)
    total: Tensor | None = None
    for rows, chance in classes.groups(n):
        w0, directions = family_terms(classes.rewards[rows], k, family)
        terms = torch.cat([directions, w0.unsqueeze(-1)], -1)
        # Given their classes the scores are independent, each with its class's spread.
        pairs = classes.products[rows.unsqueeze(2), rows.unsqueeze(1)] + torch.diag_embed(
            classes.spread[rows]
        )
        products = ((terms.mT * chance.view(-1, 1, 1)) @ pairs @ terms).sum(0)
        total = products if total is None else total + products
    assert total is not None
    return Equations.of_products(total[:-1]).solution()


def _check_on_policy(outcomes: Outcomes) -> None:
    if outcomes.behaviour is not None:
        raise LabError(
            "the oracle's baseline is that of trajectories of the policy itself: leave out "
            "gradient.behaviour"
        )


@dataclass(frozen=True)
class EnumeratedFit:
    """How one instance is enumerated under a fitted baseline.

    outcomes: classes as fine as the weights need: where these see more than rewards, `outcomes.g`
    is the trajectory's number and every trajectory is a class of its own. weigh: the weights from
    what `Classes.arguments` gives of groups. coefficients: the D fixed numbers, or None where every
    group has its own.
    """

    outcomes: Outcomes
    weigh: Weigh
    coefficients: list[float] | None


def enumerated_fits(
    outcomes: Sequence[Outcomes], cell: Mapping[str, Any], sampled: Callable[[], SampledFits]
) -> list[EnumeratedFit] | None:
    """Return the fit of every instance for `cell`, whose baseline `fit_of` names.

    A cell has estimator, baseline, n and k. None is for too many groups. `sampled` gives the fits
    of the pool's groups, where cross_fit takes its coefficients from; it is called for that alone.
    Raises `ValueError` where the pair cannot run at this (n, K).
    """
    n = cell["n"]
    how, family, k = _checked(Method.of(cell), n)
    if how == "same_batch" or family == "joint_optimum":
        outcomes = [_each_apart(instance) for instance in outcomes]
    if not all(instance.enumerable(n) for instance in outcomes):
        return None
    if family == "joint_optimum":
        return [_joint_fit(instance, n, k) for instance in outcomes]
    if how == "same_batch":
        return [_own_fit(instance, cell, family) for instance in outcomes]
    if how == "cross_fit":
        found = list(sampled().cross_fit(k, family))
    else:
        found = [oracle_coefficients(instance, n, k, family) for instance in outcomes]
    return [_fixed_fit(instance, cell, own) for instance, own in zip(outcomes, found, strict=True)]


def _each_apart(outcomes: Outcomes) -> Outcomes:
    return replace(outcomes, g=torch.arange(len(outcomes.rewards), dtype=torch.float64))


def _fixed_fit(outcomes: Outcomes, cell: Mapping[str, Any], coefficients: Tensor) -> EnumeratedFit:
    weigh = partial(_weights, cell, coefficients)
    return EnumeratedFit(outcomes, lambda rewards, g, ratios: weigh(rewards), coefficients.tolist())


def _own_fit(outcomes: Outcomes, cell: Mapping[str, Any], family: str) -> EnumeratedFit:
    def weigh(rewards: Tensor, g: Tensor | None, ratios: Tensor | None) -> Tensor:
        assert g is not None
        rows = g.long()
        gram = outcomes.gram[rows.unsqueeze(-1), rows.unsqueeze(-2)]
        return _weights(
            cell,
            same_batch(rewards, gram, Method.of(cell).k, family),
            rewards,
        )

    return EnumeratedFit(outcomes, weigh, None)


def _joint_fit(outcomes: Outcomes, n: int, k: int) -> EnumeratedFit:
    _check_on_policy(outcomes)
    best = joint_optimum(outcomes, n, k)

    def weigh(rewards: Tensor, g: Tensor | None, ratios: Tensor | None) -> Tensor:
        assert g is not None
        return best.weights(rewards, g.long())

    return EnumeratedFit(outcomes, weigh, None)


def _weights(cell: Mapping[str, Any], coefficients: Tensor, rewards: Tensor) -> Tensor:
    return Method.of(cell).weights(rewards, coefficients=coefficients)
