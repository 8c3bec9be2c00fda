"""The columns of reports that no record has: what follows from several records, and its words."""

from __future__ import annotations

from maxk_lab.statistics.measures.row import Described

_ROWS = (
    Described("parameter", "", "the parameter of the policy along which the objective is computed"),
    Described(
        "objective", "objective", "what the estimator's gradient is of", "optimum", words=True
    ),
)
COLUMNS = {row.name: row for row in _ROWS}
