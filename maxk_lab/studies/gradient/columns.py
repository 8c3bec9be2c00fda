"""The columns of the gradient study, the same in every format, and its flat records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from maxk_lab.report.document import UNDEFINED, Column, compact, number
from maxk_lab.report.key_columns import POINT, SEEDS
from maxk_lab.report.model import SummaryRow
from maxk_lab.report.naming import Setting, short_names, spelled

# What every row is asked for, whether it can be had or not.
ALWAYS = ("variance", "relative_variance", "snr", "squared_bias", "scale", "cosine")
# What only some studies measure.
OF_WEIGHTS = ("dead_gradient_rate", "weight_concentration", "value_variance")
OF_RATIOS = ("effective_sample_size", "kl", "ratio_std")
SOMETIMES = (*OF_WEIGHTS, *OF_RATIOS)
# The parts of the variance, in the order in which they are added up.
ANATOMY = ("variance_first", "variance_cross", "variance_baseline", "variance_interaction")
HEADINGS = {
    "variance": "variance",
    "relative_variance": "relative variance",
    "snr": "SNR",
    "squared_bias": "squared bias",
    "scale": "scale",
    "cosine": "cosine",
    "dead_gradient_rate": "dead gradients",
    "weight_concentration": "concentration",
    "value_variance": "value variance",
    "effective_sample_size": "ESS / n",
    "kl": "KL",
    "ratio_std": "std of ratios",
    "variance_first": "first order",
    "variance_cross": "cross terms",
    "variance_baseline": "baseline",
    "variance_interaction": "interaction",
}


def record(row: SummaryRow) -> dict[str, Any]:
    """The row as a mapping of every column; what is None has its reason in `undefined`."""
    flat: dict[str, Any] = {
        "environment": row.key.environment,
        **dict(row.key.setting),
        "stage": row.key.stage,
    }
    some = [measure(name) for name in SOMETIMES if name in row.intervals]
    for column in (*KEY, *VARIANCE, measure("squared_bias"), *BIAS, *some):
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


def setting_columns(settings: Sequence[Setting]) -> tuple[Column, ...]:
    """A column for each key of these settings, by its last word. Their rows have a `setting`, or a `key` that has."""
    keys = list(dict.fromkeys(key for setting in settings for key, _ in setting))
    return tuple(_setting_column(key, heading) for key, heading in short_names(keys).items())


def _setting_column(key: str, heading: str) -> Column:
    def value(row: Any) -> Any:
        return dict(getattr(row, "key", row).setting).get(key)

    def text(row: Any) -> str:
        found = value(row)
        return "" if found is None else spelled(found)

    return Column(heading, text, lambda row: {key: value(row)}, numeric=True)


def measure(name: str) -> Column:
    """The column of a measure with its interval; empty in rows where it was not measured."""

    def values(row: SummaryRow) -> Mapping[str, Any]:
        return row.intervals[name].columns(name)

    def text(row: SummaryRow) -> str:
        return compact(row.intervals[name]) if name in row.intervals else ""

    return Column(HEADINGS[name], text, values, numeric=True)


def share(part: str) -> Column:
    """The column of a part of the variance, in percent of it: exact for these instances, so without an interval."""

    def text(row: SummaryRow) -> str:
        total = sum(row.anatomy.values())
        return f"{100 * row.anatomy[part] / total:.1f} %" if total > 0 else UNDEFINED

    return Column(HEADINGS[part], text, lambda row: {part: row.anatomy[part]}, numeric=True)


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


KEY = (*POINT, SEEDS)
VARIANCE = (
    Column("★", lambda row: "★" if row.best else "", lambda row: {"best": row.best}),
    measure("variance"),
    measure("relative_variance"),
    measure("snr"),
)
BIAS = (
    measure("scale"),
    measure("cosine"),
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
    lambda row: number(row.bias.relative_bias) if row.exact else UNDEFINED,
    lambda row: {},
    numeric=True,
)
OVER_BEST = Column(
    "over best possible",
    lambda row: "" if row.over_best is None else compact(row.over_best),
    lambda row: row.over_best.columns("over_best"),
    numeric=True,
)
