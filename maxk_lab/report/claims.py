"""Verdicts on claims: supported or refuted where intervals at a corrected level say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maxk_lab.report.model import ClaimVerdict
from maxk_lab.report.naming import spelled
from maxk_lab.report.parts import ClaimsPart
from maxk_lab.report.rows import PooledRow, Rows
from maxk_lab.report.verdicts import Judged
from maxk_lab.sweeps.spec.claims.regions import Where
from maxk_lab.sweeps.spec.claims.shapes import (
    BiasedClaim,
    Claim,
    DifferenceClaim,
    EqualsClaim,
    OrderClaim,
    UnbiasedClaim,
)
from maxk_lab.sweeps.studies import STUDIES, StudyRow


def judge_claims(
    claims: Iterable[Claim], studies: Mapping[str, Rows[PooledRow]], *, alpha: float = 0.05
) -> list[ClaimVerdict]:
    """One verdict per claim, in order, each at level `alpha` (Bonferroni over its intervals).

    A claim that meets no row, or one without all of its seeds, is undecided with that reason; the
    kind of study that the claim speaks of judges any other.
    """
    return [_judged(claim, STUDIES.get(claim.study), studies, alpha) for claim in claims]


def _judged(
    claim: Claim, kind: StudyRow, studies: Mapping[str, Rows[PooledRow]], alpha: float
) -> ClaimVerdict:
    points = [_point(row, kind.axes) for row in studies[kind.name].rows]
    met = [tuple(point["row"] for point in found) for found in claim.points(points)]
    rows = [row for found in met for row in found]
    reason = _why_undecided(rows)
    judged: Judged = ("undecided", reason)
    if not reason:
        part: ClaimsPart = kind.part("claims")
        judged = part.judge(claim, met, alpha)
    complete = all(row.all_finished for row in rows)
    return ClaimVerdict(claim.name, _words(claim), *judged, judged=complete)


def _point(row: PooledRow, axes: Sequence[str]) -> dict[str, Any]:
    setting = dict(getattr(row.key, "setting", ()))
    return {axis: getattr(row.key, axis) for axis in axes} | {"setting": setting, "row": row}


def _why_undecided(met: Sequence[PooledRow]) -> str:
    if not met:
        return "no row of this run matches"
    partial = [row for row in met if not row.all_finished]
    if not partial:
        return ""
    row = partial[0]
    return (
        f"{len(partial)} of {len(met)} rows incomplete, e.g. {row.key.path}: "
        f"{len(row.finished)} of {len(row.cells)} seeds finished"
    )


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
        bias = "biased in direction" if claim.bias == "direction" else "biased in scale only"
        return f"{bias}{_place(claim.where)}"
    if isinstance(claim, EqualsClaim):
        relative = claim.relative_tolerance
        slack = f"{claim.tolerance:g}" if relative is None else f"{100 * relative:g} %"
        return f"{claim.metric} = {claim.value} ± {slack}{_place(claim.where)}"
    if isinstance(claim, OrderClaim):
        along = " < ".join(map(_values, claim.along))
        return f"{claim.metric} increases along {along}{_place(claim.where)}"
    side = (
        f"at least {claim.at_least:g}"
        if claim.at_least is not None
        else f"at most {claim.at_most:g}"
    )
    if isinstance(claim, DifferenceClaim):
        # With its axes named: K = 8 minus K = 1 says more than 8 minus 1.
        of, over = (_place(where).removeprefix(" where ") for where in (claim.of, claim.over))
        decoded = ", each at its own best temperature," if claim.decoding == "best" else ","
        what = claim.metric
        if claim.way is not None:
            what = {"own_way": "best reward, each in its own best way,"}.get(
                what, f"reward of {what}"
            )
        return f"final {what} of {of}, minus that of {over}{decoded} is {side}{_place(claim.where)}"
    of, over = map(_values, (claim.of, claim.over))
    about = f", about {claim.about}" if claim.about else ""
    return f"{claim.metric} of {of} over {over} is {side}{_place(claim.where)}{about}"


def _values(where: Where) -> str:
    return ", ".join(spelled(value) for values in where.given().values() for value in values)
