"""In which order, tables and families the rows of a gradient study are shown."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.estimators.method import Method
from maxk_lab.report.model import SummaryRow

# The family of the estimators that take no baseline: they stand in one table, and are told apart by their names.
ALONE = "without baseline"


def sorted_rows(rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """By environment, family, stage, setting, K, n and the catalogue's order of methods, never by value.

    Settings come in the order of the rows, which is that of the sweep file.
    """
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    return sorted(
        rows,
        key=lambda row: (
            row.key.environment,
            family(row) == ALONE,
            family(row),
            row.key.stage,
            settings.index(row.key.setting),
            row.key.k,
            row.key.n,
            method_order(row),
        ),
    )


def family(row: SummaryRow) -> str:
    """The estimator whose baselines are compared with each other, or `ALONE`."""
    takes = Method.parse(row.key.estimator).takes_baseline
    return row.key.estimator if takes else ALONE


def method(row: SummaryRow) -> str:
    """What tells the row from others of its family: the baseline, or the estimator where it takes none."""
    return row.key.estimator if family(row) == ALONE else row.key.baseline


def method_order(row: SummaryRow) -> tuple[int, int, str]:
    """Sorts the methods of a family as the catalogue lists them."""
    estimator, baseline, _ = Method.parse(row.key.estimator, row.key.baseline).catalogue_order
    return estimator, baseline, method(row)


def table(row: SummaryRow) -> tuple[str, int, str]:
    """The rows that stand in one table: same environment, stage and family."""
    return row.key.environment, row.key.stage, family(row)


def is_oracle(row: SummaryRow) -> bool:
    """Its baseline is fitted to every possible group of samples: what a report compares with, and no training can have."""
    return Method.parse(row.key.estimator, row.key.baseline).fit == "oracle"


def who(row: SummaryRow) -> str:
    """The family in words: `estimator maxk`."""
    return (
        "estimators without baseline" if family(row) == ALONE else f"estimator {row.key.estimator}"
    )


def place(row: SummaryRow) -> str:
    """`tsp(num_loc=20), stage 200, estimator maxk`."""
    return f"{row.key.environment}, stage {row.key.stage}, {who(row)}"
