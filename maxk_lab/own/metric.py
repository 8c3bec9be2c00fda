"""The check of a metric: an estimate of pass@k or Max@k from n samples.

A symmetric estimate is unbiased for every distribution of rewards if and only if it is the mean
over all subsets of k samples.
"""

from __future__ import annotations

import inspect
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.estimators.value import maxk_reward_estimate
from maxk_lab.own.evidence import FAMILIES, SIZES, Group, is_close, show_numbers, tensor
from maxk_lab.own.functions import Caller
from maxk_lab.own.rows import ROUNDING
from maxk_lab.own.verdict import Law, Verdict

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
    """Yield the verdict on a function of (rewards [n], k) or of counts (n, c, k), twice."""
    names = list(inspect.signature(function).parameters)
    counts = len(names) > 2 and (names[1] == "c" or "correct" in names[1])
    caller = Caller(function, k, "counts" if counts else "metric", values)
    estimates: dict[Group, float] = {}
    try:
        caller.estimate(tensor([0.0, 1.0] * k))
    except LabError as error:
        yield Verdict(name, k, f"does not run: it {error}")
        return
    deadline = time.monotonic() + limit
    for n in (n for n in SIZES if n >= k):
        for group in _groups(n, binary or counts):
            if time.monotonic() < deadline:
                estimates[group] = _estimate(caller, group)
        if n in (max(2, 2 * k), SIZES[-1]):
            yield _judge(name, caller, k, estimates, binary or counts)


def _estimate(caller: Caller, group: Group) -> float:
    try:
        return caller.estimate(tensor(group))
    except LabError:
        return math.nan


def _groups(n: int, binary: bool) -> Iterator[Group]:
    """Yield sorted groups of n: every number of successes, and some of other rewards."""
    for successes in range(n + 1) if n <= 64 else (0, 1, n // 2, n - 1, n):
        yield (*[0.0] * (n - successes), *[1.0] * successes)
    rng = random.Random(n)
    for draw in () if binary else FAMILIES.values():
        scale = 10 ** rng.uniform(-4, 0)
        yield tuple(sorted(draw(rng, scale) for _ in range(n)))


def _judge(
    name: str, caller: Caller, k: int, estimates: Mapping[Group, float], binary: bool
) -> Verdict:
    """Return the verdict on all estimates."""
    what = f"pass@{k}" if binary else f"Max@{k}"
    right = {group: float(maxk_reward_estimate(tensor(group), k)) for group in estimates}

    def deviates(group: Group, value: float, rounding: float = ROUNDING) -> bool:
        return not is_close([estimates[group]], [value], rounding, max(map(abs, group)))

    wrong = [group for group, value in right.items() if deviates(group, value)]
    few = [group for group in estimates if len(group) <= 2 * k + 1]
    counts = [group for group in few if {*group} <= {0.0, 1.0}]
    laws = tuple(_laws(caller, few, estimates, k))
    broken = [law for law in laws if law.needed and not law.holds]
    line, equals, example = f"unbiased for {what}", "", broken[0].detail if broken else ""
    if wrong:
        wrong_counts = [group for group in wrong if {*group} <= {0.0, 1.0}]
        n = len((wrong_counts or wrong)[0])
        kinds = (
            kind
            for kind, value in _OTHERS.items()
            if not any(deviates(group, value(group, k), _NEAR) for group in counts)
        )
        equals = next(kinds, "") if wrong_counts else ""
        line = f"biased for {what}" + (f": it is {equals}" if equals else "")
        if not wrong_counts:
            line = f"unbiased for rewards of 0 and 1, biased for {what} of others"
        elif n > k and not equals:
            line = f"unbiased for {what} up to n = {n - 1}, and wrong from n = {n}"
        same = [group for group in wrong_counts or wrong if len(group) == n]
        worst = max(same, key=lambda group: abs(estimates[group] - right[group]))
        group = show_numbers(worst[::-1])
        example = f"R = {group}, k = {k}: {estimates[worst]:.4g}, where {right[worst]:.4g} is right"
    elif broken:
        line += "; but it does not hold that " + ", nor that ".join(law.name for law in broken)
    sizes = sorted({len(group) for group in estimates})
    seen = f"{len(estimates):,} groups: n = {sizes[0]} to {sizes[-1]:,}, rewards "
    seen += "of 0 and 1" if binary else "in [-1e+06, 1e+06]"
    ok, objective, change = (
        not (wrong or broken),
        "" if wrong else f"J_{k}",
        _CHANGE if wrong else "",
    )
    return Verdict(
        name, k, line, seen, not wrong, ok, objective, equals, "", example, change, (), laws
    )


def _laws(
    caller: Caller, groups: list[Group], estimates: Mapping[Group, float], k: int
) -> Iterator[Law]:
    """Yield the laws of a metric."""
    few = (1.0, *[0.0] * (k - 2))
    cases = (
        ("a second call gives the same estimate", True, [(g, g) for g in groups]),
        ("the order of samples does not matter", True, [(g, (*g[1:], g[0])) for g in groups]),
        ("k > n is refused", False, [(few, few)] if k > 1 else []),
    )
    for name, needed, pairs in cases:
        detail = ""
        for group, order in pairs:
            expected, value = estimates.get(group, math.nan), _estimate(caller, order)
            if not detail and not is_close([value], [expected]):
                detail = f"R = {show_numbers(order)}, k = {k}: {value:.4g}"
                detail += f", then {expected:.4g}" if needed else ""
        yield Law(name, not detail, detail, needed)
