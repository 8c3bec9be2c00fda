"""The columns that say which row it is, the same for every study of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxk_lab.report.document import Column
from maxk_lab.report.naming import Setting, short_names, spelled

ESTIMATOR = Column(
    "estimator", lambda row: row.key.estimator, lambda row: {"estimator": row.key.estimator}
)
BASELINE = Column(
    "baseline", lambda row: row.key.baseline, lambda row: {"baseline": row.key.baseline}
)
N = Column("n", lambda row: str(row.key.n), lambda row: {"n": row.key.n}, numeric=True)
K = Column("K", lambda row: str(row.key.k), lambda row: {"k": row.key.k}, numeric=True)
POINT = (ESTIMATOR, BASELINE, N, K)
SEEDS = Column(
    "seeds",
    lambda row: f"{len(row.finished)}/{len(row.cells)}",
    lambda row: {
        "seeds_finished": len(row.finished),
        "seeds": len(row.cells),
        "complete": row.all_finished,
    },
)


def setting_columns(settings: Sequence[Setting]) -> tuple[Column, ...]:
    """A column for each key of these settings, by its last word.

    Their rows have a `setting`, or a `key` that has.
    """
    keys = list(dict.fromkeys(key for setting in settings for key, _ in setting))
    return tuple(_setting_column(key, heading) for key, heading in short_names(keys).items())


def _setting_column(key: str, heading: str) -> Column:
    def value(row: Any) -> Any:
        return dict(getattr(row, "key", row).setting).get(key)

    def text(row: Any) -> str:
        found = value(row)
        return "" if found is None else spelled(found)

    return Column(heading, text, lambda row: {key: value(row)}, numeric=True)
