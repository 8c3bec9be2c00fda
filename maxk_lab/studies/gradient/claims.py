"""Verdicts on claims about gradient estimates: their bias, a measure, a ratio, an order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from maxk_lab.report.claims import Judged, shown, side, strict_side, together
from maxk_lab.report.document import number
from maxk_lab.report.model import Verdict
from maxk_lab.statistics.intervals import Interval, interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import Question
from maxk_lab.studies.gradient.row.model import GradientRow, same_mean
from maxk_lab.sweeps.spec.claims.arithmetic import evaluate_value
from maxk_lab.sweeps.spec.claims.shapes import (
    BiasedClaim,
    Claim,
    EqualsClaim,
    OrderClaim,
    RatioClaim,
    UnbiasedClaim,
)

_FOUND = ("biased", "scale bias")
_NOT_SEEN = ("no bias seen", "unbiased")
# Chance shows a bias in one report of twenty. It is told there, but a claim that is true by proof
# must not be refuted as often.
_REFUTES_AT = 0.2


def judge(claim: Claim, met: Sequence[tuple[GradientRow, ...]], alpha: float) -> Judged:
    """The verdict on a claim that meets these rows, or pairs or lists of them."""
    for row in (row for found in met for row in found):
        if row.units is None:
            return "undecided", f"{row.key.path}: {row.bias.reason}"
        if row.bias.verdict == "alarm":
            return "undecided", _evidence(row)
    if isinstance(claim, RatioClaim):
        return _judge_ratio(claim, met, alpha)
    if isinstance(claim, OrderClaim):
        return _judge_order(claim, met, alpha)
    rows = [row for (row,) in met]
    if isinstance(claim, UnbiasedClaim):
        return _judge_unbiased(claim, rows, alpha)
    if isinstance(claim, BiasedClaim):
        return _judge_biased(claim, rows)
    assert isinstance(claim, EqualsClaim)
    return _judge_equals(claim, rows, alpha)


def _judge_unbiased(claim: UnbiasedClaim, met: Sequence[GradientRow], alpha: float) -> Judged:
    """Refuted by a bias that was found, supported where none was and the claimed one would be.

    A bias that was found, but not at a fifth of the level, leaves it undecided.
    """
    biased = [row for row in met if row.bias.verdict in _FOUND]
    if biased:
        worst = min(biased, key=_clearness)
        text = f"{len(biased)} of {len(met)} rows biased, most clearly {_evidence(worst)}"
        if worst.enumerated or worst.bias.p_value < _REFUTES_AT * alpha:
            return "refuted", text
        return "undecided", f"{text}, which refutes below {_REFUTES_AT * alpha:g}"
    unjudged = [row for row in met if row.bias.verdict not in _NOT_SEEN]
    if unjudged:
        example = f"{unjudged[0].key.path}: {unjudged[0].bias.reason}"
        return "undecided", f"{len(unjudged)} of {len(met)} rows not judged, e.g. {example}"
    untold = [row for row in met if math.isnan(row.bias.detectable)]
    if untold:
        example = f"{untold[0].key.path}: {untold[0].bias.reason}"
        return "undecided", f"no bias seen in {len(met)} rows, but in {len(untold)} {example}"
    widest = max(met, key=lambda row: row.bias.detectable)
    if all(row.enumerated for row in met):
        seen = (
            f"unbiased by complete enumeration in {len(met)} rows, "
            "to a relative bias of at most "
            f"{widest.bias.detectable:.2g} ({widest.key.path})"
        )
    else:
        seen = (
            f"no bias seen in {len(met)} rows; "
            "the smallest bias along the gradient that could have been seen is at most "
            f"{widest.bias.detectable:.2g} ({widest.key.path})"
        )
    if not widest.bias.detectable <= claim.detectable:
        return "undecided", f"{seen}, more than the {claim.detectable:g} asked for"
    return "supported", seen


def _judge_biased(claim: BiasedClaim, met: Sequence[GradientRow]) -> Judged:
    """Supported where every row has the claimed bias.

    Enumeration decides every row. A test refutes only by finding the other kind where it proves it:
    a bias off the gradient, where one of scale alone was claimed; a bias that it does not see
    leaves the claim undecided.
    """
    wanted = "biased" if claim.bias == "direction" else "scale bias"
    verdicts: list[Judged] = []
    for row in met:
        if row.bias.verdict == wanted:
            verdicts.append(("supported", _evidence(row)))
        elif row.bias.verdict == "biased" or (
            row.enumerated and row.bias.verdict in (*_FOUND, *_NOT_SEEN)
        ):
            verdicts.append(("refuted", _evidence(row)))
        else:
            verdicts.append(("undecided", _evidence(row)))
    return together(verdicts, "rows")


def _clearness(row: GradientRow) -> tuple[float, float]:
    """Enumerated rows first, then the smallest p-value."""
    return -1.0 if row.enumerated else row.bias.p_value, -row.bias.relative_bias


def _evidence(row: GradientRow) -> str:
    bias = row.bias
    text = f"{row.key.path}: {bias.verdict}"
    if bias.verdict in ("undefined", "reference", "alarm"):
        return f"{text} ({bias.reason})"
    if row.enumerated:
        return f"{text}, relative bias {number(bias.relative_bias)} by complete enumeration"
    return f"{text}, p = {bias.p_value:.2g} (Holm)" if not math.isnan(bias.p_value) else text


def _judge_equals(claim: EqualsClaim, met: Sequence[GradientRow], alpha: float) -> Judged:
    """Supported where every interval lies within the tolerance, refuted where one lies outside."""
    level, verdicts, sampled = 1 - alpha / len(met), [], False
    for row in met:
        assert row.units is not None
        wanted = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
        found = interval(row.units, claim.metric, level=level)
        sampled = sampled or found.width > 0
        slack = claim.slack(wanted)
        low, high = wanted - slack, wanted + slack
        verdict: Verdict = "supported" if low <= found.low and found.high <= high else "undecided"
        if found.low > high or found.high < low:
            verdict = "refuted"
        text = f"{row.key.path}: {shown(found)}, claimed {number(wanted)} ± {slack:.3g}"
        verdicts.append((verdict, text))
    return together(verdicts, "intervals", alpha if sampled else None)


def _judge_ratio(claim: RatioClaim, met: Sequence[tuple[GradientRow, ...]], alpha: float) -> Judged:
    """Judge each ratio by its paired interval, which may touch the bound."""
    level, verdicts = 1 - alpha / len(met), []
    for row, partner in met:
        found = _ratio(row, partner, claim.metric, level, claim.about)
        text = f"{row.key.path} over {partner.key.path}: {shown(found)}"
        verdicts.append((side(found, claim.at_least, claim.at_most), text))
    return together(verdicts, "ratios", alpha)


def _judge_order(claim: OrderClaim, met: Sequence[tuple[GradientRow, ...]], alpha: float) -> Judged:
    """Judge the ratio of each row to the one before it: its paired interval must lie above 1.

    Below, it refutes. Neighbours suffice, as the order goes from each to the next. Rows of
    different settings have other instances as their units: the ratio is then as good as one of
    independent rows, and its interval still covers.
    """
    pairs = [pair for rows in met for pair in pairwise(rows)]
    level, verdicts = 1 - alpha / len(pairs), []
    for lower, upper in pairs:
        found = _ratio(upper, lower, claim.metric, level)
        text = f"{upper.key.path} over {lower.key.path}: {shown(found)}"
        verdicts.append((strict_side(found, 1.0, None), text))
    return together(verdicts, "ratios", alpha)


def _ratio(
    row: GradientRow,
    other: GradientRow,
    measure: str,
    level: float,
    about: Question | None = None,
) -> Interval:
    assert row.units is not None
    assert other.units is not None
    return log_ratio(
        row.units,
        other.units,
        measure=measure,
        level=level,
        same_mean=same_mean(row, other),
        question=about,
    ).mapped(math.exp)
