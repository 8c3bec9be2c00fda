"""The laws of weights, tested on small groups of rewards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, starmap

import torch

from maxk_lab.errors import LabError
from maxk_lab.own.evidence import Evidence, Group, is_close, show_numbers, tensor
from maxk_lab.own.rows import ROUNDING
from maxk_lab.own.verdict import Law

AT_K = "groups of n = K have weights"
SECOND = "a second call gives the same weights"


def check_laws(evidence: Evidence) -> Iterator[Law]:
    """Yield every law, with the first group that breaks it."""
    groups = evidence.small()
    finite = [g for g in groups if all(map(math.isfinite, evidence.weigh(g)))]
    broken = (evidence.show(g) for g in groups if g not in finite)
    yield _law("weights are finite", broken, needed=True)
    size = max((abs(w) for g in finite for w in evidence.weigh(g)), default=1.0)
    again = ((g, evidence.again(g)) for g in finite)
    unlike = (
        f"{evidence.show(g)}, then w = {show_numbers(w)}"
        for g, w in again
        if not is_close(w, evidence.weigh(g), ROUNDING, size)
    )
    second = _law(SECOND, unlike, needed=True)
    yield second
    if second.holds:  # other laws are meaningless for random weights
        yield from _group_laws(evidence, finite, size)
        yield from _edge_laws(evidence, size)
        yield from _type_laws(evidence, finite, size)


def _law(name: str, details: Iterable[str], needed: bool = False) -> Law:
    detail = next(filter(None, details), "")
    return Law(name, not detail, detail, needed)


def _group_laws(e: Evidence, groups: list[Group], size: float) -> Iterator[Law]:
    """Yield the laws of ordinary groups with finite weights, the largest of them `size`."""

    def ranked(group: Group) -> list[float]:
        return [w for _, w in sorted(zip(group, e.average(group), strict=True))]

    def scaled(group: Group, factor: float, shift: float = 0.0) -> Group:
        return tuple(factor * number + shift for number in group)

    def same(numbers: Sequence[float], expected: Sequence[float]) -> bool:
        return is_close(numbers, expected, ROUNDING, size)

    show, weigh = e.show, e.weigh
    orders = [(g, turned) for g in groups for turned in (g[::-1], (*g[1:], g[0]))]
    unlike = (f"{show(a)}; {show(b)}" for a, b in orders if not same(ranked(a), ranked(b)))
    yield _law("the order of samples does not matter", unlike, needed=True)
    ties = (show(g) for g in groups if not same(e.average(g), weigh(g)))
    yield _law("equal rewards have equal weights", ties)
    falls = [g for g in groups if any(a > b + ROUNDING * size for a, b in pairwise(ranked(g)))]
    yield _law("a higher reward has no lower weight", map(show, falls))
    if not e.binary:
        shifts = [show(g) for g in groups if not same(weigh(scaled(g, 1, 7)), weigh(g))]
        yield _law("a shift of the rewards changes nothing", shifts)
        pairs = [(scaled(g, 1, 1e4), g) for g in groups if not shifts and e.rounding < 1e-3]
        lost = (show(a) for a, b in pairs if not is_close(weigh(a), weigh(b), 0.01, size))
        yield _law("rewards near 10,000 are as exact as rewards near 0", lost, needed=True)
        doubles = (show(g) for g in groups if not same(weigh(scaled(g, 2)), scaled(weigh(g), 2)))
        yield _law("twice the rewards have twice the weights", doubles)
    if e.caller.takes_batches:

        def mixture(a: Group, b: Group) -> str:
            """Return how a second group changes the weights of a group; empty if it does not."""
            try:
                weights = e.caller.weigh(tensor([a, b]))[0].tolist()
            except LabError as error:
                return f"beside the group {show_numbers(b)} it {error}"
            text = f"{show(a)}, beside the group {show_numbers(b)} w = {show_numbers(weights)}"
            return "" if same(weights, weigh(a)) else text

        alike = ((a, b) for a, b in pairwise(groups) if len(a) == len(b))
        yield _law("groups of a batch do not mix", starmap(mixture, alike), needed=True)


def _edge_laws(e: Evidence, size: float) -> Iterator[Law]:
    """Yield the laws of groups without spread, of one sample, of n = K, and with a NaN."""
    k, n, show = e.k, e.sizes[-1], e.show

    def largest(group: Group) -> float:
        return max(map(abs, e.weigh(group)))

    values = (1.0,) if e.binary else (1.0, 0.95)
    equal = [(value,) * m for m in (k + 1, n) for value in values]
    failures = (show(g) for g in equal if not math.isfinite(sum(e.weigh(g))))
    yield _law("groups of equal rewards have finite weights", failures, needed=True)
    nonzero = (show(g) for g in equal if not largest(g) <= ROUNDING * size)
    yield _law("groups of equal rewards have weight 0", nonzero)
    if not e.binary:
        near, constant = tuple((0.3, 0.1 + 0.2)[i % 2] for i in range(n)), (0.3,) * n
        rounded, exact = (sorted(e.weigh(group)) for group in (near, constant))
        close = constant in e.errors or is_close(rounded, exact, 1e-3, size)
        single = [((a,) * 7 + (b,), (7.0,) * 7 + (8.0,)) for a, b in ((0.35, 0.4), (0.1, 0.7))]
        jumps = [pair for pair in single if k < 8 and largest(pair[0]) > 100 * largest(pair[1])]
        details = [*([] if close else [show(near)]), *(f"{show(a)}; {show(b)}" for a, b in jumps)]
        yield _law("rewards equal up to rounding count as equal", details, needed=True)
    alone, top, missing = (1.0,), (*[0.0] * (k - 1), 1.0), (math.nan, *[0.0] * (k - 1), 1.0)
    yield _law("a group of one has weight 0", [show(alone)] if largest(alone) > 0 else [])
    if k > 1:
        yield _law(AT_K, [] if largest(top) > ROUNDING else [show(top)])
    counted = math.isfinite(sum(e.weigh(missing))) and e.weigh(missing)[0] != 0
    yield _law("a reward of NaN is no number", [show(missing)] if counted else [])


def _type_laws(e: Evidence, groups: list[Group], size: float) -> Iterator[Law]:
    """Yield the laws of rewards with other types than float64."""

    def deviation(group: Group, dtype: torch.dtype) -> str:
        kind = f"R = {show_numbers(group)} in {str(dtype).removeprefix('torch.')}"
        eps = 4 * torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
        try:
            weights = e.caller.weigh(tensor(group).to(dtype)).tolist()
        except LabError as error:
            return f"{kind}: it {error}"
        if is_close(weights, e.weigh(group), ROUNDING + eps, size):
            return ""
        return f"{kind}: w = {show_numbers(weights)}, not {show_numbers(e.weigh(group))}"

    details = [deviation(g, torch.long) for g in groups]
    needed = not any(": it " in detail for detail in details)
    yield _law("whole numbers are treated as floats", details, needed)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        name = f"rewards in {str(dtype).removeprefix('torch.')} have the same weights"
        yield _law(name, (deviation(g, dtype) for g in groups))
