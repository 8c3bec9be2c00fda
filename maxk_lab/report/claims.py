"""Verdicts on claims: supported or refuted where intervals at a corrected level say so, else undecided."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from maxk_lab.gradients.statistics import Interval, interval, log_ratio
from maxk_lab.report.document import number
from maxk_lab.report.model import ClaimVerdict, SummaryRow, Verdict
from maxk_lab.sweeps.claims import AXES, Claim, EqualsClaim, RatioClaim, UnbiasedClaim, Where, evaluate_value

Judged = tuple[Verdict, str]
Pairs = Sequence[tuple[SummaryRow, ...]]


def judge_claims(
    claims: Iterable[Claim], rows: Sequence[SummaryRow], *, alpha: float = 0.05
) -> list[ClaimVerdict]:
    """One verdict per claim, in order, each at level `alpha` (Bonferroni over the intervals it rests on).

    A claim that meets no row, or an incomplete one, is undecided with that reason.
    """
    points = [{axis: getattr(row.key, axis) for axis in AXES} | {"row": row} for row in rows]
    verdicts = []
    for claim in claims:
        met = [tuple(point["row"] for point in found) for found in claim.points(points)]
        reason = _why_undecided([row for found in met for row in found])
        judged: Judged = ("undecided", reason) if reason else _judge(claim, met, alpha)
        verdicts.append(ClaimVerdict(claim.name, _words(claim), *judged))
    return verdicts


def _judge(claim: Claim, met: Pairs, alpha: float) -> Judged:
    if isinstance(claim, UnbiasedClaim):
        return _judge_unbiased(claim, [row for (row,) in met])
    if isinstance(claim, EqualsClaim):
        return _judge_equals(claim, [row for (row,) in met], alpha)
    return _judge_ratio(claim, met, alpha)


def _judge_unbiased(claim: UnbiasedClaim, met: Sequence[SummaryRow]) -> Judged:
    biased = [row for row in met if row.bias.verdict in ("biased", "scale bias")]
    if biased:
        worst = min(biased, key=lambda row: row.bias.p_value)
        return "refuted", (
            f"{len(biased)} of {len(met)} rows biased, most clearly {worst.key.path}: {worst.bias.verdict}, "
            f"p = {worst.bias.p_value:.2g} (Holm)"
        )
    unjudged = [row for row in met if row.bias.verdict != "no bias seen"]
    if unjudged:
        row = unjudged[0]
        return (
            "undecided",
            f"{len(unjudged)} of {len(met)} rows not judged, e.g. {row.key.path}: {row.bias.reason}",
        )
    widest = max(met, key=lambda row: row.bias.detectable)
    seen = (
        f"no bias seen in {len(met)} rows; the smallest relative bias that could have been seen is at most "
        f"{widest.bias.detectable:.2g} ({widest.key.path})"
    )
    if not widest.bias.detectable <= claim.detectable:
        return "undecided", f"{seen}, more than the {claim.detectable:g} asked for"
    return "supported", seen


def _judge_equals(claim: EqualsClaim, met: Sequence[SummaryRow], alpha: float) -> Judged:
    level, verdicts = 1 - alpha / len(met), []
    for row in met:
        assert row.units is not None
        wanted = evaluate_value(claim.value, row.key.n, row.key.k)
        found = interval(row.units, claim.metric, level=level)
        low, high = wanted - claim.tolerance, wanted + claim.tolerance
        verdict: Verdict = "supported" if low <= found.low and found.high <= high else "undecided"
        if found.low > high or found.high < low:
            verdict = "refuted"
        shown = f"{row.key.path}: {_shown(found)}, claimed {number(wanted)} ± {claim.tolerance:g}"
        verdicts.append((verdict, shown))
    return _together(verdicts, "intervals")


def _judge_ratio(claim: RatioClaim, met: Pairs, alpha: float) -> Judged:
    level, verdicts = 1 - alpha / len(met), []
    for row, partner in met:
        assert row.units is not None
        assert partner.units is not None
        logs = log_ratio(row.units, partner.units, measure=claim.metric, level=level)
        found = Interval(math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), level, logs.reason)
        shown = f"{row.key.path} over {partner.key.path}: {_shown(found)}"
        verdicts.append((_side(found, claim), shown))
    return _together(verdicts, "ratios")


def _side(found: Interval, claim: RatioClaim) -> Verdict:
    if claim.at_least is not None:
        return (
            "supported"
            if found.low >= claim.at_least
            else "refuted"
            if found.high < claim.at_least
            else "undecided"
        )
    assert claim.at_most is not None
    return (
        "supported"
        if found.high <= claim.at_most
        else "refuted"
        if found.low > claim.at_most
        else "undecided"
    )


def _together(verdicts: Sequence[Judged], what: str) -> Judged:
    """One refutation refutes; else every part must support."""
    counts = [verdict for verdict, _ in verdicts]
    order: tuple[Verdict, ...] = ("refuted", "undecided", "supported")
    overall = next(verdict for verdict in order if verdict in counts)
    example = verdicts[counts.index(overall)][1]
    return overall, f"{counts.count(overall)} of {len(counts)} {what}, e.g. {example}" if len(
        counts
    ) > 1 else example


def _shown(found: Interval) -> str:
    text = f"{number(found.value)} [{number(found.low)}, {number(found.high)}]"
    return f"{text} ({found.reason})" if found.reason else text


def _why_undecided(met: Sequence[SummaryRow]) -> str:
    if not met:
        return "no row of this run matches"
    partial = [row for row in met if not row.complete]
    if partial:
        row = partial[0]
        return (
            f"{len(partial)} of {len(met)} rows incomplete, e.g. {row.key.path}: "
            f"{len(row.finished)} of {len(row.cells)} seeds finished"
        )
    unusable = [row for row in met if row.units is None]
    return f"{unusable[0].key.path}: {unusable[0].bias.reason}" if unusable else ""


def _place(where: Where) -> str:
    parts: list[str] = [f"{axis} = {', '.join(map(str, values))}" for axis, values in where.given().items()]
    return f" where {'; '.join(parts)}" if parts else ""


def _words(claim: Claim) -> str:
    if isinstance(claim, UnbiasedClaim):
        return f"unbiased{_place(claim.where)} (a relative bias of {claim.detectable:g} would be seen)"
    if isinstance(claim, EqualsClaim):
        return f"{claim.metric} = {claim.value} ± {claim.tolerance:g}{_place(claim.where)}"
    side = f"at least {claim.at_least:g}" if claim.at_least is not None else f"at most {claim.at_most:g}"
    of, over = (
        ", ".join(str(v) for values in w.given().values() for v in values) for w in (claim.of, claim.over)
    )
    return f"{claim.metric} of {of} over {over} is {side}{_place(claim.where)}"
