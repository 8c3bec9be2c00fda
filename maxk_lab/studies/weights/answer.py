"""The answer of a weights study in sentences: what each method gives to samples, and takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from maxk_lab.report.document import exact
from maxk_lab.report.naming import listed
from maxk_lab.report.rows import grouped
from maxk_lab.studies.weights.rows import WeightsRow

_LISTED = 3
# What sums of weights leave of zero by rounding.
_ZERO = 1e-12


def answer(rows: Sequence[WeightsRow]) -> tuple[str, ...]:
    """A sentence for what holds of all groups of a method; then the rows that lack results."""
    told = [row for row in rows if row.all_finished]
    return (*(_sentences(told) if told else ()), *_missing(rows))


def focus(rows: Sequence[WeightsRow]) -> list[WeightsRow]:
    """The rows of the largest n and of the largest K at it."""
    n = max(row.key.n for row in rows)
    k = max(row.key.k for row in rows if row.key.n == n)
    return [row for row in rows if (row.key.n, row.key.k) == (n, k)]


def _sentences(rows: Sequence[WeightsRow]) -> Iterator[str]:
    methods = grouped(rows, lambda row: row.key.pair)

    def always(holds: Callable[[WeightsRow], bool]) -> str:
        return " and ".join(name for name, found in methods.items() if all(map(holds, found)))

    giving, balanced = always(_takes_nothing), always(_sums_to_zero)
    if giving:
        yield f"No weight is negative with {giving}: no sample is pushed down."
    if balanced:
        yield (
            f"The weights of a group sum to zero (mean over groups) with {balanced}: what some "
            "samples get is taken from the others."
        )
    zeros = list(filter(None, (_zeros(name, found) for name, found in methods.items())))
    if zeros:
        yield f"Some samples get a weight of zero with {'; '.join(zeros)}."
    if not (giving or balanced or zeros):
        yield "Every method gives some samples a negative weight, and none a weight of zero."
    groups = max(len(row.groups) for row in rows)
    yield f"Exactly so for the {groups} groups of rewards that were drawn; no others were weighed."


def _sums_to_zero(row: WeightsRow) -> bool:
    return abs(row.pooled("weight_sum")) <= _ZERO


def _takes_nothing(row: WeightsRow) -> bool:
    return row.pooled("weight_min") >= -_ZERO


def _zeros(name: str, rows: Sequence[WeightsRow]) -> str:
    """The share of samples with a weight of zero, at the ends of K; empty where there are none."""
    shares = {row.key.k: row.pooled("zero_share") for row in sorted(rows, key=lambda r: r.key.k)}
    if not any(share > 0 for share in shares.values()) or any(map(math.isnan, shares.values())):
        return ""
    (first, low), *_, (last, high) = [*shares.items()] * (2 if len(shares) == 1 else 1)
    if first == last:
        return f"{name} ({exact(low)} of all)"
    return f"{name} ({exact(low)} of all at K = {first}, {exact(high)} at K = {last})"


def _missing(rows: Sequence[WeightsRow]) -> Iterator[str]:
    missing = [row.key.path for row in rows if not row.all_finished]
    if missing:
        yield (
            f"Missing: {len(missing)} of {len(rows)} rows lack results "
            f"({listed(missing, _LISTED)}); nothing is said of them."
        )
