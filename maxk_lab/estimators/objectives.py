"""Objectives E[sum_j alpha_j R_(j:K)]: expected L-statistics of K rewards, such as the maximum.

R_(1:K) <= ... <= R_(K:K) are K i.i.d. rewards in ascending order. Imports no torch. Source:
OrderGrad, arXiv 2606.06096; the maximum is PKPO, arXiv 2505.15201.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.estimators.forms import FORMS, Weights
from maxk_lab.estimators.parameters import spell

_SPELLING = re.compile(r"(?P<name>\w+)(?:\[(?P<value>[^\[\]]*)\])?")


@dataclass(frozen=True, init=False)
class Objective:
    """E[sum_j alpha_j R_(j:K)] over K = `k` i.i.d. rewards.

    `form` is its one spelling, such as `top_m[2]`.

    A missing parameter gets its default. Raises `LabError` for an unknown form, a parameter out of
    range, k < 1 and a statistic that K rewards do not have.
    """

    form: str
    k: int
    _name: str = field(repr=False, compare=False)
    _value: Any = field(repr=False, compare=False)
    # alpha_1..alpha_K as the exact fractions that the form means, computed at once, so that an
    # objective that exists has weights.
    exact_weights: Weights = field(repr=False, compare=False)

    def __init__(self, form: str, k: int) -> None:
        self._set(*_parse(form), k)

    @classmethod
    def of(cls, name: str, value: Any, k: int) -> Objective:
        """The objective of a form of `FORMS` at its parsed parameter, None where it has none."""
        made = cls.__new__(cls)
        made._set(name, value, k)
        return made

    def _set(self, name: str, value: Any, k: int) -> None:
        try:
            whole = operator.index(k)
        except TypeError:
            whole = 0
        if isinstance(k, bool) or whole < 1:
            raise LabError(f"the K of an objective must be a whole number >= 1, got {k!r}")
        form = name if FORMS[name].parameter is None else f"{name}[{spell(value)}]"
        weights = _weights(name, value, whole)
        # The dataclass is frozen to all others.
        vars(self).update(form=form, k=whole, _name=name, _value=value, exact_weights=weights)

    @classmethod
    def parse(cls, name: str) -> Objective:
        """The objective of this `name`, such as `max@8`. Raises `LabError` for anything else."""
        form, at, k = name.rpartition("@") if isinstance(name, str) else ("", "", "")
        if not at or not k.isdecimal():
            raise LabError(
                f"an objective must be form@K, such as max@8 or top_m[2]@8, got {name!r}"
            )
        return cls(form, int(k))

    @property
    def name(self) -> str:
        """Form and K, such as `top_m[2]@8`."""
        return f"{self.form}@{self.k}"

    @cached_property
    def order_weights(self) -> tuple[float, ...]:
        """alpha_1..alpha_K, the weight of the least reward first."""
        return tuple(map(float, self.exact_weights))

    @cached_property
    def mass(self) -> float:
        """The sum of alpha: 1 for every named form.

        A constant added to the rewards adds that many times itself.
        """
        return float(sum(self.exact_weights))

    @cached_property
    def is_max(self) -> bool:
        """Whether this is the expected maximum, whatever its form: alpha = (0, ..., 0, 1)."""
        return self.exact_weights[-1] == 1 and not any(self.exact_weights[:-1])

    @cached_property
    def exact_reduced(self) -> Weights:
        """The weights of the K-1 rewards without sample i, as exact fractions; see `reduced`."""
        if self.k == 1:
            raise LabError(f"{self.name} has no objective of K - 1 rewards: K must be at least 2")
        if self._name == "l_statistic":
            return _rebinned(self.exact_weights)
        value = min(self._value, self.k - 1) if self._name == "top_m" else self._value
        return _weights(self._name, value, self.k - 1)

    def reduced(self) -> tuple[float, ...]:
        """The K-1 weights of the sub-leave-one-out baseline; their sum is that of alpha.

        Raises `ValueError` for K = 1.

        A named form keeps its parameter (`top_m` counts no more than all K-1). Explicit weights are
        masses on the K equal parts of [0, 1], spread evenly within each and cut into K-1 equal
        parts: e_K becomes e_(K-1).
        """
        return tuple(map(float, self.exact_reduced))


# An objective is made anew wherever weights are computed: once per training step, say.
@lru_cache(maxsize=256)
def _weights(name: str, value: Any, k: int) -> Weights:
    return FORMS[name].weights(value, k)


def _rebinned(weights: Weights) -> Weights:
    """The mass of K equal parts of [0, 1], each spread evenly, on K-1 equal parts."""
    k = len(weights)
    # Of old part j, the share (K-j) / (K-1) lies in new part j, and of old part j + 1 the share j /
    # (K-1).
    return tuple((weights[j - 1] * (k - j) + weights[j] * j) / (k - 1) for j in range(1, k))


@lru_cache(maxsize=256)
def _parse(form: str) -> tuple[str, Any]:
    """The name of a form and its parsed parameter, None where it has none. Raises `LabError`."""
    match = _SPELLING.fullmatch(form.strip()) if isinstance(form, str) else None
    if match is None:
        raise LabError(f"the form of an objective must be a name or name[value], got {form!r}")
    name, written = match["name"], match["value"]
    if name not in FORMS:
        also = did_you_mean(name, FORMS)
        raise LabError(f"unknown form of an objective {name!r}{also}; known: {', '.join(FORMS)}")
    parameter = FORMS[name].parameter
    if parameter is None:
        if written is not None:
            raise LabError(f"{name} takes no parameter, got {form!r}")
        return name, None
    return name, parameter.parse(parameter.default if written is None else written.strip())
