"""Baselines whose coefficients are fitted: on other instances, on the own group, or exactly.

A family's weights are w0 + D α with directions D, so ‖ĝ‖² of a group is a quadratic form in α and
its mean over groups has a least value: the estimate's variance, as no α moves its mean. Where α
comes from *other* instances (cross_fit) or from the policy itself (oracle) it does not depend on
the group, and the estimate stays unbiased; fitted on the own group (same_batch) it is biased.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.baselines.least_squares import Equations, family_terms, normal_equations
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.enumerated.moments import Outcomes, Weigh
from maxk_lab.gradients.enumerated.oracle import joint_optimum
from maxk_lab.gradients.sampled.groups import Groups


def cross_fit(rewards: Tensor, gram: Tensor, k: int, family: str) -> Tensor:
    """Return the coefficients for each of I instances from the groups of all others, [I, D].

    rewards are [I, ..., n], gram [I, ..., n, n]. `family` is affine or ladder. Raises `ValueError`
    for fewer than two instances and where the family does not take (n, k).
    """
    return _from_others(normal_equations(*family_terms(rewards, k, family), gram))


def same_batch(rewards: Tensor, gram: Tensor, k: int, family: str) -> Tensor:
    """Return the coefficients of each group from itself, which biases it: [..., D].

    rewards are [..., n], gram [..., n, n].
    """
    return normal_equations(*family_terms(rewards, k, family), gram).solution()


def oracle_coefficients(outcomes: Outcomes, n: int, k: int, family: str) -> Tensor:
    """Return the coefficients of least variance under the policy itself: [D].

    They solve the normal equations over every group of n. `family` is affine, ladder or constant.
    Raises `LabError` for trajectories of another policy, whose estimate the coefficients would
    move.
    """
    _check_on_policy(outcomes)
    classes, total = outcomes.classes, torch.zeros(())
    for rows, chance in classes.groups(n):
        w0, directions = family_terms(classes.rewards[rows], k, family)
        terms = torch.cat([directions, w0.unsqueeze(-1)], -1)
        # Given their classes the scores are independent, each with its class's spread.
        pairs = classes.products[rows.unsqueeze(2), rows.unsqueeze(1)] + torch.diag_embed(
            classes.spread[rows]
        )
        total = total + ((terms.mT * chance.view(-1, 1, 1)) @ pairs @ terms).sum(0)
    return Equations.of_products(total[:-1]).solution()


class SampledFits:
    """The coefficients that sampled groups give."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._ladder = cache(lambda k: self._equations(k, "ladder"))

    def coefficients(self, method: Method) -> Tensor | None:
        """Return the method's coefficients as `Method.weights` takes them, [I, ..., D], or None.

        Of a cross_fit they are one for all groups of an instance; of a same_batch, of every group
        from itself. Raises `LabError` for what only complete enumeration gives (oracle),
        `ValueError` for a cross-fit of one instance and for a pair that cannot run at this (n, K).
        """
        if method.fit is None:
            return None
        _check_runs(method, self._groups.rewards.shape[-1])
        if method.fit == "oracle":
            raise LabError(
                f"{method.baseline.name} needs every group to be enumerated: set complete: true, "
                "with an environment, n and so few "
                "trajectories that this can be done"
            )
        family = method.baseline.row.name
        if method.fit == "same_batch":
            return self._equations(method.k, family).solution()
        return self.cross_fit(method.k, family)[:, None, None, None]

    def cross_fit(self, k: int, family: str) -> Tensor:
        """Return the coefficients for each instance from all groups of all others, [I, D].

        `family` is affine or ladder.
        """
        ladder = self._ladder(k)
        if family == "affine":  # its one direction is the ladder's last
            return _from_others(Equations(ladder.a[..., -1:, -1:], ladder.c[..., -1:]))
        return _from_others(ladder)

    def _equations(self, k: int, family: str) -> Equations:
        w0, directions = family_terms(self._groups.rewards, k, family)
        both = torch.cat([directions, w0.unsqueeze(-1)], -1)
        return Equations.of_products(self._groups.products(directions, both))


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
    outcomes: Sequence[Outcomes], method: Method, n: int, sampled: Callable[[], SampledFits]
) -> list[EnumeratedFit] | None:
    """Return the fit of every instance for a method with a fit, at n.

    None is for too many groups. `sampled` gives the fits of the pool's groups, where cross_fit
    takes its coefficients from; it is called for that alone. Raises `ValueError` where the method
    cannot run at this n.
    """
    _check_runs(method, n)
    family = method.baseline.row.name
    alphas: list[Tensor | None] = [None] * len(outcomes)
    apart = method.fit == "same_batch" or family == "joint_optimum"
    if apart:
        numbers = [torch.arange(len(one.rewards), dtype=torch.float64) for one in outcomes]
        outcomes = [replace(one, g=g) for one, g in zip(outcomes, numbers, strict=True)]
    if not all(instance.enumerable(n) for instance in outcomes):
        return None
    if method.fit == "cross_fit":
        alphas = list(sampled().cross_fit(method.k, family))
    elif not apart:
        alphas = [oracle_coefficients(one, n, method.k, family) for one in outcomes]
    return [
        EnumeratedFit(
            one, _weigh_of(one, method, n, alpha), alpha if alpha is None else alpha.tolist()
        )
        for one, alpha in zip(outcomes, alphas, strict=True)
    ]


def _weigh_of(outcomes: Outcomes, method: Method, n: int, alpha: Tensor | None) -> Weigh:
    """The weights with the coefficients `alpha`, where it is None with those of every group."""
    best, family = None, method.baseline.row.name
    if family == "joint_optimum":
        _check_on_policy(outcomes)
        best = joint_optimum(outcomes, n, method.k)

    def weigh(rewards: Tensor, g: Tensor | None, ratios: Tensor | None) -> Tensor:
        if alpha is not None:
            return method.weights(rewards, coefficients=alpha)
        assert g is not None
        rows = g.long()
        if best is not None:
            return best.weights(rewards, rows)
        gram = outcomes.gram[rows.unsqueeze(-1), rows.unsqueeze(-2)]
        return method.weights(rewards, coefficients=same_batch(rewards, gram, method.k, family))

    return weigh


def _from_others(equations: Equations) -> Tensor:
    """Return the coefficients [I, D] for each instance from the equations [I, ...] of all others.

    Raises `ValueError` for fewer than two instances.
    """
    instances, directions = len(equations.a), equations.c.shape[-1]
    if instances < 2:
        raise ValueError(
            "a cross-fit takes its coefficients from the other instances: "
            f"it needs at least 2, got {instances}"
        )
    a = equations.a.reshape(instances, -1, directions, directions).sum(1)
    c = equations.c.reshape(instances, -1, directions).sum(1)
    return Equations(a, c).of_others().solution()


def _check_on_policy(outcomes: Outcomes) -> None:
    if outcomes.behaviour is not None:
        raise LabError(
            "the oracle's baseline is that of trajectories of the policy itself: leave out "
            "gradient.behaviour"
        )


def _check_runs(method: Method, n: int) -> None:
    """Raise `ValueError` where the method cannot run at this n."""
    problem = method.refusal(n)
    if problem is not None:
        raise ValueError(problem)
