"""The sheets of a gradient study: who is best, variance, bias, and what else was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from maxk_lab.report.document import (
    Block,
    Column,
    Sheet,
    breaks_between,
    setting_columns,
)
from maxk_lab.report.naming import Setting
from maxk_lab.studies.gradient.columns import (
    ANATOMY,
    BIAS,
    EXACT_BIAS,
    KEY,
    OF_RATIOS,
    OF_WEIGHTS,
    OVER_BEST,
    OVER_LEAST,
    VARIANCE,
    measure,
    share,
)
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.row.order import (
    ALONE,
    place,
    shared_estimator,
)

# With more settings than these, a sheet of each measure would bury the subject of the sweep.
_SETTINGS = 12


def sheets(rows: tuple[GradientRow, ...]) -> Iterator[Block]:
    """The sheets of a table's rows: the best baselines, variance, bias, then what else there is."""
    alone = shared_estimator(rows[0]) == ALONE
    told = tuple(
        column for column in KEY if column.heading != ("baseline" if alone else "estimator")
    )
    key = (*setting_columns([row.key.setting for row in rows]), *told)
    # The seeds stand in the sheet of the variance, where they are not the same as below it.
    point = key[:-1]
    # There is no baseline to choose where there is none, or one.
    chosen = not alone and len({row.key.baseline for row in rows}) > 1
    if chosen:
        yield _best_sheet(rows)
    judged, said = rows, tuple[str, ...]()
    crowded = len({row.key.setting for row in rows}) > _SETTINGS
    if crowded:
        judged = tuple(row for row in rows if not _as_derived_unbiased(row))
        said = (
            f"{len(rows) - len(judged)} rows were derived and found unbiased. With so many "
            "settings, only the others have a table of their bias; CSV and JSON have all, with "
            "every other measure.",
        )
    columns = (
        *(point if all(row.all_finished for row in rows) else key),
        *(VARIANCE if chosen else VARIANCE[1:]),
    )
    yield Sheet(f"Variance: {place(rows[0])}", columns, rows, said, _breaks(rows))
    if judged:
        enumerated = any(row.enumerated for row in rows)
        bias = (*BIAS[:-1], EXACT_BIAS, BIAS[-1]) if enumerated else BIAS
        yield Sheet(f"Bias: {place(rows[0])}", (*point, *bias), judged, (), _breaks(judged))
    if not crowded:
        yield from _measured_sheets(rows, point)


def _as_derived_unbiased(row: GradientRow) -> bool:
    return row.catalogued_unbiased and row.bias.verdict in ("unbiased", "no bias seen")


def _measured_sheets(rows: tuple[GradientRow, ...], point: tuple[Column, ...]) -> Iterator[Block]:
    """The distance from the best, weights, importance ratios and anatomy, where some row has it."""

    def having(
        title: str, columns: Sequence[Column], has: Callable[[GradientRow], object]
    ) -> Iterator[Sheet]:
        found = tuple(row for row in rows if has(row))
        if found:
            title = f"{title}: {place(rows[0])}"
            yield Sheet(title, (*point, *columns), found, (), _breaks(found))

    variance = measure("variance")
    yield from having("Against the least variance", OVER_LEAST, lambda row: row.over_least)
    yield from having(
        "How far from the best possible", (variance, OVER_BEST), lambda row: row.over_best
    )
    for title, names in (("Weights", OF_WEIGHTS), ("Importance ratios", OF_RATIOS)):
        told = [name for name in names if any(name in row.intervals for row in rows)]
        yield from having(title, [*map(measure, told)], partial(_has_any, told))
    yield from having("Variance anatomy", (variance, *map(share, ANATOMY)), lambda row: row.anatomy)


def _has_any(names: Sequence[str], row: GradientRow) -> bool:
    return any(name in row.intervals for name in names)


def _breaks(rows: Sequence[GradientRow]) -> tuple[int, ...]:
    """A rule above each size, unless each has one row: a rule between all rows divides nothing."""
    sizes = [(row.key.setting, row.key.k, row.key.n) for row in rows]
    return breaks_between(sizes) if len(set(sizes)) < len(sizes) else ()


@dataclass(frozen=True)
class _Size:
    """A line of the sheet of the best baselines."""

    setting: Setting
    n: int


def _best_sheet(rows: tuple[GradientRow, ...]) -> Sheet:
    grid = {(_Size(row.key.setting, row.key.n), row.key.k) for row in rows}
    best = {
        (_Size(row.key.setting, row.key.n), row.key.k): row.key.baseline for row in rows if row.best
    }

    def cell(k: int, size: _Size) -> str:
        return best.get((size, k), "no clear one" if (size, k) in grid else "")

    def value(k: int, size: _Size) -> dict[str, str | None]:
        return {f"k{k}": best.get((size, k))}

    settings = list(dict.fromkeys(row.key.setting for row in rows))
    columns = [
        *setting_columns(settings),
        Column("n", lambda size: str(size.n), lambda size: {"n": size.n}, numeric=True),
    ]
    columns += [
        Column(f"K = {k}", partial(cell, k), partial(value, k))
        for k in sorted({k for _, k in grid})
    ]
    sizes = sorted(
        {size for size, _ in grid}, key=lambda size: (settings.index(size.setting), size.n)
    )
    return Sheet(f"Best baseline: {place(rows[0])}", tuple(columns), tuple(sizes))
