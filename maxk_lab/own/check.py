"""The check of a user's advantage function: what it equals, its bias by enumeration, its laws.

The mean of Σ w_i ψ_i over all outcomes of n draws from tiny bandits is exact and not estimated.
Functions are called with one group at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, pairwise
from typing import Any

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.method import Method
from maxk_lab.own.functions import Caller

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
_ORDER, _SCALE, _WHOLE, _LARGE_GROUPS, _AT_K, _EQUAL, _FINITE = (
    "the order of samples does not matter",
    "twice the rewards have twice the weights",
    "whole numbers are treated as floats",
    "large groups have finite weights",
    "groups of n = K have weights",
    "groups of equal rewards have weight 0",
    "weights are finite",
)
# What to do about a row that a function equals, and where a law is broken.
_CHANGES = {
    "sample_loo": "subtract K/n times the baseline: the weights have the scale K/n of the value",
    "pkpo_sloo": "subtract K/n times the baseline, not K/(n - 1) times",
    "group_mean": "multiply by n/(n - K), or leave the own sample out of the mean",
    _WHOLE: "turn the rewards into floats before anything is made like them",
    _LARGE_GROUPS: "binomials overflow: take ratios of them, or maxk_lab.advantages",
    _ORDER: "weights may depend on the rewards alone",
}


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
    checked = _Checked(Caller(function, k, signature).weigh, k, sizes, binary)
    try:
        checked.weigh(_tensor([0.0, 1.0] * k))
    except LabError as error:
        return Verdict(name, k, f"does not run: it {error}")
    row, factors = row_of(k, binary, [checked.tried(n) for n in sizes], _ROUNDING, False)
    found = Verdict(
        name,
        k,
        "",
        equals=row,
        factor=factor_name(factors, k) if row else "",
        bias=tuple(checked.bias(n, k) for n in sizes),
        laws=tuple(checked.laws()),
    )
    return _judged(checked, found)


class _Checked:
    """A function that is checked, with its K and the sizes of groups that it is tried at."""

    def __init__(
        self, weigh: Callable[[Tensor], Tensor], k: int, sizes: Sequence[int], binary: bool
    ) -> None:
        self.weigh, self.k, self.sizes, self.binary = weigh, k, list(sizes), binary
        self._weights: dict[Group, list[float]] = {}
        self._outcomes: dict[tuple[TinyBandit, int], Tensor] = {}
        # Groups of small whole numbers, the smallest first, at the smallest two sizes.
        self.groups: list[Group] = [
            tuple(map(float, group))
            for n in self.sizes[:2]
            for top in ((1,) if binary else (1, 2))
            for group in combinations_with_replacement(range(top + 1), n)
            if len(set(group)) > 1
        ]
        # Then one order of a group stands for all, which are many.
        self._any_order = False
        self._any_order = all(_close(sorted(self(g[::-1])), sorted(self(g))) for g in self.groups)

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

    def told(self, group: Group) -> str:
        """A group with its weights."""
        return f"R = {_listed(group)}: w = {_listed(self(group))}"

    def laws(self) -> Iterator[Law]:
        """The laws of weights: of each whether a group breaks it, or what is wrong there."""
        groups, at_k = self.groups, (1.0, *[0.0] * (self.k - 1))
        yield self._law(_FINITE, groups, lambda g: not _finite(self(g)), needed=True)
        yield self._law(_ORDER, groups, lambda g: not self._any_order, needed=True)
        yield self._law("equal rewards have equal weights", groups, self._tells_ties_apart)
        whole = self._law(_WHOLE, groups, self._as_integers, needed=True)
        yield replace(whole, needed=": it " not in whole.detail)
        if not self.binary:
            yield self._law(
                "a shift of the rewards changes nothing",
                groups,
                lambda g: not _close(self([x + 7 for x in g]), self(g)),
            )
            yield self._law(
                _SCALE,
                groups,
                lambda g: not _close(self([2 * x for x in g]), [2 * w for w in self(g)]),
            )
        yield self._law(
            _EQUAL, [(1.0,) * n for n in self.sizes], lambda g: not _close(self(g), [0.0] * len(g))
        )
        missing = (math.nan, *groups[-1][1:])
        yield self._law("a reward of NaN is no number", [missing], self._counts_missing)
        yield self._law(
            _AT_K,
            [at_k],
            lambda g: self.k > 1 and not (_finite(self(g)) and max(map(abs, self(g))) > _ROUNDING),
        )
        yield self._law(_LARGE_GROUPS, [()], lambda g: self._fails_at(1200), needed=True)

    def _law(
        self,
        name: str,
        groups: Sequence[Group],
        broken: Callable[[Group], bool | str],
        needed: bool = False,
    ) -> Law:
        for group in groups:
            if found := broken(group):
                return Law(name, False, found if found is not True else self.told(group), needed)
        return Law(name, True, needed=needed)

    def _tells_ties_apart(self, group: Group) -> bool:
        pairs = sorted(zip(group, self(group), strict=True))
        return any(a == b and not _close([v], [w]) for (a, v), (b, w) in pairwise(pairs))

    def _as_integers(self, group: Group) -> str:
        place = f"R = {_listed(group)} as integers: "
        try:
            weights = self.weigh(_tensor(group).long()).tolist()
        except LabError as error:
            return f"{place}it {error}"
        if _close(sorted(weights), sorted(self(group))):
            return ""
        return f"{place}w = {_listed(weights)}, as floats {_listed(self(group))}"

    def _counts_missing(self, group: Group) -> bool:
        """Whether a NaN is neither refused, nor spreads, nor is left out with weight 0."""
        weights = self(group)
        left_out = weights[0] == 0 and _close(weights[1:], self(group[1:]))
        return _finite(weights) and not left_out

    def _fails_at(self, n: int) -> str:
        rewards = torch.linspace(0, 1, n, dtype=torch.float64)
        try:
            weights = self.weigh(rewards.round() if self.binary else rewards)
        except LabError as error:
            return f"n = {n:,}: it {error}"
        finite = bool(weights.isfinite().all())
        return "" if finite else f"n = {n:,}: weights that are not finite"

    def bias(self, n: int, k: int) -> Bias:
        """The mean of the estimate at n against ∇J_k, on every bandit."""
        bandits = _BINARY if self.binary else _BANDITS
        found = [self._against(bandit, n, k) for bandit in bandits]
        factors, cosines, variances = zip(*found, strict=True)
        return Bias(n, factors, cosines, max(variances))

    def _against(self, bandit: TinyBandit, n: int, k: int) -> tuple[float, float, float]:
        def weights(arms: Tensor, rewards: Tensor) -> Tensor:
            if (bandit, n) not in self._outcomes:
                self._outcomes[bandit, n] = _tensor([self(group) for group in rewards.tolist()])
            return self._outcomes[bandit, n]

        mean, variance = bandit.mean_estimate(n, weights), bandit.trace_variance(n, weights)
        truth = bandit.gradient(k)
        size, norm = float(mean.norm()), float(truth.norm())
        if not size > _ROUNDING * norm:  # 0 or NaN
            return 0 * size, 0 * size, math.nan
        along = float(mean @ truth) / norm
        least = min(  # of the leave-one-out rows
            (
                bandit.trace_variance(n, method) / norm**2
                for method in (Method.parse("maxk", name, k) for name in ("centred", "subloo"))
                if method.refusal(n) is None
            ),
            default=math.nan,
        )
        return along / norm, along / size, variance / size**2 / least

    def tried(self, n: int) -> tuple[Tensor, Tensor]:
        """Groups of n: one success, ties, distinct rewards, some far from 0; and their weights."""
        found = [[float(i == 1) for i in range(n)], [float(i % 3 == 0) for i in range(n)]]
        if not self.binary:
            found += [
                [float(i * i % 7) + 0.1 * i for i in range(n)],
                [0.3 * (i % 4) - 5 for i in range(n)],
            ]
        return _tensor(found), _tensor([self(group) for group in found])


def row_of(
    k: int,
    binary: bool,
    blocks: Sequence[tuple[Tensor, Tensor]],
    rounding: float,
    everywhere: bool = True,
) -> tuple[str, dict[int, float]]:
    """The pair of the catalogue with the same weights up to a factor by n, and the factors.

    Of blocks of groups [groups, n], rewards and weights; it is defined at every n, or where it is.
    Pairs are those that need nothing but rewards, unbiased ones and those of maxk first; empty
    where it is none.
    """
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
    for method in sorted(usable, key=lambda method: not method.is_unbiased):
        factors: dict[int, float] = {}
        defined = [block for block in blocks if method.refusal(block[0].shape[-1]) is None]
        if everywhere and len(defined) < len(blocks):
            continue
        if all(_is_of(method, *block, factors, rounding) for block in defined) and factors:
            return f"{method.estimator.name} {method.baseline.name}".removesuffix(" none"), factors
    return "", {}


def _is_of(
    method: Method, rewards: Tensor, weights: Tensor, factors: dict[int, float], rounding: float
) -> bool:
    """Whether weights are a pair's times the factor at n, which is noted."""
    theirs = method.weights(rewards)
    factor = factors.setdefault(
        rewards.shape[-1], float((weights * theirs).sum() / theirs.square().sum())
    )
    error, largest = (weights - factor * theirs).abs().max(), weights.abs().max()
    return factor > 0 and bool(error <= rounding * largest)


def factor_name(factors: dict[int, float], k: int) -> str:
    """The name of what the factors are at every n, or the factors themselves."""
    for name, value in _FACTORS.items():
        if all(math.isclose(c, value(n, k), rel_tol=_ROUNDING) for n, c in factors.items()):
            return name
    if max(factors.values()) <= (1 + _ROUNDING) * min(factors.values()):
        return f"{min(factors.values()):.4g}"
    return ", ".join(f"{factor:.4g} at n = {n}" for n, factor in factors.items())


def _judged(checked: _Checked, found: Verdict) -> Verdict:
    """The verdict with its line, an example, and what to change."""
    k, biases = found.k, found.bias
    exact = all(bias.is_exact for bias in biases)
    scale = factor_name({bias.n: bias.factors[0] for bias in biases}, k) if exact else ""
    vanishing = scale in ("1 - K/n", "n - K", "n (n - K)/K", "(n - K)/K")
    broken = {law.name: law for law in found.laws if not law.holds}
    wrong = [law for law in broken.values() if law.needed]
    detail = {name: law.detail for name, law in broken.items()}
    example, change = "", ""
    if vanishing:
        line = f"right in direction, short by {scale}: nothing is left at n = K"
        example, change = detail.get(_AT_K, ""), _CHANGES["group_mean"]
    elif exact:
        line = f"unbiased for the gradient of J_{k}, times {scale}".removesuffix(", times 1")
        worst = max(biases, key=lambda bias: bias.variance)
        if worst.variance > _LARGE:
            example = detail.get(_EQUAL, "")
            line += f"; at n = {worst.n} its variance is {worst.variance:.3g} times the best row's"
            change = next((each for name, each in _CHANGES.items() if name in found.equals), "")
            change = change or _use(k, "subloo", scale == "n")
    else:
        line, example, change = _biased(checked, biases, broken)
    if wrong and exact:
        example, change = wrong[0].detail, _CHANGES.get(wrong[0].name, "")
    if wrong:
        line += "; but it does not hold that " + ", nor that ".join(law.name for law in wrong)
    row = f"{found.equals} times {found.factor}" if found.factor not in ("", "1") else found.equals
    unbiased = exact and not vanishing
    return replace(
        found,
        verdict=f"it is {row}: {line}" if row else line,
        unbiased=unbiased,
        ok=unbiased and not wrong,
        example=example,
        change=change,
    )


def _biased(
    checked: _Checked, biases: Sequence[Bias], broken: Mapping[str, Law]
) -> tuple[str, str, str]:
    """The line, the example and the change of a function whose mean is not the gradient."""
    k = checked.k
    if all(checked.bias(n, n).is_exact for n in checked.sizes):
        line = f"it is for the best of all n samples, not of {k}"
        return line, "", "give it groups of K samples, or use subloo, which takes any n"
    for other in range(1, max(checked.sizes) + 1):
        sizes = [n for n in checked.sizes if n >= other]
        if other != k and sizes and all(checked.bias(n, other).is_exact for n in sizes):
            what = "the mean" if other == 1 else f"the best of {other}"
            return f"it is for J_{other}, {what}, not for J_{k}", "", _use(k, "subloo", False)
    worst = min(biases, key=lambda bias: min(bias.cosines))
    cosine = min(worst.cosines)
    line = f"biased for the gradient of J_{k}: "
    if not _finite([cosine for bias in biases for cosine in bias.cosines]):
        line = "undefined: its weights are not finite"
    elif worst.is_zero:
        line = "nothing: the mean of its estimate is 0"
    elif cosine > 1 - _SEEN:
        line += f"{min(worst.factors):.4g} to {max(worst.factors):.4g} times it"
    else:
        line += f"cosine {cosine:.3g}"
    example, change = _nearest(checked)
    if all(_close(checked(g), [checked(g)[0]] * len(g)) for g in checked.groups):
        change = f"give each sample a weight of its own: {change}"
    elif _SCALE in broken and _FINITE not in broken:
        change = f"do not divide by the spread of each group, which bends the direction: {change}"
    return f"{line} at n = {worst.n}", example, change


def _nearest(checked: _Checked) -> tuple[str, str]:
    """The smallest group where the most similar unbiased baseline differs; and to use that."""
    best, found = -math.inf, ("", _use(checked.k, "subloo", False))
    for baseline in ("none", "centred", "subloo", "sample_loo", "pkpo_sloo"):
        method = Method.parse("maxk", baseline, checked.k)
        groups = [g for g in checked.groups if method.refusal(len(g)) is None]
        groups = [g for g in groups if _finite(checked(g))]
        if not groups:
            continue
        theirs = {group: method.weights(_tensor(group)) for group in groups}
        mine = _tensor([w for group in groups for w in checked(group)])
        all_theirs = torch.cat([theirs[group] for group in groups])
        dot, square = float(mine @ all_theirs), float(all_theirs.square().sum())
        norm = math.sqrt(square * float(mine.square().sum()))
        alike = dot / norm if norm > 0 else 0.0
        if alike <= best:
            continue
        n = len(groups[0])
        times_n = dot > 0 and abs(dot / square - n) <= abs(dot / square - 1)
        scaled = {g: ((len(g) if times_n else 1) * theirs[g]).tolist() for g in groups}
        wrong = next((g for g in groups if not _close(checked(g), scaled[g])), None)
        example = (
            ""
            if wrong is None
            else (
                f"{checked.told(wrong)}, and `{baseline}` has {_listed(scaled[wrong])}"
                + (" (times n)" if times_n else "")
            )
        )
        best, found = alike, (example, _use(checked.k, baseline, times_n))
    return found


def _use(k: int, baseline: str, times_n: bool) -> str:
    baseline = baseline if baseline in ("centred", "subloo") else "subloo"
    times = "n * " if times_n else ""
    return f'{times}maxk_lab.advantages(rewards, k={k}, baseline="{baseline}") is unbiased'


def _tensor(numbers: Sequence[Any]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def _close(mine: Sequence[float], theirs: Sequence[float]) -> bool:
    scale = max(map(abs, [*mine, *theirs, 1e-12]))
    pairs = zip(mine, theirs, strict=True)
    return all(abs(a - b) <= _ROUNDING * scale or (a != a and b != b) for a, b in pairs)


def _finite(numbers: Sequence[float]) -> bool:
    return all(map(math.isfinite, numbers))


def _listed(numbers: Sequence[float]) -> str:
    return f"[{', '.join(f'{number:.4g}' for number in numbers)}]"
