"""Numbers of the golden results, as the template of the README asks for them.

A number that no row, or several rows, of a report have is an error, and so is a sentence that the
records no longer show. So a page never shows a number without a record.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

import maxk_lab

GOLDEN = Path(__file__).resolve().parents[1] / "results/golden"


class WrongReferenceError(Exception):
    """A template asks for a number that the records lack, or says what they no longer show."""


def require(condition: Any, sentence: str) -> None:
    """Raise if the records no longer show what a sentence says."""
    if not condition:
        raise WrongReferenceError(f"the records no longer show that {sentence}")


@cache
def report(name: str) -> maxk_lab.RunReport:
    """Return the report of a golden result."""
    return maxk_lab.report(GOLDEN / name / f"{name}.zip")


def select(frame: pd.DataFrame, **axes: Any) -> pd.DataFrame:
    """Return the lines of a table that have these values."""
    for axis, value in axes.items():
        frame = frame[frame[axis.replace("__", ".")] == value]
    return frame


def value(name: str, measure: str, **axes: Any) -> tuple[float, float, float]:
    """Return the only number of a golden result with these axes, and the ends of its interval."""
    rows = select(report(name).tables.estimates, measure=measure, **axes)
    if len(rows) != 1 or rows[["value", "low", "high"]].isna().any(axis=None):
        raise WrongReferenceError(f"{name}: {len(rows)} rows have {measure} where {axes}")
    return tuple(rows[["value", "low", "high"]].iloc[0])


def interval(name: str, measure: str, **axes: Any) -> str:
    """Return a number with its interval, as `12.3 [11.0, 13.9]`."""
    middle, low, high = map(number, value(name, measure, **axes))
    return f"{middle} [{low}, {high}]"


def lowest(name: str, **axes: Any) -> str:
    """Return at how many of its points a baseline is significantly lowest, as `10 of 11`."""
    estimates, comparisons, _ = report(name).tables
    rows = set(select(estimates, measure="variance", **axes).row)
    marked = select(comparisons, family="best", verdict="lowest")
    require(rows, f"{name} has rows where {axes}")
    return f"{marked.row.isin(rows).sum()} of {len(rows)}"


def verdicts(name: str, **axes: Any) -> set[str]:
    """Return the verdicts against the reference of the rows of a golden result."""
    estimates, comparisons, _ = report(name).tables
    rows = set(select(estimates, **axes).row)
    against = comparisons[comparisons.row.isin(rows) & (comparisons.family == "reference")]
    return set(against.verdict)


def number(value: float) -> str:
    """Return a number to three significant digits, with commas and a true minus sign.

    A number below 0.001 has two.
    """
    require(not math.isnan(value), "a number is known")
    size = abs(value)
    if size == 0 or math.isinf(size):
        text = "∞" if size else "0"
    elif size >= 999.5:
        text = f"{float(f'{size:.3g}'):,.0f}"
    else:
        text = f"{size:#.3g}".rstrip(".") if size >= 1e-3 else f"{size:.2g}"
    return f"−{text}" if value < 0 else text
