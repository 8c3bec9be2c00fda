"""The check of a metric: an estimate of pass@k or Max@k from n samples.

A symmetric estimate is unbiased for every distribution of rewards if and only if it is the mean
over all subsets of k samples.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from maxk_lab.estimators.value import maxk_reward_estimate
from maxk_lab.own.evidence import FAMILIES, SIZES, Evidence, Group, is_close, show_numbers, tensor
from maxk_lab.own.functions import Caller, parameters
from maxk_lab.own.rows import ROUNDING
from maxk_lab.own.verdict import Law, Verdict

# Common estimates of metrics that differ from the mean over subsets, from sorted rewards.
_OTHERS: dict[str, Callable[[Group, int], float]] = {
    "the best of k draws with replacement": lambda group, k: sum(
        reward * (((i + 1) / len(group)) ** k - (i / len(group)) ** k)
        for i, reward in enumerate(group)
    ),
    "the mean": lambda group, k: sum(group) / len(group),
    "the best of all n": lambda group, k: max(group),
}
# The tolerance of a bootstrap's mean.
_NEAR = 0.06
_CHANGE = "take the mean over all subsets, 1 - C(n - c, k)/C(n, k) for rewards of 0 and 1"


def metric_evidence(
    function: Callable[..., Any],
    k: int,
    binary: bool,
    values: Mapping[str, Any] | None,
    limit: float,
) -> Evidence:
    """Return evidence on a function of (rewards [n], k), or of counts: (n, c, k) or (c, n, k)."""
    names = [parameter.name for parameter in parameters(function)]
    correct = [place for place, name in enumerate(names[:2]) if name == "c" or "correct" in name]
    counts = bool(correct) and len(names) > 2
    signature = ("correct first", "counts")[correct[0]] if counts else "metric"
    return Evidence(Caller(function, k, signature, values), k, binary or counts, limit)


def metric_steps(evidence: Evidence, laws: list[Law]) -> list[Callable[[], object]]:
    """Yield after each call of a metric; its laws are tested once n is 2k."""
    sizes = [n for n in SIZES if n >= evidence.k]
    steps: list[Callable[[], object]] = [partial(_add, evidence, n) for n in sizes]
    few = sum(n <= 2 * evidence.k + 1 for n in sizes)
    return [*steps[:few], lambda: laws.extend([*_check_laws(evidence)]), *steps[few:]]


def _add(evidence: Evidence, n: int) -> None:
    """Add sorted groups of n: every number of successes, and some with other rewards."""
    for successes in range(n + 1) if n <= 64 else (0, 1, n // 2, n - 1, n):
        evidence.weigh((*[0.0] * (n - successes), *[1.0] * successes))
    rng = random.Random(n)
    for draw in () if evidence.binary else FAMILIES.values():
        size = 1e6 * 10 ** rng.uniform(-4, 0)
        evidence.weigh(tuple(sorted(draw(rng, size) for _ in range(n))))


def _check_laws(evidence: Evidence) -> Iterator[Law]:
    """Yield the laws of a metric."""
    k, groups = evidence.k, list(evidence.calls)
    for name, orders in (
        ("a second call gives the same estimate", groups),
        ("the order of samples does not matter", [(*group[1:], group[0]) for group in groups]),
    ):
        details = (
            f"R = {show_numbers(order)}, k = {k}: {value:.4g}, then {evidence.weigh(group)[0]:.4g}"
            for group, order in zip(groups, orders, strict=True)
            if not is_close([value := evidence.again(order)[0]], evidence.weigh(group)[:1])
        )
        detail = next(details, "")
        yield Law(name, not detail, detail, needed=True)
    few = (1.0, *[0.0] * (k - 2))
    value = evidence.again(few)[0] if k > 1 else math.nan
    detail = "" if math.isnan(value) else f"R = {show_numbers(few)}, k = {k}: {value:.4g}"
    yield Law("k > n is refused", not detail, detail)


def judge_metric(name: str, evidence: Evidence, laws: Sequence[Law]) -> Verdict:
    """Return the verdict on all estimates so far."""
    k, what = evidence.k, f"pass@{evidence.k}" if evidence.binary else f"Max@{evidence.k}"
    right = {group: float(maxk_reward_estimate(tensor(group), k)) for group in evidence.calls}
    wrong = [group for group, value in right.items() if _deviates(evidence, group, value)]
    broken = [law for law in laws if law.needed and not law.holds]
    line, equals, example = f"unbiased for {what}", "", broken[0].detail if broken else ""
    if wrong:
        line, equals = _biased(evidence, wrong, what)
        counts = [group for group in wrong if {*group} <= {0.0, 1.0}] or wrong
        same = [group for group in counts if len(group) == len(counts[0])]
        worst = max(same, key=lambda group: abs(evidence.calls[group][0] - right[group]))
        value = evidence.errors.get(worst, f"{evidence.calls[worst][0]:.4g}")
        example = f"R = {show_numbers(worst[::-1])}, k = {k}: {value}"
        example += f", where {right[worst]:.4g} is right"
    elif broken:
        line += "; it breaks: " + ", ".join(law.name for law in broken)
    return Verdict(
        function=name,
        k=k,
        verdict=line if laws else f"so far {line}",
        seen=evidence.seen(),
        unbiased=not wrong,
        ok=bool(laws) and not wrong and not broken,
        objective="" if wrong else f"J_{k}",
        equals=equals,
        example=example,
        change=_CHANGE if wrong else "",
        laws=tuple(laws),
    )


def _deviates(evidence: Evidence, group: Group, value: float, rounding: float = ROUNDING) -> bool:
    return not is_close(evidence.weigh(group)[:1], [value], rounding, max(map(abs, group)))


def _biased(evidence: Evidence, wrong: Sequence[Group], what: str) -> tuple[str, str]:
    """Return the sentence on a biased metric, and the quantity that it computes instead."""
    k, counts = evidence.k, [group for group in wrong if {*group} <= {0.0, 1.0}]
    few = [g for g in evidence.calls if len(g) <= 2 * k + 1 and {*g} <= {0.0, 1.0}]
    if not counts:
        return f"unbiased for rewards of 0 and 1, biased for {what} of others", ""
    for kind, value in _OTHERS.items():
        if not any(_deviates(evidence, group, value(group, k), _NEAR) for group in few):
            return f"biased for {what}: it is {kind}", kind
    n = len(counts[0])
    line = f"unbiased for {what} up to n = {n - 1}, and wrong from n = {n}"
    return line if n > k else f"biased for {what}", ""
