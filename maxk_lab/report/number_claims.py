"""Verdicts on claims about numbers: a measure, a ratio of measures, a difference between trained policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from maxk_lab.report.document import number
from maxk_lab.report.model import SummaryRow, Verdict
from maxk_lab.report.verdicts import Judged, shown, side, strict_side, together
from maxk_lab.statistics.intervals import Interval, interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.studies.training.rows.comparison import difference
from maxk_lab.studies.training.rows.model import TrainingRow
from maxk_lab.sweeps.spec.claims.shapes import (
    DifferenceClaim,
    EqualsClaim,
    OrderClaim,
    RatioClaim,
    evaluate_value,
)


def judge_equals(claim: EqualsClaim, met: Sequence[SummaryRow], alpha: float) -> Judged:
    """Supported where every interval lies within the tolerance, refuted where one lies outside."""
    level, verdicts = 1 - alpha / len(met), []
    for row in met:
        assert row.units is not None
        wanted = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
        found = interval(row.units, claim.metric, level=level)
        slack = claim.slack(wanted)
        low, high = wanted - slack, wanted + slack
        verdict: Verdict = "supported" if low <= found.low and found.high <= high else "undecided"
        if found.low > high or found.high < low:
            verdict = "refuted"
        text = f"{row.key.path}: {shown(found)}, claimed {number(wanted)} ± {slack:.3g}"
        verdicts.append((verdict, text))
    return together(verdicts, "intervals")


def judge_ratio(
    claim: RatioClaim, met: Sequence[tuple[SummaryRow, SummaryRow]], alpha: float
) -> Judged:
    """By the paired interval of each ratio, which may touch the bound."""
    level, verdicts = 1 - alpha / len(met), []
    for row, partner in met:
        assert row.units is not None
        assert partner.units is not None
        logs = log_ratio(row.units, partner.units, measure=claim.metric, level=level)
        found = Interval(
            math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), level, logs.reason
        )
        text = f"{row.key.path} over {partner.key.path}: {shown(found)}"
        verdicts.append((side(found, claim.at_least, claim.at_most), text))
    return together(verdicts, "ratios")


def judge_order(claim: OrderClaim, met: Sequence[tuple[SummaryRow, ...]], alpha: float) -> Judged:
    """By the paired interval of the ratio of each row to the one before it, which must lie above 1; below, it refutes.

    Neighbours suffice, as the order goes from each to the next. Of different settings the units are other instances:
    the ratio is then as good as one of independent rows, and its interval still covers.
    """
    pairs = [pair for row in met for pair in pairwise(row)]
    level, verdicts = 1 - alpha / len(pairs), []
    for lower, upper in pairs:
        assert lower.units is not None
        assert upper.units is not None
        logs = log_ratio(upper.units, lower.units, measure=claim.metric, level=level)
        found = Interval(
            math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), level, logs.reason
        )
        text = f"{upper.key.path} over {lower.key.path}: {shown(found)}"
        verdicts.append((strict_side(found, 1.0, None), text))
    return together(verdicts, "ratios")


def judge_difference(
    claim: DifferenceClaim, met: Sequence[tuple[TrainingRow, TrainingRow]], alpha: float
) -> Judged:
    """By the interval over seeds of each paired difference, which must exclude the bound.

    One seed leaves it undecided: its interval is over instances and knows nothing of other training runs.
    """
    level = 1 - alpha / len(met)
    verdicts: list[Judged] = []
    for row, partner in met:
        found = difference(row, partner, claim.at_k, level)
        text = f"{row.key.path} minus {partner.key.path}: {shown(found)}"
        if row.one_seed:
            verdicts.append(("undecided", f"{text}, of one seed: another may end differently"))
        else:
            verdicts.append(
                (
                    strict_side(found, claim.at_least, claim.at_most),
                    f"{text} over {len(row.cells)} seeds",
                )
            )
    return together(verdicts, "differences")
