"""The rows of a gradient study as the tables that its charts are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from maxk_lab.report.charts import Table
from maxk_lab.report.naming import plain_setting
from maxk_lab.statistics.intervals import Interval
from maxk_lab.studies.gradient.pool import DISTANCE, GradientRow, method, method_order


def estimates(rows: Sequence[GradientRow]) -> Table:
    """One line per row and measure that has a value, in the order of the catalogue.

    `over_lowest` is the paired ratio to the lowest variance of an unbiased baseline at the same
    estimator, n and K: 1 for that itself, which is `best` where it is significantly lower than all
    others.
    """
    several = len({row.key.estimator for row in rows if row.key.method.takes_baseline}) > 1
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    ordered = sorted(
        rows,
        key=lambda row: (
            row.key.environment,
            row.key.stage,
            settings.index(row.key.setting),
            row.key.k,
            row.key.n,
            method_order(row),
        ),
    )
    groups = {row.key.group for row in rows if row.over_least is not None}
    places, subject = _places(ordered)
    lines = []
    for row in ordered:
        key, name = row.key, method(row)
        if several and key.method.takes_baseline:
            name = f"{key.estimator} {name}"
        same = {
            "row": key.path,
            "environment": key.plain or key.environment,
            "stage": key.stage,
            "estimator": key.estimator,
            "baseline": key.baseline,
            "n": key.n,
            "k": key.k,
            DISTANCE: 0.0,
            **dict(key.setting),
            "setting": plain_setting(key.setting),
            "place": places[_place(row)],
            "subject": subject,
            "panel": ", ".join(filter(None, [f"K = {key.k}", places[_place(row)]])),
            "method": name + ("" if row.catalogued_unbiased else " (biased)"),
            "unbiased": row.catalogued_unbiased,
            "enumerated": row.enumerated,
            "takes_baseline": key.method.takes_baseline,
            "bias": row.bias.verdict,
            "best": row.best,
            "oracle": key.method.fit == "oracle",
        }
        same["told"] = ", ".join(filter(None, [same["method"], f"n = {key.n}", same["panel"]]))
        lines += [same | told for told in _measures(row, lowest=key.group in groups)]
    return pd.DataFrame(lines)


def _measures(row: GradientRow, *, lowest: bool) -> Iterator[dict[str, Any]]:
    if row.units is None:
        return
    found: dict[str, Interval] = dict(row.intervals)
    if row.over_least is not None:
        found["over_lowest"] = row.over_least.mean
    elif lowest:
        found["over_lowest"] = Interval(1.0, 1.0, 1.0, 0.95)
    nothing = float("nan")
    found |= {name: Interval(value, nothing, nothing, 0.95) for name, value in row.anatomy.items()}
    for name, one in found.items():
        if math.isfinite(one.value):
            yield {
                "measure": name,
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "level": one.level,
                "about": one.question,
            }


def _place(row: GradientRow) -> Any:
    return row.key.plain or row.key.environment, row.key.setting, row.key.stage


def _places(rows: Sequence[GradientRow]) -> tuple[dict[Any, str], str]:
    """The words that tell a place from the others, and those for what all of them share."""
    found = list(dict.fromkeys(map(_place, rows)))
    parts = [
        (
            environment,
            plain_setting(setting),
            f"after {stage} steps" if stage else "before training",
        )
        for environment, setting, stage in found
    ]
    differ = [len(set(part)) > 1 for part in zip(*parts, strict=True)]

    def words(place: Sequence[str], of: bool) -> str:
        chosen = (part for part, so in zip(place, differ, strict=True) if so == of)
        return ", ".join(filter(None, chosen))

    named = {place: words(part, True) for place, part in zip(found, parts, strict=True)}
    return named, words(parts[0], False) if parts else ""
