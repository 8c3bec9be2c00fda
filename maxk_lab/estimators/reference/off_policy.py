"""The definition of off-policy weights and values, on fractions and their ratios."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations

from torch import Tensor

from maxk_lab.estimators.reference.exact import Group, others, per_group

# The factor of a subset, from the ratios of its samples.
Factor = Callable[[Group], Fraction]


def product(ratios: Group) -> Fraction:
    """The exact factor of a subset."""
    return math.prod(ratios, start=Fraction(1))


def first_order(ratios: Group) -> Fraction:
    """The factor of a subset up to the first order in the ratios minus one."""
    return 1 + sum((r - 1 for r in ratios), Fraction(0))


def value(group: Group, ratios: Group, k: int, factor: Factor) -> Fraction:
    """The mean over all K-subsets of their factor times their maximum."""
    pairs = list(combinations(zip(group, ratios, strict=True), k))
    terms = [max(x for x, _ in pair) * factor([r for _, r in pair]) for pair in pairs]
    return sum(terms, Fraction(0)) / len(pairs)


def score(group: Group, ratios: Group, k: int, factor: Factor) -> list[Fraction]:
    """s_i: the sum over the K-subsets with i of their factor times their maximum, over C(n,K)."""
    totals = [Fraction(0)] * len(group)
    for subset in combinations(range(len(group)), k):
        term = max(group[j] for j in subset) * factor([ratios[j] for j in subset])
        for i in subset:
            totals[i] += term
    return [total / math.comb(len(group), k) for total in totals]


def exact(group: Group, k: int, *, ratios: Group, baseline: str) -> list[Fraction]:
    """The weights with the product of a subset's ratios."""
    return _weights(group, ratios, k, baseline, product)


def to_first_order(group: Group, k: int, *, ratios: Group, baseline: str) -> list[Fraction]:
    """The weights with that product to first order."""
    return _weights(group, ratios, k, baseline, first_order)


def _weights(group: Group, r: Group, k: int, baseline: str, factor: Factor) -> list[Fraction]:
    """s_i minus r_i K/n times the value of the others, at K for `centred`, at K-1 for `subloo`."""
    s = score(group, r, k, factor)
    if baseline == "none":
        return s
    at, share = k if baseline == "centred" else k - 1, Fraction(k, len(group))
    left_out = [value(others(group, i), others(r, i), at, factor) for i in range(len(group))]
    return [s[i] - r[i] * share * left_out[i] for i in range(len(group))]


def off_policy_weights(rewards: Tensor, ratios: Tensor, k: int, baseline: str = "none") -> Tensor:
    """Twin of the fast one: rewards and ratios `[..., n]` to `[..., n]`."""
    return per_group(exact, rewards, k, ratios=ratios, baseline=baseline)


def first_order_weights(rewards: Tensor, ratios: Tensor, k: int, baseline: str = "none") -> Tensor:
    """Twin of the fast one: rewards and ratios `[..., n]` to `[..., n]`."""
    return per_group(to_first_order, rewards, k, ratios=ratios, baseline=baseline)


def off_policy_value(rewards: Tensor, ratios: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards and ratios `[..., n]` to `[...]`."""
    return per_group(_value, rewards, k, r=ratios)


def effective_sample_size(ratios: Tensor) -> Tensor:
    """Twin of the fast one: ratios `[..., n]` to `[...]`."""
    return per_group(_effective, ratios)


def _value(group: Group, k: int, *, r: Group) -> Fraction:
    return value(group, r, k, product)


def _effective(group: Group) -> Fraction:
    return sum(group, Fraction(0)) ** 2 / sum((r * r for r in group), Fraction(0))
