"""The columns of the gradient study, the same in every format, and its flat records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from maxk_lab.report.document import POINT, SEEDS, UNDEFINED, Column, compact, marked, number
from maxk_lab.statistics.bias import BiasVerdict
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.measures import MEASURES, in_group, measures_of
from maxk_lab.statistics.typical import TypicalRatio
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
    if row.over_least is not None:
        flat["least"] = row.over_least.baseline
        for column in OVER_LEAST:
            flat |= column.values(row)
    flat["instances"], flat["pool"] = row.instances, row.pool
    flat["cells"] = dict(row.cells)
    flat["undefined"] = {
        name: interval.reason for name, interval in row.intervals.items() if not interval.known
    }
    return flat


def measure(name: str) -> Column:
    """The column of a measure with its interval; empty in rows where it was not measured."""

    def values(row: GradientRow) -> Mapping[str, Any]:
        return _asked(row.intervals[name], name)

    def text(row: GradientRow) -> str:
        return marked(row.intervals[name]) if name in row.intervals else ""

    return Column(MEASURES.get(name).heading, text, values, numeric=True)


def _asked(found: Interval, name: str) -> Mapping[str, Any]:
    """The interval with what it is about."""
    return found.columns(name) | {f"{name}_about": found.question if found.known else None}


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


def _verdict(bias: BiasVerdict) -> str:
    """The verdict, with the instances whose own test found the bias."""
    if bias.verdict == "undefined":
        return UNDEFINED
    if not bias.found_on:
        return bias.verdict
    word = "instance" if bias.found_on == 1 else "instances"
    return f"{bias.verdict} (on {bias.found_on} {word}, worst {number(bias.worst)})"


def _carried(row: GradientRow) -> str:
    """`3.1 of 96`: the smaller of the effective numbers of instances, of all seeds."""
    if row.units is None or any(map(math.isnan, row.carrying.values())):
        return UNDEFINED
    return f"{min(row.carrying.values()):.1f} of {len(row.units.m2)}"


def _typical(row: GradientRow, text: Callable[[TypicalRatio], str]) -> str:
    found = row.over_least.typical if row.over_least is not None else None
    return UNDEFINED if found is None else text(found)


def _of_typical(row: GradientRow) -> Mapping[str, Any]:
    found = row.over_least.typical if row.over_least is not None else None
    if found is None:
        return {}
    return found.median.columns("typical_over_least") | {
        "less_on": found.below,
        "ties": found.ties,
        "sign_test_p": found.p_value,
    }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


KEY = (*POINT, SEEDS)
VARIANCE = (
    Column("★", lambda row: "★" if row.best else "", lambda row: {"best": row.best}),
    *map(measure, OF_VARIANCE),
    Column(
        "typical relative variance",
        lambda row: UNDEFINED if row.typical is None else compact(row.typical),
        lambda row: {} if row.typical is None else row.typical.columns("typical_relative_variance"),
        numeric=True,
    ),
    Column(
        "carried by",
        lambda row: _carried(row),
        lambda row: {f"effective_instances_{n}": _defined(v) for n, v in row.carrying.items()},
        numeric=True,
    ),
)
# The paired ratios to the baseline of least variance.
OVER_LEAST = (
    Column(
        "over the least",
        lambda row: marked(row.over_least.mean),
        lambda row: _asked(row.over_least.mean, "over_least"),
        numeric=True,
    ),
    Column(
        "typical instance",
        lambda row: _typical(row, lambda found: compact(found.median)),
        lambda row: _of_typical(row),
        numeric=True,
    ),
    Column(
        "less on",
        lambda row: _typical(row, lambda found: f"{found.below} of {found.instances}"),
        lambda row: {},
        numeric=True,
    ),
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
        lambda row: _verdict(row.bias),
        lambda row: {
            "bias_verdict": row.bias.verdict,
            "bias_p_holm": _defined(row.bias.p_value),
            "relative_bias": _defined(row.bias.relative_bias),
            "bias_found_on": row.bias.found_on,
            "bias_worst": _defined(row.bias.worst),
        },
    ),
    Column(
        "bias at most",
        lambda row: number(row.bias.at_most),
        lambda row: {"relative_bias_at_most": _defined(row.bias.at_most)},
        numeric=True,
    ),
    Column(
        "could see",
        lambda row: number(row.bias.detectable),
        lambda row: {
            "detectable": _defined(row.bias.detectable),
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
    lambda row: "" if row.over_best is None else marked(row.over_best),
    lambda row: _asked(row.over_best, "over_best"),
    numeric=True,
)
