"""In which order, tables and families the rows of a gradient study are shown."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline, choose_estimator
from maxk_lab.report.model import SummaryRow

# The family of the estimators that take no baseline: they stand in one table, and are told apart by their names.
ALONE = "without baseline"


def sorted_rows(rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """By environment, family, stage, K, n and the catalogue's order of methods, never by value."""
    return sorted(
        rows,
        key=lambda row: (
            row.key.environment,
            family(row) == ALONE,
            family(row),
            row.key.stage,
            row.key.k,
            row.key.n,
            method_order(row),
        ),
    )


def family(row: SummaryRow) -> str:
    """The estimator whose baselines are compared with each other, or `ALONE`."""
    takes = choose_estimator(row.key.estimator).row.takes_baseline
    return row.key.estimator if takes else ALONE


def method(row: SummaryRow) -> str:
    """What tells the row from others of its family: the baseline, or the estimator where it takes none."""
    return row.key.estimator if family(row) == ALONE else row.key.baseline


def method_order(row: SummaryRow) -> tuple[int, int, str]:
    """Sorts the methods of a family as the catalogue lists them."""
    estimator, baseline = choose_estimator(row.key.estimator), choose_baseline(row.key.baseline)
    return (
        ESTIMATORS.names().index(estimator.row.name),
        BASELINES.names().index(baseline.row.name),
        method(row),
    )


def table(row: SummaryRow) -> tuple[str, int, str]:
    """The rows that stand in one table: same environment, stage and family."""
    return row.key.environment, row.key.stage, family(row)


def who(row: SummaryRow) -> str:
    """The family in words: `estimator maxk`."""
    return "estimators without baseline" if family(row) == ALONE else f"estimator {row.key.estimator}"


def place(row: SummaryRow) -> str:
    """`tsp(num_loc=20), stage 200, estimator maxk`."""
    return f"{row.key.environment}, stage {row.key.stage}, {who(row)}"
