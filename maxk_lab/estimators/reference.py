"""The slow, obviously right twin of every function: subsets enumerated in exact fractions.

Same arguments and shapes as the fast functions; results are float64, rounded once from the exact fraction.
The cost grows like C(n, K): use n <= 10 or so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

Group = Sequence[Fraction]


def value(group: Group, k: int) -> Fraction:
    """The mean over all K-subsets of their maximum."""
    subsets = list(combinations(group, k))
    return sum((max(subset) for subset in subsets), Fraction(0)) / len(subsets)


def score(group: Group, k: int) -> list[Fraction]:
    """s_i: the sum of the maxima of the K-subsets that contain i, divided by the number of all K-subsets."""
    totals = [Fraction(0)] * len(group)
    for subset in combinations(range(len(group)), k):
        best = max(group[j] for j in subset)
        for i in subset:
            totals[i] += best
    return [total / math.comb(len(group), k) for total in totals]


def others(group: Group, i: int) -> Group:
    """The group without sample i."""
    return [*group[:i], *group[i + 1 :]]


def left_out_values(group: Group, k: int) -> list[Fraction]:
    """The value of the other samples, for every i."""
    return [value(others(group, i), k) for i in range(len(group))]


def minus(weights: Sequence[Fraction], baseline: Sequence[Fraction]) -> list[Fraction]:
    """Sample by sample."""
    return [w - b for w, b in zip(weights, baseline, strict=True)]


def group_mean(group: Group, k: int) -> list[Fraction]:
    """s_i minus the mean of s."""
    s = score(group, k)
    return minus(s, [sum(s, Fraction(0)) / len(s)] * len(s))


def centred(group: Group, k: int) -> list[Fraction]:
    """s_i minus K/n times the value of the others."""
    return minus(score(group, k), [Fraction(k, len(group)) * b for b in left_out_values(group, k)])


def sample_loo(group: Group, k: int) -> list[Fraction]:
    """s_i minus the value of the others."""
    return minus(score(group, k), left_out_values(group, k))


def pkpo_sloo(group: Group, k: int) -> list[Fraction]:
    """s_i minus the mean of the others' score weights among themselves."""
    n = len(group)
    return minus(score(group, k), [sum(score(others(group, i), k), Fraction(0)) / (n - 1) for i in range(n)])


def subloo(group: Group, k: int) -> list[Fraction]:
    """The sum, over the K-subsets with i, of the maximum minus the maximum without i, over C(n, K)."""
    totals = [Fraction(0)] * len(group)
    for subset in combinations(range(len(group)), k):
        for i in subset:
            totals[i] += max(group[j] for j in subset) - max(group[j] for j in subset if j != i)
    return [total / math.comb(len(group), k) for total in totals]


def affine(group: Group, k: int, *, alpha: float = 0.5) -> list[Fraction]:
    """s_i - (K/n) [value of the others at K - alpha * (that - value of the others at K-1)]."""
    at_k = left_out_values(group, k)
    step = minus(at_k, left_out_values(group, k - 1)) if alpha != 0 else [Fraction(0)] * len(group)
    level = minus(at_k, [Fraction(alpha) * d for d in step])
    return minus(score(group, k), [Fraction(k, len(group)) * b for b in level])


def curve(group: Group) -> list[Fraction]:
    """The value for every K = 1..n."""
    return [value(group, k) for k in range(1, len(group) + 1)]


def _per_group(function: Callable[..., Any], rewards: Tensor, *arguments: int, **params: float) -> Tensor:
    """`function` of every group of rewards `[..., n]`, each reward as an exact fraction."""
    groups = rewards.double().reshape(-1, rewards.shape[-1]).tolist()
    results = [function([Fraction(r) for r in group], *arguments, **params) for group in groups]
    rows = [[float(x) for x in r] if isinstance(r, list) else float(r) for r in results]
    table = torch.tensor(rows, dtype=torch.float64)
    return table.reshape([*rewards.shape[:-1], *table.shape[1:]])


def maxk_reward_weights(n: int, k: int) -> Tensor:
    """C(i-1, K-1) / C(n, K) for i = 1..n, `[n]`."""
    total = math.comb(n, k)
    exact = [Fraction(math.comb(i - 1, k - 1), total) for i in range(1, n + 1)]
    return torch.tensor([float(x) for x in exact], dtype=torch.float64)


def maxk_reward_estimate(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[...]`."""
    return _per_group(value, rewards, k)


def maxk_curve(rewards: Tensor) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return _per_group(curve, rewards)


def sample_loo_baseline(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return _per_group(left_out_values, rewards, k)


def maxk_gradient_weights(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return _per_group(score, rewards, k)


def group_mean_weights(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return _per_group(group_mean, rewards, k)


def centred_weights(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return _per_group(centred, rewards, k)


def sample_loo_weights(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return _per_group(sample_loo, rewards, k)


def pkpo_sloo_weights(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return _per_group(pkpo_sloo, rewards, k)


def subloo_weights(rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return _per_group(subloo, rewards, k)


def affine_weights(rewards: Tensor, k: int, *, alpha: float = 0.5) -> Tensor:
    """Twin of the fast one: rewards `[..., n]` to `[..., n]`."""
    return _per_group(affine, rewards, k, alpha=alpha)


def apply_sample_loo(s: Tensor, rewards: Tensor, k: int) -> Tensor:
    """Twin of the fast one: `[..., n]` and `[..., n]` to `[..., n]`."""
    return s.double() - sample_loo_baseline(rewards, k)


# Catalogue name of a baseline -> its twin; a row without one is checked for unbiasedness only.
TWINS: dict[str, Callable[..., Tensor]] = {
    "none": maxk_gradient_weights,
    "group_mean": group_mean_weights,
    "centred": centred_weights,
    "sample_loo": sample_loo_weights,
    "pkpo_sloo": pkpo_sloo_weights,
    "subloo": subloo_weights,
    "affine": affine_weights,
}
# Catalogue name of an estimator -> the K at which it takes its baseline's weights.
TWIN_K: dict[str, Callable[[int], int]] = {"maxk": lambda k: k, "reinforce": lambda k: 1}
