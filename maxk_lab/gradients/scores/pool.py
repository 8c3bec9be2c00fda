"""The score pool: rewards and score products of M trajectories per instance, for all cells.

Index: I instances, M drawn and A distinct trajectories, D objectives, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.statistics.units import Array

PROXIES = ("length", "logit_proxy")
# A spread below this share of the largest value is rounding error.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Trajectories:
    """M trajectories of an instance without their scores, [M] float64 each.

    Another policy than π may have drawn the trajectories. `ratios` are π over this behaviour
    policy, and exactly 1 if it is π.
    """

    rewards: Tensor
    length: Tensor
    logit_proxy: Tensor
    ratios: Tensor


@dataclass(frozen=True)
class Listing(Trajectories):
    """All A possible trajectories, with probabilities under π and under the sampling policy."""

    probabilities: Tensor
    behaviour: Tensor


@dataclass(frozen=True)
class Part:
    """One instance of a pool; all numbers are float64.

    rows [M], the row of `gram` or `scores` of each drawn trajectory (equal trajectories may share a
    row); gram [A, A], ψ·ψ of the distinct trajectories, or for policies with few parameters scores
    [A, P], ψ itself. If the exact gradient is known, for each of D objectives: inner [A, D] = ψ·∇J,
    norm [D] = ‖∇J‖², value [D] = J; else D = 0. `listed` [A] is set if the rows are all
    trajectories.
    """

    drawn: Trajectories
    rows: Tensor
    inner: Tensor
    norm: Tensor
    value: Tensor
    gram: Tensor | None = None
    scores: Tensor | None = None
    listed: Listing | None = None

    @property
    def products(self) -> Tensor:
        """ψ·ψ of the distinct trajectories, [A, A]."""
        assert self.gram is not None
        return self.gram

    @property
    def squared_norms(self) -> Tensor:
        """‖ψ‖² by row, [A]."""
        return self.products.diagonal() if self.scores is None else self.scores.square().sum(1)

    def trajectory_weight(self, kind: str, *, listed: bool = False) -> Tensor:
        """G of the drawn trajectories [M], or of all [A]: length, logit_proxy, ‖ψ‖² (grad_norm)."""
        if kind == "grad_norm":
            return self.squared_norms if listed else self.squared_norms[self.rows]
        of = self.listed if listed else self.drawn
        assert of is not None
        return {"length": of.length, "logit_proxy": of.logit_proxy}[kind]


@dataclass(frozen=True)
class ScorePool:
    """M i.i.d. trajectories of each of I instances, with the score products that measures need.

    Scores, gradients and probabilities belong to one policy π. `objectives` names the D objectives
    whose exact gradient is known; `tolerance` is the relative bias that the precision of π
    explains. With forced `starts`, trajectory j has start j mod their number; 1 means no forced
    start. `gradient_products` [I, I] are ⟨∇J_i, ∇J_j⟩ of the instances by objective: exact if the
    exact gradient is known, else unbiased for i ≠ j. They are NaN if they are not measured.
    """

    parts: tuple[Part, ...]
    objectives: tuple[str, ...]
    tolerance: float
    starts: int = 1
    gradient_products: Mapping[str, Tensor] = field(default_factory=dict)

    def cross_products(self, method: Method, n: int) -> Array:
        """Return an unbiased estimate of mean_{j ≠ i} ⟨E ĝ_i, E ĝ_j⟩ [I] of a method at n.

        It is c² times the product of the gradients for a method with E ĝ = c ∇J. It is NaN for a
        method biased in direction, without `gradient_products`, and for a single instance.
        """
        count = len(self.parts)
        products = self.gradient_products.get(method.objective_at(n).name)
        judged = method.is_derived and (method.needs_ratios or not self.off_policy)
        if products is None or not judged or count < 2:
            return np.full(count, np.nan)
        others = (products.sum(1) - products.diagonal()) / (count - 1)
        return method.expected_scale(n) ** 2 * others.numpy()

    @property
    def exact(self) -> bool:
        """Whether the exact gradient is known."""
        return bool(self.objectives)

    @property
    def listed(self) -> bool:
        """Whether the `gram` of every instance has a row for every possible trajectory."""
        return all(instance.listed is not None for instance in self.parts)

    @cached_property
    def off_policy(self) -> bool:
        """Whether another policy than π drew the trajectories."""
        return bool(self.ratios.ne(1).any())

    @cached_property
    def rewards(self) -> Tensor:
        """The rewards of the drawn trajectories, [I, M]."""
        return torch.stack([instance.drawn.rewards for instance in self.parts])

    @cached_property
    def ratios(self) -> Tensor:
        """The importance ratios of the drawn trajectories, [I, M]."""
        return torch.stack([instance.drawn.ratios for instance in self.parts])

    def trajectory_weight(self, kind: str) -> Tensor:
        """Return g of the drawn trajectories, [I, M]; as `Part.trajectory_weight`."""
        return torch.stack([instance.trajectory_weight(kind) for instance in self.parts])

    def state(self) -> dict[str, Any]:
        """Return the pool as numbers, texts and tensors for `torch.save`."""
        parts = [dict(vars(instance)) for instance in self.parts]
        for instance in parts:
            homes = {name: instance[name] for name in ("drawn", "listed")}
            instance |= {name: None if of is None else dict(vars(of)) for name, of in homes.items()}
        rest = {"objectives": self.objectives, "tolerance": self.tolerance, "starts": self.starts}
        return {"parts": parts, "gradient_products": dict(self.gradient_products)} | rest

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ScorePool:
        """Return the pool with this `state`."""
        parts = []
        for instance in state["parts"]:
            listed = instance["listed"] and Listing(**instance["listed"])
            tables = {"drawn": Trajectories(**instance["drawn"]), "listed": listed}
            parts.append(Part(**instance | tables))
        objectives, products = tuple(state["objectives"]), state.get("gradient_products", {})
        return cls(tuple(parts), objectives, state["tolerance"], state.get("starts", 1), products)


def proxy_correlations(pool: ScorePool) -> dict[str, list[float | None]]:
    """Return the correlation of each of `PROXIES` with ‖ψ‖², a number per instance.

    The number is None if a variable is constant or missing. The correlation is exact, under the
    policy's probabilities, if the pool lists every trajectory; else it is over the drawn
    trajectories.
    """

    def of(instance: Part, name: str) -> float | None:
        table = instance.listed
        listed = table is not None
        norms, proxy = (instance.trajectory_weight(g, listed=listed) for g in ("grad_norm", name))
        chance = torch.ones_like(norms) if table is None else table.probabilities
        return correlation(proxy, norms, chance)

    return {name: [of(instance, name) for instance in pool.parts] for name in PROXIES}


def correlation(x: Tensor, y: Tensor, chance: Tensor) -> float | None:
    """Return the Pearson correlation of x and y [A] under `chance`; None if one is constant."""
    pair = torch.stack([x, y]).double()
    covariance = torch.cov(pair, correction=0, aweights=chance)
    spreads = covariance.diagonal().sqrt()
    if not bool((spreads > ROUNDING * pair.abs().amax(1)).all()):
        return None
    return float(covariance[0, 1] / spreads.prod())
