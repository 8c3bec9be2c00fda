"""Verdicts on the claims of a sweep about gradient rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from maxk_lab.reports.claims import ClaimVerdict, Verdict, combined, shown, side
from maxk_lab.reports.document import number
from maxk_lab.statistics.bias import LEAST_P
from maxk_lab.statistics.intervals import interval
from maxk_lab.studies.gradient.contests import ratio
from maxk_lab.studies.gradient.row import (
    FOUND_BIASED,
    GradientRow,
    same_mean,
)
from maxk_lab.sweep_file.claims import Claim, evaluate_value

_NOT_SEEN = ("no bias seen", "unbiased")
# Chance shows a bias in one report of twenty; a claim that is true by proof must not be refuted as
# often.
_REFUTES_AT = 0.2


def judge(claim: Claim, matching: Sequence[tuple[GradientRow, ...]], alpha: float) -> ClaimVerdict:
    """Return the verdict on a claim about these rows, or pairs or lists of rows."""
    for row in (row for measured in matching for row in measured):
        if row.units is None:
            return ClaimVerdict("undecided", f"{row.key.path}: {row.bias.reason}")
        if row.bias.verdict == "alarm":
            return ClaimVerdict("undecided", _evidence(row))
    if claim.kind in ("ratio", "order"):
        return _judge_ratios(claim, matching, alpha)
    rows = [row for (row,) in matching]
    if claim.kind == "unbiased":
        return _judge_unbiased(claim, rows, alpha)
    if claim.kind == "biased":
        return _judge_biased(claim, rows)
    return _judge_equals(claim, rows, alpha)


def _judge_unbiased(claim: Claim, matching: Sequence[GradientRow], alpha: float) -> ClaimVerdict:
    """Return refuted if a bias is found, supported if none is found and `detectable` is reached.

    A bias that is not found at a fifth of the level leaves the claim undecided.
    """
    count, level = len(matching), _REFUTES_AT * alpha
    if biased := [row for row in matching if row.bias.verdict in FOUND_BIASED]:
        # Enumerated rows first, then the smallest p-value.
        worst = min(
            biased,
            key=lambda row: (-1.0 if row.enumerated else row.bias.p_value, -row.bias.relative_bias),
        )
        text = f"{len(biased)} of {count} rows biased, most clearly {_evidence(worst)}"
        if worst.enumerated or worst.bias.p_value < level:
            return ClaimVerdict("refuted", text)
        return ClaimVerdict("undecided", f"{text}, which refutes below {level:g}")
    if unjudged := [row for row in matching if row.bias.verdict not in _NOT_SEEN]:
        example = f"{unjudged[0].key.path}: {unjudged[0].bias.reason}"
        return ClaimVerdict(
            "undecided", f"{len(unjudged)} of {count} rows not judged, e.g. {example}"
        )
    seen = f"no bias seen in {count} rows"
    if unknown := [row for row in matching if math.isnan(row.bias.detectable)]:
        example = f"{unknown[0].key.path}: {unknown[0].bias.reason}"
        return ClaimVerdict("undecided", f"{seen}, but in {len(unknown)} {example}")
    seen += "; the smallest bias along the gradient that could have been seen is at most "
    if all(row.enumerated for row in matching):
        seen = f"unbiased by complete enumeration in {count} rows, to a relative bias of at most "
    widest = max(matching, key=lambda row: row.bias.detectable)
    seen += f"{widest.bias.detectable:.2g} ({widest.key.path})"
    assert claim.detectable is not None
    if not widest.bias.detectable <= claim.detectable:
        return ClaimVerdict("undecided", f"{seen}, more than the {claim.detectable:g} asked for")
    return ClaimVerdict("supported", seen)


def _judge_biased(claim: Claim, matching: Sequence[GradientRow]) -> ClaimVerdict:
    """Return supported if every row has the claimed bias.

    Enumeration decides every row. A test refutes a claim of a scale bias if it finds another bias.
    A bias that the test does not find leaves the claim undecided.
    """
    claimed = "biased" if claim.bias == "direction" else "scale bias"
    verdicts: list[ClaimVerdict] = []
    for row in matching:
        proven = row.enumerated and row.bias.verdict in (*FOUND_BIASED, *_NOT_SEEN)
        verdict: Verdict = "refuted" if row.bias.verdict == "biased" or proven else "undecided"
        if row.bias.verdict == claimed:
            verdict = "supported"
        verdicts.append(ClaimVerdict(verdict, _evidence(row)))
    return combined(verdicts, "rows")


def _evidence(row: GradientRow) -> str:
    bias = row.bias
    text = f"{row.key.path}: {bias.verdict}"
    if bias.verdict in ("undefined", "reference", "alarm"):
        return f"{text} ({bias.reason})"
    if row.enumerated:
        return f"{text}, relative bias {number(bias.relative_bias)} by complete enumeration"
    if math.isnan(bias.p_value):
        return text
    sign, least = ("<", LEAST_P) if bias.p_value <= LEAST_P else ("=", bias.p_value)
    return f"{text}, p {sign} {least:.2g} (Holm)"


def _judge_equals(claim: Claim, matching: Sequence[GradientRow], alpha: float) -> ClaimVerdict:
    """Return supported if all intervals lie within the tolerance, refuted if one lies outside."""
    level, verdicts, sampled = 1 - alpha / len(matching), [], False
    for row in matching:
        assert row.units is not None
        claimed = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
        measured = interval(row.units, claim.measure, level=level)
        sampled = sampled or measured.width > 0
        slack = claim.slack(claimed)
        low, high = claimed - slack, claimed + slack
        verdict: Verdict = (
            "supported" if low <= measured.low and measured.high <= high else "undecided"
        )
        if measured.low > high or measured.high < low:
            verdict = "refuted"
        text = f"{row.key.path}: {shown(measured)}, claimed {number(claimed)} ± {slack:.3g}"
        verdicts.append(ClaimVerdict(verdict, text, measured))
    return combined(verdicts, "intervals", alpha if sampled else None)


def _judge_ratios(
    claim: Claim, matching: Sequence[tuple[GradientRow, ...]], alpha: float
) -> ClaimVerdict:
    """Judge each ratio by its paired interval, which may touch the bound.

    The ratios of an order are those of each row to the row before it. They must lie above 1; an
    interval below 1 refutes. Rows of different settings have different instances, so their ratio is
    treated as one of independent rows, and its interval still covers.
    """
    pairs: list[tuple[GradientRow, ...]] = list(matching)
    if claim.kind == "order":
        pairs = [(upper, lower) for rows in matching for lower, upper in pairwise(rows)]
    level, verdicts = 1 - alpha / len(pairs), []
    for row, partner in pairs:
        alike = same_mean(row, partner)
        measured = ratio(row, partner, level, claim.measure, claim.about, alike=alike)
        verdict = side(measured, 1.0, None, strict=True)
        if claim.kind == "ratio":
            verdict = side(measured, claim.at_least, claim.at_most)
        text = f"{row.key.path} over {partner.key.path}: {shown(measured)}"
        verdicts.append(ClaimVerdict(verdict, text, measured))
    return combined(verdicts, "ratios", alpha)
