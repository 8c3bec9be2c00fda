"""The columns of the gradient study, the same in every format, and its flat records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from maxk_lab.report.document import UNDEFINED, Column, compact, number
from maxk_lab.report.key_columns import POINT, SEEDS
from maxk_lab.statistics.measures import MEASURES, in_group, measures_of
from maxk_lab.studies.gradient.row.model import GradientRow

# The measures that every row is asked for, whether they can be had or not.
ALWAYS = tuple(
    row.name for row in measures_of("gradient") if row.source == "moments" and row.heading
)
OF_VARIANCE = in_group("gradient", "variance")
OF_BIAS = in_group("gradient", "bias")
# The measures of some studies only.
OF_WEIGHTS = in_group("gradient", "weights", "value")
OF_RATIOS = in_group("gradient", "ratios")
SOMETIMES = (*OF_WEIGHTS, *OF_RATIOS)
# The parts of the variance, in the order in which they are added up.
ANATOMY = in_group("gradient", "anatomy")
# Those that no table shows.
_UNSHOWN = tuple(name for name in ALWAYS if name not in (*OF_VARIANCE, *OF_BIAS))


def record(row: GradientRow) -> dict[str, Any]:
    """The row as a mapping of every column; a value of None has its reason in `undefined`."""
    flat: dict[str, Any] = {
        "environment": row.key.environment,
        **dict(row.key.setting),
        "stage": row.key.stage,
    }
    some = [measure(name) for name in SOMETIMES if name in row.intervals]
    for column in (*KEY, *VARIANCE, *map(measure, _UNSHOWN), *BIAS, *some):
        flat |= column.values(row)
    flat |= row.anatomy
    if row.over_best is not None:
        flat |= OVER_BEST.values(row)
    flat["instances"], flat["pool"] = row.instances, row.pool
    flat["cells"] = dict(row.cells)
    flat["undefined"] = {
        name: interval.reason for name, interval in row.intervals.items() if not interval.known
    }
    return flat


def measure(name: str) -> Column:
    """The column of a measure with its interval; empty in rows where it was not measured."""

    def values(row: GradientRow) -> Mapping[str, Any]:
        return row.intervals[name].columns(name)

    def text(row: GradientRow) -> str:
        return compact(row.intervals[name]) if name in row.intervals else ""

    return Column(MEASURES.get(name).heading, text, values, numeric=True)


def share(part: str) -> Column:
    """The column of a part of the variance, in percent of it.

    Exact for these instances, and so without an interval.
    """

    def text(row: GradientRow) -> str:
        total = sum(row.anatomy.values())
        return f"{100 * row.anatomy[part] / total:.1f} %" if total > 0 else UNDEFINED

    return Column(
        MEASURES.get(part).heading, text, lambda row: {part: row.anatomy[part]}, numeric=True
    )


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


KEY = (*POINT, SEEDS)
VARIANCE = (
    Column("★", lambda row: "★" if row.best else "", lambda row: {"best": row.best}),
    *map(measure, OF_VARIANCE),
)
BIAS = (
    *map(measure, OF_BIAS),
    Column(
        "derived",
        lambda row: "unbiased" if row.catalogued_unbiased else "biased",
        lambda row: {"derived_unbiased": row.catalogued_unbiased},
    ),
    Column(
        "verdict",
        lambda row: UNDEFINED if row.bias.verdict == "undefined" else row.bias.verdict,
        lambda row: {
            "bias_verdict": row.bias.verdict,
            "bias_p_holm": _defined(row.bias.p_value),
            "relative_bias": _defined(row.bias.relative_bias),
        },
    ),
    Column(
        "could see",
        lambda row: number(row.bias.detectable),
        lambda row: {
            "detectable": _defined(row.bias.detectable),
            "detectable_scale": _defined(row.bias.detectable_scale),
            "against": row.against,
        },
        numeric=True,
    ),
)
# Exact for these instances, and so the one value that is printed without an interval.
EXACT_BIAS = Column(
    "bias",
    lambda row: number(row.bias.relative_bias) if row.enumerated else UNDEFINED,
    lambda row: {},
    numeric=True,
)
OVER_BEST = Column(
    "over best possible",
    lambda row: "" if row.over_best is None else compact(row.over_best),
    lambda row: row.over_best.columns("over_best"),
    numeric=True,
)
