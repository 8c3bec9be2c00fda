"""Objectives E[sum_j alpha_j R_(j:K)]: expected L-statistics of K rewards, such as the maximum.

R_(1:K) <= ... <= R_(K:K) are K i.i.d. rewards in ascending order. Source: OrderGrad, arXiv
2606.06096; the maximum is PKPO, arXiv 2505.15201. This module does not import torch.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Any

from pydantic import Field

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.estimators.rows import number_or_word, spell
from maxk_lab.fields import AtLeastOne
from maxk_lab.removed import removed_row
from maxk_lab.settings import Setting

# alpha_1..alpha_K as exact fractions; alpha_1 weights the smallest reward.
Weights = tuple[Fraction, ...]
_SPELLING = re.compile(r"(?P<name>\w+)(?:\[(?P<value>[^\[\]]*)\])?")


def _exact(number: float) -> Fraction:
    """Return the written decimal exactly: 0.07 * 100 is 7."""
    return Fraction(repr(number))


def _best_share(share: Fraction, k: int) -> Weights:
    """Return alpha of the mean of the best share of K rewards.

    Each order statistic covers one K-th of [0, 1]; at the boundary, only the covered fraction
    counts.
    """
    low = 1 - share
    inside = [
        max(Fraction(0), Fraction(j, k) - max(low, Fraction(j - 1, k))) for j in range(1, k + 1)
    ]
    return tuple(width / share for width in inside)


def _top(m: int, k: int) -> Weights:
    if m > k:
        raise LabError(f"the m of top_m must be at most K = {k}, got {m}")
    return _best_share(Fraction(m, k), k)


def _harmonic(k: int) -> Weights:
    """Return alpha of sum_{j <= K} max@j / j: 1/K, ..., 1/2, 1."""
    return tuple(Fraction(1, k - j) for j in range(k))


def _explicit(alpha: tuple[float, ...], k: int) -> Weights:
    if len(alpha) != k:
        raise LabError(f"order must have as many weights as K = {k}, got {len(alpha)}")
    return tuple(map(_exact, alpha))


# The parameter of each kind of L-statistic, and alpha as a function of its parsed value and K. The
# function raises `LabError` if K rewards have no such statistic.
FORMS: dict[str, tuple[Setting | None, Callable[[Any, int], Weights]]] = {
    "max": (None, lambda value, k: _top(1, k)),
    "top_m": (Setting("m", AtLeastOne, 2, "how many of the best count, at most K"), _top),
    "cvar_upper": (
        Setting(
            "q",
            Annotated[float, Field(gt=0, le=1.0)],
            0.25,
            "the share of best rewards that count, more than 0",
        ),
        lambda q, k: _best_share(_exact(q), k),
    ),
    "tail_rl": (None, lambda value, k: _harmonic(k)),
    "order": (
        number_or_word(
            "alpha",
            (1.0,),
            "alpha_1 to alpha_K, worst reward first; K is their number",
            several=True,
        ),
        _explicit,
    ),
}


@dataclass(frozen=True)
class Objective:
    """The objective E[sum_j alpha_j R_(j:K)] over K = `k` i.i.d. rewards.

    `form` is the canonical spelling, such as `top_m[2]`. A missing parameter gets its default.

    Raises `LabError` for an unknown form, a parameter out of range, k < 1, or a statistic that
    needs more than K rewards.
    """

    form: str
    k: int

    def __post_init__(self) -> None:
        try:
            k = operator.index(self.k)
        except TypeError:
            k = 0
        if isinstance(self.k, bool) or k < 1:
            raise LabError(f"the K of an objective must be a whole number >= 1, got {self.k!r}")
        name, value = _parse(self.form)
        # The only assignment: the dataclass is frozen.
        vars(self).update(form=name if value is None else f"{name}[{spell(value)}]", k=k)
        if name != "max":
            _weights(self.form, k)  # raises if the objective is undefined

    @classmethod
    def parse(cls, name: str) -> Objective:
        """Return the objective with this `name`, such as `max@8` or `pass@8`.

        Raises `LabError` for an unknown name.
        """
        form, at, k = name.rpartition("@") if isinstance(name, str) else ("", "", "")
        if not at or not re.fullmatch("[0-9]{1,18}", k):
            raise LabError(
                f"an objective must be form@K, such as max@8 or top_m[2]@8, got {name!r}"
            )
        # With rewards of 0 and 1, Max@K is pass@K.
        return cls("max" if form == "pass" else form, int(k))

    @property
    def name(self) -> str:
        """The form and K, such as `top_m[2]@8`."""
        return f"{self.form}@{self.k}"

    @property
    def exact_weights(self) -> Weights:
        """alpha_1..alpha_K."""
        return _weights(self.form, self.k)

    @cached_property
    def order_weights(self) -> tuple[float, ...]:
        """alpha_1..alpha_K, rounded."""
        return tuple(map(float, self.exact_weights))

    @cached_property
    def mass(self) -> float:
        """The sum of alpha: how much the objective grows if all rewards grow by 1; mostly 1."""
        return float(sum(self.exact_weights))

    @cached_property
    def is_max(self) -> bool:
        """Whether this is the expected maximum, alpha = (0, ..., 0, 1), in any form."""
        weights = self.exact_weights if self.form != "max" else (Fraction(1),)
        return weights[-1] == 1 and not any(weights[:-1])

    @cached_property
    def exact_reduced(self) -> Weights:
        """The K-1 weights of the sub-leave-one-out baseline; their sum is the sum of alpha.

        A named form keeps its parameter (`top_m` at most K-1). Explicit weights and the weights of
        `tail_rl` are masses on K equal parts of [0, 1]. Each mass is spread evenly over its part
        and divided into K-1 equal parts: e_K becomes e_(K-1). Raises `LabError` for K = 1.
        """
        k = self.k
        if k == 1:
            raise LabError(f"{self.name} has no objective of K - 1 rewards: K must be at least 2")
        name, value = _parse(self.form)
        if name in ("order", "tail_rl"):
            # New part j overlaps (K-j)/(K-1) of old part j and j/(K-1) of old part j + 1.
            alpha = self.exact_weights
            return tuple((alpha[j - 1] * (k - j) + alpha[j] * j) / (k - 1) for j in range(1, k))
        return FORMS[name][1](min(value, k - 1) if name == "top_m" else value, k - 1)

    @classmethod
    def mixture(cls, share: float, first: Objective, second: Objective) -> Objective:
        """Return share * first + (1 - share) * second as one objective with the larger K."""
        if share == 1.0 or first == second:
            return first
        if share == 0.0:
            return second
        k, weight = max(first.k, second.k), _exact(share)
        both = _embedded(first.exact_weights, k), _embedded(second.exact_weights, k)
        alpha = (float(weight * a + (1 - weight) * b) for a, b in zip(*both, strict=True))
        return cls(f"order[{' '.join(map(str, alpha))}]", k)


def _embedded(alpha: Weights, k: int) -> Weights:
    """Return the objective's weights over the order statistics of k >= len(alpha) rewards."""
    drawn = len(alpha)
    return tuple(
        sum(
            (
                a * math.comb(rank - 1, j - 1) * math.comb(k - rank, drawn - j)
                for j, a in enumerate(alpha, 1)
            ),
            Fraction(0),
        )
        / math.comb(k, drawn)
        for rank in range(1, k + 1)
    )


# Cached, because every training step makes its objective again.
@lru_cache(maxsize=256)
def _weights(form: str, k: int) -> Weights:
    name, value = _parse(form)
    return FORMS[name][1](value, k)


@lru_cache(maxsize=256)
def _parse(form: str) -> tuple[str, Any]:
    """Return the name and the parsed parameter of a form; None if it has no parameter.

    Raises `LabError` for an unknown form.
    """
    match = _SPELLING.fullmatch(form.strip()) if isinstance(form, str) else None
    if match is None:
        raise LabError(f"the form of an objective must be a name or name[value], got {form!r}")
    name, written = match["name"], match["value"]
    if name not in FORMS:
        if (advice := removed_row("estimator", name)) is not None:
            raise LabError(advice)
        also = did_you_mean(name, FORMS)
        raise LabError(f"unknown form of an objective {name!r}{also}; known: {', '.join(FORMS)}")
    parameter, _ = FORMS[name]
    if parameter is None:
        if written is not None:
            raise LabError(f"{name} takes no parameter, got {form!r}")
        return name, None
    return name, parameter.parse(parameter.default if written is None else written.strip())
