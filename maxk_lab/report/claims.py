"""Verdicts on claims: supported or refuted where intervals at a corrected level say so, else undecided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maxk_lab.report.exact_claims import judge_exactly_equal, judge_optima
from maxk_lab.report.model import ClaimVerdict, SummaryRow
from maxk_lab.report.naming import spelled
from maxk_lab.report.number_claims import judge_difference, judge_equals, judge_order, judge_ratio
from maxk_lab.report.verdicts import Judged
from maxk_lab.studies.gradient.bias_claims import judge_biased, judge_unbiased
from maxk_lab.sweeps.spec.claims.shapes import (
    BiasedClaim,
    Claim,
    DifferenceClaim,
    EqualsClaim,
    OrderClaim,
    UnbiasedClaim,
    Where,
)
from maxk_lab.sweeps.studies import STUDIES


def judge_claims(
    claims: Iterable[Claim],
    rows: Mapping[str, Sequence[Any]],
    *,
    alpha: float = 0.05,
) -> list[ClaimVerdict]:
    """One verdict per claim, in order, each at level `alpha` (Bonferroni over the intervals it rests on).

    `rows` are those of each study, by its name. A claim that meets no row, or an incomplete one, is undecided with that reason.
    """
    points = {
        kind.name: [_point(row, kind.axes) for row in rows.get(kind.name, ())] for kind in STUDIES
    }
    verdicts = []
    for claim in claims:
        met = [
            tuple(point["row"] for point in found) for found in claim.points(points[claim.study])
        ]
        reason = _why_undecided([row for found in met for row in found])
        judged: Judged = ("undecided", reason) if reason else _judge(claim, met, alpha)
        verdicts.append(ClaimVerdict(claim.name, _words(claim), *judged))
    return verdicts


def _point(row: Any, axes: Sequence[str]) -> dict[str, Any]:
    setting = dict(getattr(row.key, "setting", ()))
    return {axis: getattr(row.key, axis) for axis in axes} | {"setting": setting, "row": row}


def _judge(claim: Claim, met: Sequence[tuple[Any, ...]], alpha: float) -> Judged:
    if isinstance(claim, UnbiasedClaim):
        return judge_unbiased(claim, [row for (row,) in met])
    if isinstance(claim, BiasedClaim):
        return judge_biased(claim, [row for (row,) in met])
    if isinstance(claim, EqualsClaim):
        rows = [row for (row,) in met]
        return (
            judge_exactly_equal(claim, rows)
            if claim.study == "weights"
            else judge_equals(claim, rows, alpha)
        )
    if isinstance(claim, OrderClaim):
        return judge_optima(met) if claim.study == "objective" else judge_order(claim, met, alpha)
    pairs = [(row, partner) for row, partner in met]
    if isinstance(claim, DifferenceClaim):
        return judge_difference(claim, pairs, alpha)
    return judge_ratio(claim, pairs, alpha)


def _why_undecided(met: Sequence[Any]) -> str:
    if not met:
        return "no row of this run matches"
    partial = [row for row in met if not row.complete]
    if partial:
        row = partial[0]
        return (
            f"{len(partial)} of {len(met)} rows incomplete, e.g. {row.key.path}: "
            f"{len(row.finished)} of {len(row.cells)} seeds finished"
        )
    for row in met:
        if isinstance(row, SummaryRow) and row.units is None:
            return f"{row.key.path}: {row.bias.reason}"
    return ""


def _place(where: Where) -> str:
    parts: list[str] = [
        f"{axis} = {', '.join(map(spelled, values))}" for axis, values in where.given().items()
    ]
    return f" where {'; '.join(parts)}" if parts else ""


def _words(claim: Claim) -> str:
    if isinstance(claim, UnbiasedClaim):
        return (
            f"unbiased{_place(claim.where)} (a relative bias of {claim.detectable:g} would be seen)"
        )
    if isinstance(claim, BiasedClaim):
        what = "biased in direction" if claim.bias == "direction" else "biased in scale only"
        return f"{what}{_place(claim.where)}"
    if isinstance(claim, EqualsClaim):
        relative = claim.relative_tolerance
        slack = f"{claim.tolerance:g}" if relative is None else f"{100 * relative:g} %"
        return f"{claim.metric} = {claim.value} ± {slack}{_place(claim.where)}"
    if isinstance(claim, OrderClaim):
        return f"{claim.metric} increases along {' < '.join(map(_values, claim.along))}{_place(claim.where)}"
    side = (
        f"at least {claim.at_least:g}"
        if claim.at_least is not None
        else f"at most {claim.at_most:g}"
    )
    if isinstance(claim, DifferenceClaim):
        # With its axes named: K = 8 minus K = 1 says more than 8 minus 1.
        of, over = (_place(where).removeprefix(" where ") for where in (claim.of, claim.over))
        return f"final {claim.metric} of {of}, minus that of {over}, is {side}{_place(claim.where)}"
    of, over = map(_values, (claim.of, claim.over))
    return f"{claim.metric} of {of} over {over} is {side}{_place(claim.where)}"


def _values(where: Where) -> str:
    return ", ".join(spelled(value) for values in where.given().values() for value in values)
