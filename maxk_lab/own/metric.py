"""The check of a metric: an estimate of pass@k or Max@k from n samples.

A symmetric estimate is unbiased for every distribution of rewards if and only if it is the mean
over all subsets of k samples.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.estimators.value import maxk_reward_estimate
from maxk_lab.own.evidence import FAMILIES, SIZES, Group, is_close, show_numbers, tensor
from maxk_lab.own.functions import Caller, parameters
from maxk_lab.own.rows import ROUNDING
from maxk_lab.own.verdict import LateError, Law, Verdict, judge_steps

# What metrics compute instead, from sorted rewards.
_OTHERS: dict[str, Callable[[Group, int], float]] = {
    "the best of k draws with replacement": lambda group, k: sum(
        reward * (((i + 1) / len(group)) ** k - (i / len(group)) ** k)
        for i, reward in enumerate(group)
    ),
    "the mean": lambda group, k: sum(group) / len(group),
    "the best of all n": lambda group, k: max(group),
}
# How near a bootstrap comes to its mean.
_NEAR = 0.06
_CHANGE = "take the mean over all subsets, 1 - C(n - c, k)/C(n, k) for rewards of 0 and 1"


def check_metric(
    function: Callable[..., Any],
    k: int,
    name: str,
    binary: bool,
    values: Mapping[str, Any] | None,
    limit: float,
) -> Iterator[Verdict]:
    """Yield verdicts on a function of (rewards [n], k) or of counts: (n, c, k) or (c, n, k)."""
    names = [parameter.name for parameter in parameters(function)]
    correct = [place for place, name in enumerate(names[:2]) if name == "c" or "correct" in name]
    counts = ("correct first", "counts")[correct[0]] if correct else "metric"
    signature = counts if len(names) > 2 else "metric"
    metric = _Metric(Caller(function, k, signature, values), name, k, limit)
    metric.binary = binary or signature != "metric"
    try:
        metric.caller.estimate(tensor([0.0, 1.0] * k))
    except LabError as error:
        yield Verdict(name, k, f"does not run: it {error}")
        return
    sizes = [n for n in SIZES if n >= k]
    yield from judge_steps([partial(metric.add, n) for n in sizes], metric.judge)


class _Metric:
    """The estimates of a metric by group, sorted, and the verdict on them."""

    def __init__(self, caller: Caller, name: str, k: int, limit: float) -> None:
        self.caller, self.name, self.k, self.binary = caller, name, k, False
        self.deadline, self.is_slow = time.monotonic() + limit, False
        self.estimates: dict[Group, float] = {}
        self.errors: dict[Group, str] = {}
        self.laws: tuple[Law, ...] = ()

    def add(self, n: int) -> None:
        """Add the estimates of groups of n, and the laws once n is 2k."""
        for group in self._groups(n):
            if time.monotonic() > self.deadline:
                self.is_slow = True
                raise LateError
            self.estimates[group] = self._estimate(group)
        if n >= 2 * self.k and not self.laws:
            few = [group for group in self.estimates if len(group) <= 2 * self.k + 1]
            self.laws = tuple(self._check_laws(few))

    def _groups(self, n: int) -> Iterator[Group]:
        """Yield sorted groups of n: every number of successes, and some of other rewards."""
        for successes in range(n + 1) if n <= 64 else (0, 1, n // 2, n - 1, n):
            yield (*[0.0] * (n - successes), *[1.0] * successes)
        rng = random.Random(n)
        for draw in () if self.binary else FAMILIES.values():
            size = 1e6 * 10 ** rng.uniform(-4, 0)
            yield tuple(sorted(draw(rng, size) for _ in range(n)))

    def _estimate(self, group: Group) -> float:
        try:
            return self.caller.estimate(tensor(group))
        except LabError as error:
            self.errors[group] = str(error)
            return math.nan

    def judge(self) -> Verdict:
        """Return the verdict on all estimates so far."""
        k, estimates = self.k, self.estimates
        if not estimates:
            return Verdict(self.name, k, "no answer: its first calls take too long")
        what = f"pass@{k}" if self.binary else f"Max@{k}"
        right = {group: float(maxk_reward_estimate(tensor(group), k)) for group in estimates}
        wrong = [group for group, value in right.items() if self._deviates(group, value)]
        broken = [law for law in self.laws if law.needed and not law.holds]
        line, equals, example = f"unbiased for {what}", "", broken[0].detail if broken else ""
        if wrong:
            line, equals = self._biased(wrong, what)
            counts = [group for group in wrong if {*group} <= {0.0, 1.0}] or wrong
            same = [group for group in counts if len(group) == len(counts[0])]
            worst = max(same, key=lambda group: abs(estimates[group] - right[group]))
            value = self.errors.get(worst, f"{estimates[worst]:.4g}")
            example = f"R = {show_numbers(worst[::-1])}, k = {k}: {value}, where {right[worst]:.4g}"
            example += " is right"
        elif broken:
            line += "; but it does not hold that " + ", nor that ".join(law.name for law in broken)
        ok = bool(self.laws) and not (wrong or broken)
        objective, change = ("", _CHANGE) if wrong else (f"J_{k}", "")
        line = line if self.laws else f"so far {line}"
        return Verdict(
            *(self.name, k, line, self._seen(), not wrong, ok, objective, equals, "", example),
            *(change, (), self.laws),
        )

    def _deviates(self, group: Group, value: float, rounding: float = ROUNDING) -> bool:
        return not is_close([self.estimates[group]], [value], rounding, max(map(abs, group)))

    def _biased(self, wrong: Sequence[Group], what: str) -> tuple[str, str]:
        """Return the line on a biased metric, and what it computes instead."""
        counts = [group for group in wrong if {*group} <= {0.0, 1.0}]
        few = [g for g in self.estimates if len(g) <= 2 * self.k + 1 and {*g} <= {0.0, 1.0}]
        if not counts:
            return f"unbiased for rewards of 0 and 1, biased for {what} of others", ""
        for kind, value in _OTHERS.items():
            if not any(self._deviates(group, value(group, self.k), _NEAR) for group in few):
                return f"biased for {what}: it is {kind}", kind
        n = len(counts[0])
        if n > self.k:
            return f"unbiased for {what} up to n = {n - 1}, and wrong from n = {n}", ""
        return f"biased for {what}", ""

    def _seen(self) -> str:
        """Return the groups that the verdict rests on."""
        sizes = sorted({len(group) for group in self.estimates})
        text = f"{len(self.estimates):,} groups: n = {sizes[0]} to {sizes[-1]:,}, rewards "
        text += "of 0 and 1" if self.binary else "in [-1e+06, 1e+06]"
        return text + ("; its calls take too long for larger groups" if self.is_slow else "")

    def _check_laws(self, groups: list[Group]) -> Iterator[Law]:
        """Yield the laws of a metric."""
        k, few = self.k, (1.0, *[0.0] * (self.k - 2))
        cases = (
            ("a second call gives the same estimate", True, [(g, g) for g in groups]),
            ("the order of samples does not matter", True, [(g, (*g[1:], g[0])) for g in groups]),
            ("k > n is refused", False, [(few, few)] if k > 1 else []),
        )
        for name, needed, pairs in cases:
            detail = ""
            for group, order in pairs:
                expected, value = self.estimates.get(group, math.nan), self._estimate(order)
                if not detail and not is_close([value], [expected]):
                    detail = f"R = {show_numbers(order)}, k = {k}: {value:.4g}"
                    detail += f", then {expected:.4g}" if needed else ""
            yield Law(name, not detail, detail, needed)
