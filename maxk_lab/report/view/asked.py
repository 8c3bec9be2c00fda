"""A view from the words that a user asks for it with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxk_lab.errors import LabError
from maxk_lab.report.view.view import View
from maxk_lab.sweeps.plan.plan import AXES, select

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan

# A row has all seeds of its point.
_POOLED = "seed"


def asked_view(
    plan: Plan,
    *,
    where: str | None = None,
    sort: str | None = None,
    columns: str | None = None,
    dashes: str = "--",
) -> View:
    """The view of a run's report that is asked for; nothing is left out of what is not named.

    `where` is in the language of `run --only`, `sort` a column, the largest first with a `-` before
    it, `columns` are joined by commas. A message
    names them with these `dashes`. Raises `LabError` for what cannot be read, or is no row of
    this plan. Columns are known with the rows: `View.of` looks at them.
    """
    if where is not None and any(
        part.partition("=")[0].strip() == _POOLED for part in where.split(",")
    ):
        raise LabError(
            f"{dashes}where: a row of a report has all its seeds together, and none can be left "
            "out; maxk-lab show has the numbers of one cell"
        )
    axes = tuple(axis for axis in AXES if axis != _POOLED)
    names = () if columns is None else tuple(name.strip() for name in columns.split(","))
    order = "" if sort is None else sort.strip()
    column = order.removeprefix("-")
    for option, said, found in (("columns", columns, names), ("sort", sort, (column,))):
        if said is not None and not all(found):
            raise LabError(f"{dashes}{option} must name columns, as in baseline,n,variance")
    return View(
        where=where or "",
        cells=None if where is None else select(plan, where, option=f"{dashes}where", axes=axes),
        sort=column,
        descending=order.startswith("-"),
        columns=tuple(dict.fromkeys(names)),
        dashes=dashes,
    )
