"""A part of a report: selected rows and chosen columns.

Verdicts and differences are those of the whole run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.planning.plan import AXES, Plan, select
from maxk_lab.reports.details import texts_of
from maxk_lab.reports.report import Report
from maxk_lab.reports.tables import Tables

_WHOLE_RUN = "Claims, verdicts and corrections are those of the whole run, not of the rows shown."


def selected_cells(plan: Plan, where: str | None, dashes: str = "--") -> frozenset[str] | None:
    """The ids of the cells that `where` selects, in the syntax of `run --only`; None for all.

    With `dashes`, messages name the option. Raises `LabError` for a seed, and for unknown axes.
    """
    if where is None:
        return None
    if any(pair.partition("=")[0].strip() == "seed" for pair in where.split(",")):
        raise LabError(
            f"{dashes}where: a row of a report has all its seeds; maxk-lab show has the numbers of "
            "a cell"
        )
    axes = tuple(axis for axis in AXES if axis != "seed")
    return select(plan, where, option=f"{dashes}where", axes=axes)


def part_of(
    report: Report,
    plan: Plan,
    *,
    where: str | None = None,
    columns: str | Sequence[str] | None = None,
    dashes: str = "--",
) -> Report:
    """Return the rows of a report that `where` selects, with the chosen columns.

    `columns` are names of `texts_of`, which may be joined by commas; without them all columns stay.
    Raises `LabError` for unknown rows or columns.
    """
    cells = selected_cells(plan, where, dashes)
    if cells is None and columns is None:
        return report
    every = [
        (kind, row)
        for kind, pooled in report.studies.items()
        for row in (*pooled.rows, *pooled.proxies)
    ]
    rows = [
        (kind, row.key.path)
        for kind, row in every
        if cells is None or not cells.isdisjoint(row.cells.values())
    ]
    tables = _with_rows(report.tables, rows)
    names = columns.split(",") if isinstance(columns, str) else list(columns or ())
    names = [name.strip() for name in names]
    if columns is not None and not names:
        raise LabError(f"{dashes}columns must name columns of the CSV")
    present = texts_of(tables).columns
    for name in names:
        if name not in present:
            raise LabError(
                f"{dashes}columns: the report of this run has no column {shown(name)}"
                f"{did_you_mean(name, present)}; known: {', '.join(present)}"
            )
    words = f"Shown: {len(rows)} of {len(every)} rows{f', where {where}' if where else ''}."
    return replace(
        report,
        tables=tables,
        charts=(),
        selection=f"{words} {_WHOLE_RUN}",
        columns=tuple(dict.fromkeys(names)),
    )


def _with_rows(tables: Tables, rows: Sequence[tuple[str, str]]) -> Tables:
    """Return the tables with the estimates and comparisons of these rows, by study and name."""
    chosen = set(rows)
    estimates, comparisons = (
        table[[pair in chosen for pair in zip(table.study, table.row, strict=True)]]
        for table in (tables.estimates, tables.comparisons)
    )
    return tables._replace(estimates=estimates, comparisons=comparisons)
