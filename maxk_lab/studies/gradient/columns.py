"""The columns of the gradient study, the same in every format, and its flat records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from maxk_lab.report.document import UNDEFINED, Column, compact, number
from maxk_lab.report.key_columns import POINT, SEEDS
from maxk_lab.report.model import SummaryRow
from maxk_lab.report.naming import Setting, short_names, spelled
from maxk_lab.statistics.measures import MEASURES, in_group, measures_of

# The measures that every row is asked for, whether it can be had or not.
ALWAYS = tuple(
    row.name for row in measures_of("gradient") if row.source == "moments" and row.heading
)
OF_VARIANCE = in_group("gradient", "variance")
OF_BIAS = in_group("gradient", "bias")
# Those that only some studies have.
OF_WEIGHTS = in_group("gradient", "weights", "value")
OF_RATIOS = in_group("gradient", "ratios")
SOMETIMES = (*OF_WEIGHTS, *OF_RATIOS)
# The parts of the variance, in the order in which they are added up.
ANATOMY = in_group("gradient", "anatomy")
# Those that no table shows.
_UNSHOWN = tuple(name for name in ALWAYS if name not in (*OF_VARIANCE, *OF_BIAS))


def record(row: SummaryRow) -> dict[str, Any]:
    """The row as a mapping of every column; what is None has its reason in `undefined`."""
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

    return Column(MEASURES.get(name).heading, text, values, numeric=True)


def share(part: str) -> Column:
    """The column of a part of the variance, in percent of it: exact for these instances, so without an interval."""

    def text(row: SummaryRow) -> str:
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
