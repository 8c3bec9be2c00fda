"""The facts of a weights study: which methods push samples down, and which leave some out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, Field

from maxk_lab.reports.report import Origin
from maxk_lab.reports.tables import Pooled, grouped
from maxk_lab.studies.weights.pool import WeightsRow

# What sums of weights leave of zero by rounding.
_ZERO = 1e-12


class Zeros(BaseModel):
    """The share of the samples with a weight of zero, at the smallest and the largest K."""

    method: str
    ks: tuple[int, int]
    shares: tuple[float, float]


class Line(BaseModel):
    """A method at the largest n, and the largest K there."""

    method: str = Field(title="method")
    zero_share: float = Field(title="zero share")
    weight_sum: float = Field(title="sum")
    weight_min: float = Field(title="min")


class Facts(BaseModel):
    """The methods of which something holds at every n and K."""

    never_negative: list[str]
    sum_to_zero: list[str]
    zeros: list[Zeros]
    groups: int
    title: str
    table: list[Line]


def facts(pooled: Pooled[WeightsRow], origin: Origin) -> Facts:
    """The facts of these rows."""
    known = [row for row in pooled.rows if row.all_finished]
    methods = grouped(known, lambda row: row.key.pair)
    n = max((row.key.n for row in known), default=0)
    k = max((row.key.k for row in known if row.key.n == n), default=0)
    return Facts(
        never_negative=_where(methods, lambda row: row.pooled("weight_min") >= -_ZERO),
        sum_to_zero=_where(methods, lambda row: abs(row.pooled("weight_sum")) <= _ZERO),
        zeros=[found for name, rows in methods.items() if (found := _zeros(name, rows))],
        groups=max((len(row.groups) for row in known), default=0),
        title=f"Weights at n = {n}, K = {k}",
        table=[_line(row) for row in known if (row.key.n, row.key.k) == (n, k)],
    )


def _where(
    methods: Mapping[str, Sequence[WeightsRow]], holds: Callable[[WeightsRow], bool]
) -> list[str]:
    """The methods of whose rows all are so."""
    return [name for name, rows in methods.items() if all(map(holds, rows))]


def _zeros(name: str, rows: Sequence[WeightsRow]) -> Zeros | None:
    shares = {row.key.k: row.pooled("zero_share") for row in sorted(rows, key=lambda r: r.key.k)}
    ks = tuple(shares)
    if not all(share >= 0 for share in shares.values()) or not any(shares.values()):
        return None
    return Zeros(method=name, ks=(ks[0], ks[-1]), shares=(shares[ks[0]], shares[ks[-1]]))


def _line(row: WeightsRow) -> Line:
    names = ("zero_share", "weight_sum", "weight_min")
    values = {name: row.pooled(name) for name in names}
    rounded = {name: 0.0 if abs(value) <= _ZERO else value for name, value in values.items()}
    return Line(method=row.key.pair, **rounded)
