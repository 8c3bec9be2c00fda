"""How far each row is from the best there can be: its variance over that of the joint optimum at the same n and K."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from maxk_lab.estimators.catalogue import choose_baseline
from maxk_lab.estimators.method import Method
from maxk_lab.report.model import SummaryRow
from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.log_ratios import log_ratio

OPTIMUM = "joint_optimum"


def with_over_best(rows: Sequence[SummaryRow], level: float) -> list[SummaryRow]:
    """`rows` with `over_best` on those derived unbiased, wherever a joint optimum estimates the same gradient.

    That is one of the same environment, setting, stage, n and objective. A biased row has none: a shorter or a wrong
    gradient may well have less variance than the best of the right ones.
    """
    optima = {
        _place(row): row for row in rows if choose_baseline(row.key.baseline).row.name == OPTIMUM
    }
    if not optima:
        return list(rows)
    return [
        replace(row, over_best=_ratio(row, optima[_place(row)], level))
        if row.catalogued_unbiased and _place(row) in optima
        else row
        for row in rows
    ]


def _place(row: SummaryRow) -> tuple[Any, ...]:
    key = row.key
    objective = Method.parse(key.estimator, k=key.k).objective
    return key.environment, key.setting, key.stage, key.n, objective.name


def _ratio(row: SummaryRow, optimum: SummaryRow, level: float) -> Interval:
    if row is optimum:
        return Interval(1.0, 1.0, 1.0, level)
    if row.units is None or optimum.units is None:
        return undefined(level, (row if row.units is None else optimum).bias.reason)
    logs = log_ratio(row.units, optimum.units, level=level)
    return Interval(
        math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), level, logs.reason
    )
