"""Calls of a user's function on groups of rewards, and the evidence about its bias.

E[Σ w_i ψ_i] = c ∇J_K holds under every policy if and only if every change of one reward in a group
moves the weight of its sample by c times the move of its score weight. The reason is that the mean
over all groups is a polynomial in the probabilities, with these moves as coefficients. A pair of
groups that differ in one reward can prove a bias. All groups of a few values can prove that these
values have no bias. Samples with equal rewards count with their mean weight.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.method import Method
from maxk_lab.own.functions import Caller
from maxk_lab.own.rows import ROUNDING
from maxk_lab.own.verdict import Bias, LateError

Group = tuple[float, ...]
SIZES = (*range(2, 25), 31, 32, 33, 48, 63, 64, 1200)
# Relative differences of moves below this are rounding errors.
_ROUNDING = 1e-4
# If a call takes longer, groups stop growing.
_SLOW = 0.3
_GRID, _MOST_GROUPS, _OUTCOMES = (0.0, 1.0, -2.0), 80, 20_000
BINARY = "rewards of 0 and 1"
FAMILIES: dict[str, Callable[[random.Random, float], float]] = {
    "distinct rewards": lambda rng, size: rng.gauss(0, 1),
    BINARY: lambda rng, size: float(rng.random() < 0.2),
    "tied rewards": lambda rng, size: float(int(2 * rng.gauss(0, 1))),
    "positive rewards": lambda rng, size: 0.1 + abs(rng.gauss(0, 1)),
    "negative rewards": lambda rng, size: -0.1 - abs(rng.gauss(0, 1)),
    "large rewards": lambda rng, size: size * rng.uniform(-1, 1),
    "tiny rewards": lambda rng, size: rng.gauss(0, 1) / size,
}
_USUAL = ("whole numbers", "distinct rewards", BINARY, "tied rewards")
_BANDITS = (TinyBandit((0.3, -0.8, 0.5), (-6.25, -5.0, -4.1)), TinyBandit((0.4, -0.9), (1.0, 3.5)))
_BINARY_BANDITS = (
    TinyBandit((0.2, -1.1, 0.7), (0.0, 1.0, 0.0)),
    TinyBandit((0.4, -0.9), (1.0, 0.0)),
)


class Pair(NamedTuple):
    """Two groups that differ in one reward, and the change of the weight of its sample.

    `size` is the largest weight of both.
    """

    family: str
    before: Group
    after: Group
    low: float
    high: float
    moved: float
    size: float


class Fit(NamedTuple):
    """The fit of the pairs to the gradient of some J: the factor at each n, and deviating pairs.

    `needed` holds the move of the score weight in each pair, `errors` the rounding errors of the
    other weights.
    """

    factors: dict[int, float]
    wrong: list[Pair]
    needed: dict[Pair, float]
    errors: list[float]

    @property
    def is_right(self) -> bool:
        """Whether all pairs have the positive factor of their n."""
        return not self.wrong and bool(self.factors) and min(self.factors.values()) > 0


class Evidence:
    """The calls of one function and the pairs of groups that they make."""

    def __init__(self, caller: Caller, k: int, binary: bool, limit: float) -> None:
        self.caller, self.k, self.binary = caller, k, binary
        self.deadline, self.is_slow = time.monotonic() + limit, False
        self.calls: dict[Group, Group] = {}
        self.errors: dict[Group, str] = {}
        self.pairs: dict[int, list[Pair]] = {}
        self.sizes = range(max(k, 2), max(2 * k, k + 4) + 1)
        self.dtype = torch.float64  # of the weights of float64 rewards
        self._seconds: dict[int, float] = {}

    def weigh(self, group: Group) -> Group:
        """Return the weights of a group; NaN if the function raises."""
        if group not in self.calls:
            if time.monotonic() > self.deadline:
                self.is_slow = True
                raise LateError
            start = time.process_time()
            self.calls[group] = self.again(group)
            if group not in self.errors:
                self.dtype = self.caller.dtype
            seconds = time.process_time() - start + 1e-6
            self._seconds[len(group)] = min(seconds, self._seconds.get(len(group), seconds))
        return self.calls[group]

    def again(self, group: Group) -> Group:
        """Return the weights of a group from a new call; NaN if the function raises."""
        try:
            return tuple(self.caller.weigh(tensor(group)).tolist())
        except LabError as error:
            self.errors[group] = str(error)
            return (math.nan,) * len(group)

    def show(self, group: Group) -> str:
        """Return a group with its weights, or with the exception."""
        weights = self.weigh(group)
        error = self.errors.get(group)
        text = f"it {error}" if error else f"w = {show_numbers(weights)}"
        return f"R = {show_numbers(group)}: {text}"

    def seen(self, note: str = "") -> str:
        """Return a description of the groups with n >= K in all calls, with a note."""
        sizes = sorted({len(group) for group in self.calls if len(group) >= self.k}) or [0]
        rewards = [reward for group in self.calls for reward in group if math.isfinite(reward)]
        text = f"{len(self.calls):,} group{'s' * (len(self.calls) != 1)}: n = {sizes[0]}"
        small = max(n for n in sizes if n <= 64)
        text += (f" to {small}" if small > sizes[0] else "") + " and 1,200" * (1200 in sizes)
        span = f"in [{min(rewards, default=0):.0e}, {max(rewards, default=0):.0e}]"
        text += f", rewards {'of 0 and 1' if {*rewards} <= {0.0, 1.0} else span}{note}"
        return text + ("; its calls take too long for larger groups" if self.is_slow else "")

    def small(self) -> list[Group]:
        """Return the groups of whole numbers with the two smallest n > K, without equal groups."""
        sizes = [n for n in self.sizes if n > self.k][:2]
        return [g for g in self.calls if len(g) in sizes and len({*g}) > 1]

    def blocks(self, binary: bool = False) -> list[tuple[Tensor, Tensor]]:
        """Return groups with their finite weights [groups, n] by n; with `binary`, only 0 and 1."""
        blocks = []
        for pairs in self.pairs.values():
            groups = list(dict.fromkeys(p.before for p in pairs if p.family in _USUAL))
            if binary:
                groups = [g for g in groups if {*g} <= {0.0, 1.0}]
            weights = [(g, self.average(g)) for g in groups if len({*g}) > 1]
            rows = [(g, w) for g, w in weights if all(map(math.isfinite, w))]
            if rows:
                blocks.append((tensor([g for g, _ in rows]), tensor([w for _, w in rows])))
        return blocks

    def average(self, group: Group) -> list[float]:
        """Return the weights of a group, averaged over equal rewards."""
        weights: dict[float, list[float]] = {}
        for reward, weight in zip(group, self.weigh(group), strict=True):
            weights.setdefault(reward, []).append(weight)
        return [sum(weights[reward]) / len(weights[reward]) for reward in group]

    def add_grid(self, n: int) -> None:
        """Add all pairs of groups of n of a few whole numbers; of 0 and 1 if the pairs are many."""
        few = not self.binary and math.comb(n + len(_GRID) - 1, n) <= _MOST_GROUPS
        values = _GRID if few else (0.0, 1.0)
        for rest in combinations_with_replacement(values, n - 1):
            for low, high in pairwise(values):
                before, after = (tuple(sorted((*rest, value))) for value in (low, high))
                self._add("whole numbers", before, after, low, high)

    def add_drawn(self, n: int) -> None:
        """Add a pair of groups of n of every family of rewards, while calls are fast enough."""
        large = max(self._seconds)
        small = max((size for size in self._seconds if 4 * size <= large), default=0)
        if small and n > large:
            growth = self._seconds[large] / self._seconds[small]
            power = max(1.0, math.log(growth) / math.log(large / small))
            self.is_slow |= self._seconds[large] * (n / large) ** power > _SLOW
        rng, largest = random.Random(n), 1e2 if self.dtype is torch.float16 else 1e6
        for number, (family, draw) in enumerate({} if self.is_slow else FAMILIES.items()):
            size = largest * 10 ** rng.uniform(-4, 0)
            high, low, *rest = (draw(rng, size) for _ in range(n + 1))
            if (n + number) % 2 or n > 64:  # a move to the top shows the factor best
                *rest, high = sorted((high, *rest))
                rng.shuffle(rest)
            usable = family == BINARY if self.binary else n <= 64 or family in _USUAL
            if usable and low != high:
                self._add(family, (low, *rest), (high, *rest), low, high)

    def _add(self, family: str, before: Group, after: Group, low: float, high: float) -> None:
        moved = self.average(after)[after.index(high)] - self.average(before)[before.index(low)]
        size = max(map(abs, (*self.weigh(before), *self.weigh(after))))
        # A law covers functions that fail at equal rewards.
        if not any(group in self.errors and len({*group}) == 1 for group in (before, after)):
            pair = Pair(family, before, after, low, high, moved, size)
            self.pairs.setdefault(len(before), []).append(pair)

    @property
    def rounding(self) -> float:
        """The relative rounding error of the function's result type."""
        return _ROUNDING + (2 * torch.finfo(self.dtype).eps if self.dtype.is_floating_point else 0)

    def fit(self, k: int | None, complete: bool = True) -> Fit:
        """Return the fit to J_k, or to the best of all n if k is None.

        Unless `complete`, it stops at the first n with deviating pairs.
        """
        fit = Fit({}, [], {}, [0.0])
        for n, pairs in self.pairs.items():
            if (k or n) > n:
                continue
            moved, size = tensor([p.moved for p in pairs]), tensor([p.size for p in pairs])
            needed, level = _score_moves(pairs, k or n)
            if n == self.k and bool((moved.nan_to_num().abs() <= self.rounding * n * level).all()):
                continue  # many rows need K < n
            # The clearest typical pair determines the factor of all pairs.
            usual = (1e-9 + tensor([p.family in _USUAL for p in pairs])) * moved.isfinite()
            clear = (needed / level).abs()
            best = int((clear * usual).argmax())
            c = float(moved[best] / needed[best]) if clear[best] > 0 else 0.0
            c = 0.0 if bool((abs(c * needed) <= self.rounding * size).all()) else c
            off = (moved - c * needed).abs() / torch.maximum(size, abs(c) * level).clamp(1e-300)
            off /= 1 + clear / clear[best].clamp(1e-300)
            if bool(needed.any()):
                fit.factors[n] = c
            fit.needed.update(zip(pairs, needed.tolist(), strict=True))
            fit.errors.extend(off[off <= self.rounding].tolist())
            fit.wrong.extend(p for p, e in zip(pairs, off, strict=True) if not e <= self.rounding)
            if fit.wrong and not complete:
                break
        return fit

    def enumerate_bias(self) -> Iterator[Bias]:
        """Yield the bias and the variance on tiny bandits at a few n."""
        for n in sorted({self.k + 1, self.k + 2, max(2 * self.k, self.k + 4)}):
            if 3**n <= _OUTCOMES:
                bandits = _BINARY_BANDITS if self.binary else _BANDITS
                rows = [self._against(bandit, n) for bandit in bandits]
                factors, cosines, variances = zip(*rows, strict=True)
                yield Bias(n, (min(factors), max(factors)), min(cosines), max(variances))

    def _against(self, bandit: TinyBandit, n: int) -> tuple[float, float, float]:
        """Return the multiple of the gradient, the cosine and the variance on one bandit."""

        def weights(arms: Tensor, rewards: Tensor) -> Tensor:
            ranked, order = rewards.sort(1)
            groups, inverse = torch.unique(ranked, dim=0, return_inverse=True)
            table = tensor([self.average(tuple(group)) for group in groups.tolist()])
            # A law covers functions that fail at equal rewards.
            table[(groups == groups[:, :1]).all(1) & table.isnan().any(1)] = 0.0
            return torch.zeros_like(rewards).scatter(1, order, table[inverse])

        mean, variance = bandit.mean_estimate(n, weights), bandit.trace_variance(n, weights)
        truth = bandit.gradient(self.k)
        size, norm = float(mean.norm()), float(truth.norm())
        methods = [Method.parse("maxk", name, self.k) for name in ("centred", "subloo")]
        methods = [method for method in methods if method.refusal(n) is None]
        best = min((bandit.trace_variance(n, m) / norm**2 for m in methods), default=math.nan)
        along = float(mean @ truth) / norm
        if not size > ROUNDING * norm:  # 0 or NaN
            return along / norm, 0 * size, math.nan
        return along / norm, along / size, variance / size**2 / best


def _score_moves(pairs: Sequence[Pair], k: int) -> tuple[Tensor, Tensor]:
    """Return the moves of the score weights of J_k in pairs of one n, and the largest weights."""
    moves, level = torch.zeros(2, len(pairs), dtype=torch.float64)
    for sign, groups, values in (
        (-1, [p.before for p in pairs], [p.low for p in pairs]),
        (1, [p.after for p in pairs], [p.high for p in pairs]),
    ):
        rewards = tensor(groups)
        score = Method.parse("maxk", "none", k).weights(rewards)
        place = (rewards == tensor(values)[:, None]).double().argmax(1, keepdim=True)
        moves += sign * score.gather(1, place).squeeze(1)
        level = torch.maximum(level, score.abs().amax(1))
    return moves, level


def tensor(numbers: Sequence[object]) -> Tensor:
    """Return numbers as a tensor in float64."""
    return torch.tensor(numbers, dtype=torch.float64)


def is_close(
    numbers: Sequence[float], others: Sequence[float], rounding: float = ROUNDING, size: float = 0.0
) -> bool:
    """Whether numbers are equal up to rounding of the largest and of `size`; NaN equals NaN."""
    scale = max(size, 1e-12, *map(abs, (*numbers, *others)))
    pairs = zip(numbers, others, strict=True)
    return all(abs(a - b) <= rounding * scale or (a != a and b != b) for a, b in pairs)


def show_numbers(numbers: Sequence[float]) -> str:
    """Return numbers in brackets; at most eight of them."""
    short = [number + 0.0 for number in numbers[:8]]
    text = ", ".join(f"{x:.0f}" if x == round(x, 0) and abs(x) < 1e6 else f"{x:.4g}" for x in short)
    return f"[{text}, ... of {len(numbers)}]" if len(numbers) > 8 else f"[{text}]"
