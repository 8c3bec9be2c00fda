"""The catalogue row with the same weights as a function, and the factor between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.method import Method

# Smaller relative differences are rounding errors, also of float32 functions.
ROUNDING = 1e-5
# The factors between the advantages of trainers and weights that sum to a gradient estimate.
_FACTORS: dict[str, Callable[[int, int], float]] = {
    "1": lambda n, k: 1,
    "n": lambda n, k: n,
    "n/K": lambda n, k: n / k,
    "K": lambda n, k: k,
    "1/K": lambda n, k: 1 / k,
    "1/n": lambda n, k: 1 / n,
    "K/n": lambda n, k: k / n,
    "n - 1": lambda n, k: n - 1,
    "(n - 1)/n": lambda n, k: (n - 1) / n,
    "n/(n - 1)": lambda n, k: n / (n - 1),
    "n^2/(n - 1)": lambda n, k: n * n / (n - 1),
    "n sqrt(n/(n - 1))": lambda n, k: n * math.sqrt(n / (n - 1)),
    "1 - K/n": lambda n, k: 1 - k / n,
    "n - K": lambda n, k: n - k,
    "n (n - K)/K": lambda n, k: n * (n - k) / k,
    "(n - K)/K": lambda n, k: (n - k) / k,
    "(n - K)/(n - 1)": lambda n, k: (n - k) / (n - 1),
    "C(n, K)": math.comb,
}
# Rows with the small constants that trainers add to a deviation.
_SPELLINGS = ("grpo[1e-06]", "grpo[1e-08]")


def row_of(
    k: int,
    binary: bool,
    blocks: Sequence[tuple[Tensor, Tensor]],
    rounding: float,
    everywhere: bool = True,
) -> tuple[str, dict[int, float]]:
    """Return the row with the same weights up to a factor that depends on n, and the factors by n.

    blocks: rewards and weights [groups, n], for several n. With `everywhere`, the row must be
    defined at every n, otherwise at two n at least. Rows that need more than rewards are left out;
    unbiased rows come first. Returns an empty name if no row fits.
    """
    methods = [
        Method.parse(estimator, baseline, k)
        for estimator in (*ESTIMATORS.names(), *_SPELLINGS)
        for baseline in BASELINES.names()
    ]
    methods = [
        method
        for method in methods
        if method.needs_rewards_alone
        and method.pair_refusal is None
        and (binary or not method.needs_binary_rewards)
        and (method.takes_baseline or method.baseline.name == "none")
    ]
    for method in sorted(methods, key=lambda method: not method.is_unbiased):
        factors: dict[int, float] = {}
        defined = [block for block in blocks if method.refusal(block[0].shape[-1]) is None]
        if len(defined) < (len(blocks) if everywhere else min(2, len(blocks))):
            continue
        if all(_fits(method, *block, factors, rounding) for block in defined) and factors:
            return f"{method.estimator.name} {method.baseline.name}".removesuffix(" none"), factors
    return "", {}


def _fits(
    method: Method, rewards: Tensor, weights: Tensor, factors: dict[int, float], rounding: float
) -> bool:
    """Whether weights are the method's weights times the factor at n; add a new n's factor."""
    expected = method.weights(rewards)
    factor = factors.setdefault(
        rewards.shape[-1], float((weights * expected).sum() / expected.square().sum())
    )
    error, largest = (weights - factor * expected).abs().max(), weights.abs().max()
    return factor > 0 and bool(error <= rounding * largest)


def factor_name(factors: dict[int, float], k: int, rounding: float = ROUNDING) -> str:
    """Return the formula of factors by n, or the factors themselves."""
    for name, value in _FACTORS.items():
        if all(math.isclose(c, value(n, k), rel_tol=rounding) for n, c in factors.items()):
            return name
    if max(factors.values()) <= (1 + rounding) * min(factors.values()):
        return f"{min(factors.values()):.4g}"
    near, *distant = {f"{factor:.3g}" for factor in factors.values()}
    if not distant:
        return near
    return ", ".join(f"{factors[n]:.4g} at n = {n:,}" for n in (min(factors), max(factors)))
