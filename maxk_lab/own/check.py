"""The check of a user's advantage function: what it equals, its bias by enumeration, its laws.

The mean of Σ w_i ψ_i over all outcomes of n draws from tiny bandits is exact and not estimated.
Functions are called with one group at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.method import Method
from maxk_lab.own.functions import Weigh, weigher

Group = tuple[float, ...]

# Relative differences below this are rounding, of functions in float32, too.
_ROUNDING = 1e-5
# A cosine that is nearer to 1 is written as 1.
_SEEN = 1e-3
# Outcomes of n draws that are enumerated, at the most.
_OUTCOMES = 20_000
# A variance that is so many times that of the best row is worth a word.
_LARGE = 2.0
# With rewards of 0 and 1 the direction of any weights is right on each bandit: that the length is
# the same factor on all, whatever the chance of success, is what tells an unbiased estimate.
_BINARY = (
    TinyBandit((0.2, -1.1, 0.7), (0.0, 1.0, 0.0)),
    TinyBandit((0.4, -0.9), (1.0, 0.0)),
    TinyBandit((0.1, 0.6, -0.4), (1.0, 0.0, 1.0)),
)
_BANDITS = (
    TinyBandit((0.3, -0.8, 0.5), (-6.25, -5.0, -4.1)),
    TinyBandit((0.4, -0.9), (1.0, 3.5)),
    *_BINARY,
)
_ARMS = 3
# The factors between what trainers call advantages and weights that sum to a gradient estimate.
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
    "1 - K/n": lambda n, k: 1 - k / n,
    "n - K": lambda n, k: n - k,
    "n (n - K)/K": lambda n, k: n * (n - k) / k,
    "(n - K)/K": lambda n, k: (n - k) / k,
    "C(n, K)": math.comb,
}
# What to do about a row that a function equals.
_CHANGES = {
    "sample_loo": "subtract K/n times the baseline: the weights have the scale K/n of the value",
    "pkpo_sloo": "subtract K/n times the baseline, not K/(n - 1) times",
    "group_mean": "multiply by n/(n - K), or leave the own sample out of the mean",
}
_ORDER, _SCALE, _WHOLE, _LARGE_GROUPS, _AT_K, _EQUAL = (
    "the order of samples does not matter",
    "twice the rewards have twice the weights",
    "whole numbers are treated as floats",
    "large groups have finite weights",
    "groups of n = K have weights",
    "groups of equal rewards have weight 0",
)


@dataclass(frozen=True)
class Law:
    """A property of weights, whether it holds, and the smallest group that breaks it.

    `needed` says whether weights without it are wrong.
    """

    name: str
    holds: bool
    detail: str = ""
    needed: bool = False


@dataclass(frozen=True)
class Bias:
    """E[Σ w_i ψ_i] at one n against ∇J_K, over bandits: the factor between them, and the cosine.

    `variance` is the largest relative variance, tr Cov/‖E‖², over that of the best unbiased row.
    """

    n: int
    factors: tuple[float, ...]
    cosines: tuple[float, ...]
    variance: float

    @property
    def is_zero(self) -> bool:
        """Whether nothing is left of the gradient."""
        return all(abs(factor) < _ROUNDING for factor in self.factors)

    @property
    def is_exact(self) -> bool:
        """Whether the mean is the gradient times one factor on all bandits."""
        low, high = min(self.factors), max(self.factors)
        return min(self.cosines) > 1 - _ROUNDING and 0 < high - _ROUNDING * high <= low


@dataclass(frozen=True)
class Verdict:
    """The findings of a check.

    `verdict` is one line. `unbiased`: E[Σ w_i ψ_i] is ∇J_K times a factor of n and K alone, to five
    digits on a few bandits whose groups are all listed; `ok`: it is, and no law that weights need
    is broken. `equals` names the row of the catalogue with the same weights times `factor`;
    `example` is the smallest group at which it is wrong, and `change` what to do.
    """

    function: str
    k: int
    verdict: str
    unbiased: bool = False
    ok: bool = False
    equals: str = ""
    factor: str = ""
    example: str = ""
    change: str = ""
    bias: tuple[Bias, ...] = ()
    laws: tuple[Law, ...] = ()


def check(
    function: Callable[..., Any],
    *,
    k: int = 4,
    signature: str = "rewards",
    binary: bool = False,
    name: str = "",
) -> Verdict:
    """Check an advantage function for K = k.

    `signature` is one of `SIGNATURES`: `rewards` for f(rewards [n]) or f(rewards, k), `flat` for
    f(rewards [B n], num_generations), `verl` for verl's. `binary` tries rewards of 0 and 1 only.
    Raises `LabError` for another signature, and for a k that is too large to enumerate groups.
    """
    sizes = [
        n for n in sorted({k + 1, k + 2, max(2 * k, k + 4)}) if n > 1 and _ARMS**n <= _OUTCOMES
    ]
    if k < 1 or not sizes:
        raise LabError(f"k must be at least 1 and at most 8, as all groups are listed; got {k}")
    name = name or getattr(function, "__name__", "the function")
    checked = _Checked(weigher(function, k, signature), k, sizes, binary)
    try:
        checked.weigh(_tensor([0.0, 1.0] * k))
    except LabError as error:
        return Verdict(name, k, f"does not run: it {error}")
    equals, factor = checked.equal_row()
    found = Verdict(
        name,
        k,
        "",
        equals=equals,
        factor=factor,
        bias=tuple(checked.bias(n, k) for n in sizes),
        laws=tuple(checked.laws()),
    )
    return _judged(checked, found)


class _Checked:
    """A function that is checked, with its K and the sizes of groups that it is tried at."""

    def __init__(self, weigh: Weigh, k: int, sizes: Sequence[int], binary: bool) -> None:
        self.weigh, self.k, self.sizes, self.binary = weigh, k, list(sizes), binary
        self._weights: dict[Group, list[float]] = {}
        # Then one order of a group stands for all, which are many.
        self._any_order = False
        self._any_order = self._law(_ORDER, self.groups(), self._in_any_order).holds

    def __call__(self, rewards: Sequence[float]) -> list[float]:
        """The weights of a group, NaN where the function raises."""
        order = list(range(len(rewards)))
        if self._any_order:
            order.sort(key=lambda i: rewards[i])
        group = tuple(rewards[i] for i in order)
        if group not in self._weights:
            try:
                self._weights[group] = self.weigh(_tensor(group)).tolist()
            except LabError:
                self._weights[group] = [math.nan] * len(group)
        placed = dict(zip(order, self._weights[group], strict=True))
        return [placed[i] for i in range(len(rewards))]

    def groups(self) -> list[Group]:
        """Groups of small whole numbers, the smallest first, at the smallest two sizes."""
        tops = (1,) if self.binary else (1, 2)
        return [
            tuple(map(float, group))
            for n in self.sizes[:2]
            for top in tops
            for group in combinations_with_replacement(range(top + 1), n)
            if len(set(group)) > 1
        ]

    def laws(self) -> Iterator[Law]:
        """The laws of weights."""
        groups = self.groups()
        yield self._law("weights are finite", groups, lambda g: _finite(self(g)), needed=True)
        yield self._law(_ORDER, groups, lambda group: self._any_order, needed=True)
        yield self._law("equal rewards have equal weights", groups, self._treats_ties_alike)
        yield self._integers(groups)
        if not self.binary:
            yield self._law(
                "a shift of the rewards changes nothing",
                groups,
                lambda g: _close(self([x + 7 for x in g]), self(g)),
            )
            yield self._law(
                _SCALE, groups, lambda g: _close(self([2 * x for x in g]), [2 * w for w in self(g)])
            )
        yield self._law(
            _EQUAL,
            [(1.0,) * n for n in self.sizes],
            lambda g: _close(self(g), [0.0] * len(g)),
        )
        yield self._missing()
        yield self._at_k()
        yield self._large()

    def _law(
        self,
        name: str,
        groups: Sequence[Group],
        holds: Callable[[Group], bool],
        needed: bool = False,
    ) -> Law:
        broken = next((group for group in groups if not holds(group)), None)
        if broken is None:
            return Law(name, True, needed=needed)
        return Law(name, False, f"R = {_listed(broken)}: w = {_listed(self(broken))}", needed)

    def _in_any_order(self, group: Group) -> bool:
        return _close(sorted(self(group[::-1])), sorted(self(group)))

    def _treats_ties_alike(self, group: Group) -> bool:
        by_reward: dict[float, list[float]] = {}
        for reward, weight in zip(group, self(group), strict=True):
            by_reward.setdefault(reward, []).append(weight)
        return all(_close([min(each)], [max(each)]) for each in by_reward.values())

    def _integers(self, groups: Sequence[Group]) -> Law:
        for group in groups:
            try:
                weights = self.weigh(_tensor(group).long()).tolist()
            except LabError as error:
                return Law(_WHOLE, False, f"R = {_listed(group)} as integers: it {error}")
            if not _close(sorted(weights), sorted(self(group))):
                apart = f"w = {_listed(weights)}, as floats {_listed(self(group))}"
                return Law(_WHOLE, False, f"R = {_listed(group)} as integers: {apart}", True)
        return Law(_WHOLE, True, needed=True)

    def _missing(self) -> Law:
        """Whether a reward that is NaN is refused, spreads, or is left out with weight 0."""
        name, group = "a reward of NaN is no number", self.groups()[-1]
        weights = self((math.nan, *group[1:]))
        left_out = weights[0] == 0 and _close(weights[1:], self(group[1:]))
        if left_out or not _finite(weights):
            return Law(name, True)
        return Law(name, False, f"R = {_listed((math.nan, *group[1:]))}: w = {_listed(weights)}")

    def _at_k(self) -> Law:
        """Whether groups of K samples have weights, of which the best of all can be trained."""
        group = (1.0, *[0.0] * (self.k - 1))
        weights = self(group)
        holds = self.k == 1 or (_finite(weights) and any(abs(w) > _ROUNDING for w in weights))
        return Law(_AT_K, holds, "" if holds else f"R = {_listed(group)}: w = {_listed(weights)}")

    def _large(self) -> Law:
        detail = ""
        try:
            rewards = torch.linspace(0, 1, 1200, dtype=torch.float64)
            weights = self.weigh(rewards.round() if self.binary else rewards)
            if not bool(weights.isfinite().all()):
                detail = "n = 1,200: weights that are not finite"
        except LabError as error:
            detail = f"n = 1,200: it {error}"
        return Law(_LARGE_GROUPS, not detail, detail, needed=True)

    def bias(self, n: int, k: int) -> Bias:
        """The mean of the estimate at n against ∇J_k, on every bandit."""
        bandits = _BINARY if self.binary else _BANDITS
        found = [self._against(bandit, n, k) for bandit in bandits]
        factors, cosines, variances = zip(*found, strict=True)
        return Bias(n, factors, cosines, max(variances))

    def _against(self, bandit: TinyBandit, n: int, k: int) -> tuple[float, float, float]:
        def weights(arms: Tensor, rewards: Tensor) -> Tensor:
            return torch.tensor([self(group) for group in rewards.tolist()], dtype=torch.float64)

        mean, variance = bandit.mean_estimate(n, weights), bandit.trace_variance(n, weights)
        truth = bandit.gradient(k)
        size, norm = float(mean.norm()), float(truth.norm())
        if not size > _ROUNDING * norm:  # 0 or NaN
            return 0 * size, 0 * size, math.nan
        along = float(mean @ truth) / norm
        return along / norm, along / size, variance / size**2 / _least_variance(bandit, n, k)

    def equal_row(self) -> tuple[str, str]:
        """The pair of the catalogue with the same weights up to a factor, and the factor."""
        for method in methods(self.k, self.binary):
            factors = {n: self._factor(method, n) for n in self.sizes if not method.refusal(n)}
            if factors and all(factor > 0 for factor in factors.values()):
                name = f"{method.estimator.name} {method.baseline.name}".removesuffix(" none")
                return name, factor_name(factors, self.k)
        return "", ""

    def _factor(self, method: Method, n: int) -> float:
        """The factor to the weights of a pair at n; NaN where they are others."""
        groups = self.tried(n)
        theirs = method.weights(_tensor(groups))
        mine = _tensor([self(group) for group in groups])
        factor = float((mine * theirs).sum() / theirs.square().sum())
        error, largest = float((mine - factor * theirs).abs().max()), float(mine.abs().max())
        return factor if error <= _ROUNDING * largest else math.nan

    def tried(self, n: int) -> list[Group]:
        """Groups of n: one success, ties, distinct rewards, and some far from 0."""
        found = [tuple(float(i == 1) for i in range(n)), tuple(float(i % 3 == 0) for i in range(n))]
        if not self.binary:
            found += [
                tuple(float(i * i % 7) + 0.1 * i for i in range(n)),
                tuple(0.3 * (i % 4) - 5 for i in range(n)),
            ]
        return found


def methods(k: int, binary: bool) -> list[Method]:
    """The pairs that need nothing but rewards, unbiased ones and those of maxk first."""
    found = [
        Method.parse(estimator, baseline, k)
        for estimator in ESTIMATORS.names()
        for baseline in BASELINES.names()
    ]
    usable = [
        method
        for method in found
        if method.needs_rewards_alone
        and not method.is_ordered
        and method.pair_refusal is None
        and (binary or not method.needs_binary_rewards)
        and (method.takes_baseline or method.baseline.name == "none")
    ]
    return sorted(usable, key=lambda method: not method.is_unbiased)


def factor_name(factors: dict[int, float], k: int) -> str:
    for name, value in _FACTORS.items():
        if all(math.isclose(c, value(n, k), rel_tol=_ROUNDING) for n, c in factors.items()):
            return name
    if max(factors.values()) <= (1 + _ROUNDING) * min(factors.values()):
        return f"{min(factors.values()):.4g}"
    return ", ".join(f"{factor:.4g} at n = {n}" for n, factor in factors.items())


def _least_variance(bandit: TinyBandit, n: int, k: int) -> float:
    """The least relative variance of the leave-one-out rows at (n, k)."""
    found = []
    for baseline in ("centred", "subloo"):
        method = Method.parse("maxk", baseline, k)
        if method.refusal(n) is None:
            size = float(bandit.gradient(k).square().sum())
            found.append(bandit.trace_variance(n, method) / size)
    return min(found, default=math.nan)


def _judged(checked: _Checked, found: Verdict) -> Verdict:
    """The verdict with its line, an example, and what to change."""
    k, biases = found.k, found.bias
    exact = all(bias.is_exact for bias in biases)
    factors = {bias.n: bias.factors[0] for bias in biases}
    scale = factor_name(factors, k) if exact else ""
    vanishing = scale in ("1 - K/n", "n - K", "n (n - K)/K", "(n - K)/K")
    broken = [law for law in found.laws if law.needed and not law.holds]
    row = f"{found.equals} times {found.factor}" if found.factor not in ("", "1") else found.equals
    is_row = f"it is {row}: " if row else ""
    broken_by = {law.name: law.detail for law in found.laws if not law.holds}
    example, change = "", ""
    if vanishing:
        line = f"right in direction, short by {scale}: nothing is left at n = K"
        example, change = broken_by.get(_AT_K, ""), _CHANGES["group_mean"]
    elif exact:
        line = f"unbiased for the gradient of J_{k}, times {scale}".removesuffix(", times 1")
        worst = max(biases, key=lambda bias: bias.variance)
        if worst.variance > _LARGE:
            example = broken_by.get(_EQUAL, "")
            line += f"; at n = {worst.n} its variance is {worst.variance:.3g} times the best row's"
            change = next((each for name, each in _CHANGES.items() if name in found.equals), "")
            change = change or _use(k, "subloo", math.inf if scale == "n" else 1.0)
    else:
        line, example, change = _biased(checked, found)
    if broken and exact:
        example, change = broken[0].detail, _change_of(broken[0])
    if broken:
        line += "; but it does not hold that " + ", nor that ".join(law.name for law in broken)
    unbiased = exact and not vanishing
    return replace(
        found,
        verdict=is_row + line,
        unbiased=unbiased,
        ok=unbiased and not broken,
        example=example,
        change=change,
    )


def _biased(checked: _Checked, found: Verdict) -> tuple[str, str, str]:
    """The line, the example and the change of a function whose mean is not the gradient."""
    k = found.k
    if all(checked.bias(n, n).is_exact for n in checked.sizes):
        line = f"it is for the best of all n samples, not of {k}"
        return line, "", "give it groups of K samples, or use subloo, which takes any n"
    for other in range(1, max(checked.sizes) + 1):
        sizes = [n for n in checked.sizes if n >= other]
        if other != k and sizes and all(checked.bias(n, other).is_exact for n in sizes):
            what = "the mean" if other == 1 else f"the best of {other}"
            return f"it is for J_{other}, {what}, not for J_{k}", "", _use(k, "subloo", 1.0)
    worst = min(found.bias, key=lambda bias: min(bias.cosines))
    cosine = min(worst.cosines)
    line = f"biased for the gradient of J_{k}: cosine {cosine:.3g} at n = {worst.n}"
    if cosine > 1 - _SEEN:
        low, high = min(worst.factors), max(worst.factors)
        line = (
            f"biased for the gradient of J_{k}: {low:.4g} to {high:.4g} times it at n = {worst.n}"
        )
    if not _finite([cosine for bias in found.bias for cosine in bias.cosines]):
        line = f"undefined: its weights are not finite at n = {worst.n}"
    elif worst.is_zero:
        line = f"nothing: the mean of its estimate is 0 at n = {worst.n}"
    baseline, example, factor = _nearest(checked)
    change = _use(k, baseline, factor)
    laws = {law.name: law for law in found.laws}
    same = all(_close(checked(g), [checked(g)[0]] * len(g)) for g in checked.groups())
    if same:
        change = f"give each sample a weight of its own: {change}"
    elif _SCALE in laws and not laws[_SCALE].holds and laws["weights are finite"].holds:
        change = f"do not divide by the spread of each group, which bends the direction: {change}"
    return line, example, change


def _nearest(checked: _Checked) -> tuple[str, str, float]:
    """The unbiased baseline whose weights are most alike, the smallest group where they differ."""
    best, found = -math.inf, ("subloo", "", 1.0)
    for baseline in ("none", "centred", "subloo", "sample_loo", "pkpo_sloo"):
        method = Method.parse("maxk", baseline, checked.k)
        groups = [g for g in checked.groups() if method.refusal(len(g)) is None]
        groups = [g for g in groups if _finite(checked(g))]
        if not groups:
            continue
        theirs = {group: method.weights(_tensor(group)).tolist() for group in groups}
        dots = [sum(a * b for a, b in zip(checked(g), theirs[g], strict=True)) for g in groups]
        square = sum(b * b for g in groups for b in theirs[g])
        own = sum(a * a for g in groups for a in checked(g))
        alike = sum(dots) / math.sqrt(square * own) if square * own > 0 else 0.0
        if alike <= best:
            continue
        factor = 1.0 if sum(dots) <= 0 else float(len(groups[0]))
        if abs(sum(dots) / square - 1) < abs(sum(dots) / square - factor):
            factor = 1.0
        scaled = {g: [(len(g) if factor > 1 else 1) * b for b in theirs[g]] for g in groups}
        wrong = next((g for g in groups if not _close(checked(g), scaled[g])), None)
        example = (
            ""
            if wrong is None
            else f"R = {_listed(wrong)}: w = {_listed(checked(wrong))}, and `{baseline}` has "
            f"{_listed(scaled[wrong])}" + (" (times n)" if factor > 1 else "")
        )
        best, found = alike, (baseline, example, factor)
    return found


def _use(k: int, baseline: str, factor: float) -> str:
    baseline = baseline if baseline in ("centred", "subloo") else "subloo"
    times = "n * " if factor > 1 else ""
    return f'{times}maxk_lab.advantages(rewards, k={k}, baseline="{baseline}") is unbiased'


def _change_of(law: Law) -> str:
    return {
        _WHOLE: "turn the rewards into floats before anything is made like them",
        _LARGE_GROUPS: "binomials overflow: take ratios of them, or maxk_lab.advantages",
        _ORDER: "weights may depend on the rewards alone",
    }.get(law.name, "")


def _tensor(numbers: Sequence[Any]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.float64)


def _close(mine: Sequence[float], theirs: Sequence[float]) -> bool:
    scale = max(map(abs, [*mine, *theirs, 1e-12]))
    pairs = zip(mine, theirs, strict=True)
    return all(abs(a - b) <= _ROUNDING * scale or (a != a and b != b) for a, b in pairs)


def _finite(numbers: Sequence[float]) -> bool:
    return all(map(math.isfinite, numbers))


def _listed(numbers: Sequence[float]) -> str:
    return f"[{', '.join(f'{number:.4g}' for number in numbers)}]"
