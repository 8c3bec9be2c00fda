"""The order and the tables in which the rows of a gradient study are shown."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.studies.gradient.row.model import GradientRow

# Said of the estimators that take no baseline: they stand in one table, and are told apart by
# their names.
ALONE = "without baseline"


def sorted_rows(rows: Sequence[GradientRow]) -> list[GradientRow]:
    """Return the rows by environment, estimator, stage, setting, K, n and the order of methods.

    Never by value. Settings come in the order of the rows, which is that of the sweep file.
    """
    settings = list(dict.fromkeys(row.key.setting for row in rows))
    return sorted(
        rows,
        key=lambda row: (
            row.key.environment,
            shared_estimator(row) == ALONE,
            shared_estimator(row),
            row.key.stage,
            settings.index(row.key.setting),
            row.key.k,
            row.key.n,
            method_order(row),
        ),
    )


def shared_estimator(row: GradientRow) -> str:
    """The estimator whose baselines are compared with each other, or `ALONE`."""
    return row.key.estimator if row.key.method.takes_baseline else ALONE


def method(row: GradientRow) -> str:
    """The name that tells the row from others of its table: the baseline, else the estimator."""
    return row.key.estimator if shared_estimator(row) == ALONE else row.key.baseline


def method_order(row: GradientRow) -> tuple[int, int, str]:
    """A key that sorts the methods of a table as the catalogue lists them."""
    estimator, baseline, _ = row.key.method.catalogue_order
    return estimator, baseline, method(row)


def table(row: GradientRow) -> tuple[str, int, str]:
    """The environment, stage and estimator that the rows of one table share."""
    return row.key.environment, row.key.stage, shared_estimator(row)


def is_oracle(row: GradientRow) -> bool:
    """Whether its baseline is fitted to every possible group of samples.

    A report compares with an oracle, and no training can have it.
    """
    return row.key.method.fit == "oracle"


def who(row: GradientRow) -> str:
    """The estimator of a table in words: `estimator maxk`."""
    if shared_estimator(row) == ALONE:
        return "estimators without baseline"
    return f"estimator {row.key.estimator}"


def place(row: GradientRow) -> str:
    """`TSP with 20 cities, after 200 steps, estimator maxk`."""
    step = f"after {row.key.stage} steps" if row.key.stage else "at step 0"
    return f"{row.key.plain or row.key.environment}, {step}, {who(row)}"
