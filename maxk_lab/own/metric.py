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
from itertools import combinations_with_replacement
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.estimators.value import maxk_reward_estimate
from maxk_lab.own.evidence import BINARY, FAMILIES, SIZES, Group, is_close, show_numbers, tensor
from maxk_lab.own.functions import Caller
from maxk_lab.own.rows import ROUNDING
from maxk_lab.own.verdict import Law, Verdict

# What metrics compute instead, from sorted rewards, and how near a bootstrap of these comes.
_OTHERS: dict[str, Callable[[Group, int], float]] = {
    "the best of k draws with replacement": lambda group, k: sum(
        reward * (((i + 1) / len(group)) ** k - (i / len(group)) ** k)
        for i, reward in enumerate(sorted(group))
    ),
    "the mean": lambda group, k: sum(group) / len(group),
    "the best of all n": lambda group, k: max(group),
}
_NEAR = 0.06


def check_metric(
    function: Callable[..., Any],
    k: int,
    name: str,
    binary: bool,
    values: Mapping[str, Any] | None,
    limit: float,
) -> Iterator[Verdict]:
    """Yield the verdict on a function of (rewards [n], k), or of counts (n, c, k), after each n."""
    counts = _takes_counts(function)
    caller = Caller(function, k, "counts" if counts else "metric", values)
    binary, deadline = binary or counts, time.monotonic() + limit
    estimates: dict[Group, float] = {}
    errors: dict[Group, str] = {}
    try:
        caller.estimate(tensor([0.0, 1.0] * k))
    except LabError as error:
        yield Verdict(name, k, f"does not run: it {error}")
        return
    for n in (n for n in SIZES if n >= k):
        for group in _groups(n, binary):
            if time.monotonic() < deadline:
                try:
                    estimates[group] = caller.estimate(tensor(group))
                except LabError as error:
                    estimates[group], errors[group] = math.nan, str(error)
        if time.monotonic() > deadline or n in (2 * k, SIZES[-1]):
            yield _judge(name, caller, k, estimates, errors, binary)
        if time.monotonic() > deadline:
            return


def _takes_counts(function: Callable[..., Any]) -> bool:
    """Whether the second parameter is a number of correct samples."""
    names = list(inspect.signature(function).parameters)
    return len(names) > 2 and ("correct" in names[1] or names[1] == "c")


def _groups(n: int, binary: bool) -> Iterator[Group]:
    """Yield groups of n rewards: of 0 and 1 every number of successes, of others a few."""
    rng = random.Random(n)
    for successes in range(n + 1) if n <= 64 else (0, 1, n // 2, n - 1, n):
        yield (*[0.0] * (n - successes), *[1.0] * successes)
    if not binary:
        if n <= 6:
            yield from combinations_with_replacement((-2.0, 0.0, 1.0), n)
        for family, draw in FAMILIES.items():
            scale = 10 ** rng.uniform(-4, 0)
            if family != BINARY:
                yield tuple(draw(rng, scale) for _ in range(n))


def _judge(
    name: str,
    caller: Caller,
    k: int,
    estimates: Mapping[Group, float],
    errors: Mapping[Group, str],
    binary: bool,
) -> Verdict:
    """Return the verdict on all estimates."""
    what = f"pass@{k}" if binary else f"Max@{k}"
    right = {group: float(maxk_reward_estimate(tensor(group), k)) for group in estimates}

    def deviates(group: Group, value: float, rounding: float = ROUNDING) -> bool:
        size = max(map(abs, group))
        return not is_close([estimates[group]], [value], rounding, size)

    wrong = [group for group, value in right.items() if deviates(group, value)]
    few = [group for group in estimates if len(group) <= 2 * k and group not in errors]
    zero_one = [group for group in estimates if {*group} <= {0.0, 1.0}]
    laws = tuple(_laws(caller, few, estimates, k))
    broken = [law for law in laws if law.needed and not law.holds]
    line, equal, change, example = f"unbiased for {what}", "", "", ""
    if wrong:
        wrong_counts = [group for group in wrong if group in zero_one]
        n = min(map(len, wrong_counts or wrong))
        kinds = [
            kind
            for kind, value in _OTHERS.items()
            if not any(deviates(g, value(g, k), _NEAR) for g in few if g in zero_one)
        ]
        equal = kinds[0] if kinds and wrong_counts else ""
        line = f"biased for {what}" + (f": it is {equal}" if equal else "")
        if not wrong_counts:
            line = f"unbiased for rewards of 0 and 1, biased for {what} of others"
        elif n > k and not equal:
            line = f"unbiased for {what} up to n = {n - 1}, and wrong from n = {n}"
        change = "take the mean over all subsets, 1 - C(n - c, k)/C(n, k) for rewards of 0 and 1"
        worst = max(
            (group for group in wrong_counts or wrong if len(group) == n),
            key=lambda g: abs(estimates[g] - right[g]) / max(1e-9, *map(abs, g)),
        )
        result = errors.get(worst) or f"returns {estimates[worst]:.4g}"
        example = (
            f"R = {show_numbers(worst[::-1])}, k = {k}: it {result}, {right[worst]:.4g} is right"
        )
    elif broken:
        line += "; but it does not hold that " + ", nor that ".join(law.name for law in broken)
        example = broken[0].detail
    sizes = sorted({len(group) for group in estimates})
    seen = f"{len(estimates):,} groups: n = {sizes[0]} to {sizes[-1]:,}"
    seen += ", rewards of 0 and 1" if binary else ", rewards in [-1e6, 1e6]"
    ok = not wrong and not broken
    objective = "" if wrong else f"J_{k}"
    return Verdict(
        name, k, line, seen, not wrong, ok, objective, equal, "", example, change, (), laws
    )


def _laws(
    caller: Caller, groups: list[Group], estimates: Mapping[Group, float], k: int
) -> Iterator[Law]:
    """Yield the laws of a metric."""

    def law(name: str, broken: Iterator[str], needed: bool) -> Law:
        detail = next(broken, "")
        return Law(name, not detail, detail, needed)

    def unlike(group: Group, order: Group) -> str:
        value = caller.estimate(tensor(order))
        return f"R = {show_numbers(order)}: {value:.4g}, then {estimates[group]:.4g}"

    again = (unlike(g, g) for g in groups if caller.estimate(tensor(g)) != estimates[g])
    yield law("a second call gives the same estimate", again, True)
    orders = ((g, (*g[1:], g[0])) for g in groups)
    turned = (
        unlike(g, order)
        for g, order in orders
        if not is_close([caller.estimate(tensor(order))], [estimates[g]])
    )
    yield law("the order of samples does not matter", turned, True)
    try:
        few = (1.0,) + (0.0,) * (k - 2)
        value = caller.estimate(tensor(few)) if k > 1 else math.nan
    except LabError:
        value = math.nan
    names = (f"R = {show_numbers(few)}, k = {k}: {value:.4g}" for _ in range(not math.isnan(value)))
    yield law("k > n is refused", names, False)
