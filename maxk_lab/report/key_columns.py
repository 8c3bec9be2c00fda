"""The columns that say which row it is, the same for every study of a grid."""

from __future__ import annotations

from maxk_lab.report.document import Column

POINT = (
    Column(
        "estimator", lambda row: row.key.estimator, lambda row: {"estimator": row.key.estimator}
    ),
    Column("baseline", lambda row: row.key.baseline, lambda row: {"baseline": row.key.baseline}),
    Column("n", lambda row: str(row.key.n), lambda row: {"n": row.key.n}, numeric=True),
    Column("K", lambda row: str(row.key.k), lambda row: {"k": row.key.k}, numeric=True),
)
SEEDS = Column(
    "seeds",
    lambda row: f"{len(row.finished)}/{len(row.cells)}",
    lambda row: {
        "seeds_finished": len(row.finished),
        "seeds": len(row.cells),
        "complete": row.complete,
    },
)
