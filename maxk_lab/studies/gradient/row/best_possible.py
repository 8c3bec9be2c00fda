"""The distance of each row from the best there can be: the joint optimum at the same n and K."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from maxk_lab.statistics.intervals import Interval, undefined
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.studies.gradient.row.model import GradientRow

OPTIMUM = "joint_optimum"


def with_over_best(rows: Sequence[GradientRow], level: float) -> list[GradientRow]:
    """`rows` with `over_best`, their variance over that of the joint optimum of the same gradient.

    That is one of the same environment, setting, stage, n and objective. A row derived biased has
    none: a shorter or a wrong gradient may well have less variance than the best of the right ones.
    """
    optima = {_place(row): row for row in rows if row.key.method.baseline.row.name == OPTIMUM}
    if not optima:
        return list(rows)
    return [
        replace(row, over_best=_ratio(row, optima[_place(row)], level))
        if row.catalogued_unbiased and _place(row) in optima
        else row
        for row in rows
    ]


def _place(row: GradientRow) -> tuple[Any, ...]:
    return *row.key.gradient, row.key.n


def _ratio(row: GradientRow, optimum: GradientRow, level: float) -> Interval:
    if row is optimum:
        return Interval(1.0, 1.0, 1.0, level)
    if row.units is None or optimum.units is None:
        return undefined(level, (row if row.units is None else optimum).bias.reason)
    return log_ratio(row.units, optimum.units, level=level).mapped(math.exp)
