"""The gradient study in a report: its sheets, and the correlations of its proxies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from maxk_lab.report.document import (
    UNDEFINED,
    Block,
    Bullets,
    Chapter,
    Column,
    Section,
    Sheet,
    breaks_between,
)
from maxk_lab.report.key_columns import setting_columns
from maxk_lab.report.model import Summary
from maxk_lab.report.naming import Setting
from maxk_lab.report.rows import grouped
from maxk_lab.statistics.bias import POWER
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.columns import (
    ALWAYS,
    ANATOMY,
    BIAS,
    EXACT_BIAS,
    KEY,
    OF_RATIOS,
    OF_WEIGHTS,
    OVER_BEST,
    OVER_LEAST,
    SOMETIMES,
    VARIANCE,
    measure,
    record,
    share,
)
from maxk_lab.studies.gradient.notes import basis, undefined_lines
from maxk_lab.studies.gradient.proxies import proxy_section
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.row.order import (
    ALONE,
    is_oracle,
    place,
    shared_estimator,
    sorted_rows,
    table,
)
from maxk_lab.studies.gradient.rows import GradientRows

# With more settings than these, a sheet of each measure would bury the subject of the sweep.
_SETTINGS = 12


def chapter(found: GradientRows, summary: Summary) -> Chapter:
    """The sections of the measures and of the proxies."""
    rows = sorted_rows(found.rows)
    undefined = undefined_lines(found.rows)
    blocks = [
        block
        for members in grouped(rows, table).values()
        for block in _sheets(tuple(members), basis(members, found.rows, summary), summary)
    ]
    if undefined:
        blocks.append(Bullets(f"Undefined values ({UNDEFINED})", tuple(undefined)))
    measured = {*ALWAYS, *(name for row in rows for name in (*row.intervals, *row.anatomy))}
    told = [MEASURES.get(name) for name in (*ALWAYS, *SOMETIMES, *ANATOMY) if name in measured]
    lines = (f"{each.heading}: {each.meaning}" for each in told)
    blocks.append(Bullets("Measures", tuple(lines)))
    return Chapter(
        (
            Section("gradient", tuple(blocks), tuple(map(record, rows))),
            proxy_section(found.proxies, summary.level),
        ),
        {"basis": basis(found.rows, found.rows, summary) if rows else ()},
        undefined,
    )


def _sheets(
    rows: tuple[GradientRow, ...], caption: tuple[str, ...], summary: Summary
) -> Iterator[Block]:
    """The sheets of a table's rows: the best baselines, variance, bias, then what else there is."""
    alone = shared_estimator(rows[0]) == ALONE
    star: tuple[str, ...] = (
        "★: least variance of the baselines derived unbiased and not found biased, by paired "
        "comparison with each, of the means and of the typical instance (Bonferroni over the sweep "
        f"at {summary.alpha:g}).",
        "typical relative variance: the median over instances; carried by: the effective number "
        "of instances behind the mean of the variance or of ‖∇J‖², the smaller one.",
    )
    if any(is_oracle(row) for row in rows):
        star += ("Oracles, which no training can have, are no candidates for it.",)
    told = tuple(
        column for column in KEY if column.heading != ("baseline" if alone else "estimator")
    )
    key = (*setting_columns([row.key.setting for row in rows]), *told)
    # The seeds stand in the sheet of the variance, where they are not the same as below it.
    point = key[:-1]
    # There is no baseline to choose where there is none, or one.
    chosen = not alone and len({row.key.baseline for row in rows}) > 1
    if chosen:
        yield _best_sheet(rows, caption + star)
    judged = rows
    said = caption + star if chosen else caption
    crowded = len({row.key.setting for row in rows}) > _SETTINGS
    if crowded:
        judged = tuple(row for row in rows if not _as_derived_unbiased(row))
        said += (
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
        yield _bias_sheet(rows, judged, point, caption)
    if not crowded:
        yield from _measured_sheets(rows, point, caption)


def _as_derived_unbiased(row: GradientRow) -> bool:
    return row.catalogued_unbiased and row.bias.verdict in ("unbiased", "no bias seen")


def _bias_sheet(
    rows: tuple[GradientRow, ...],
    judged: tuple[GradientRow, ...],
    point: tuple[Column, ...],
    caption: tuple[str, ...],
) -> Sheet:
    """The verdicts on `judged`, which are some of the `rows` of one table."""
    bias = list(BIAS)
    seen = [
        "derived: by the catalogue; bias at most: the upper end of ‖E ĝ − ∇J‖/‖∇J‖ over these "
        "instances, of one row alone; could see: the smallest bias along ∇J, relative to ‖∇J‖, "
        f"that the test finds with probability {POWER:g}.",
    ]
    if any(row.enumerated for row in rows):
        bias.insert(-1, EXACT_BIAS)
        seen.append(
            "bias: √(mean ‖E ĝ − ∇J‖² / mean ‖∇J‖²) over these instances where it is enumerated; "
            "could see is its tolerance there, and at most the larger of the two."
        )
    columns = (*point, *bias)
    title = f"Bias: {place(rows[0])}"
    return Sheet(title, columns, judged, (*caption, *seen), _breaks(judged))


def _measured_sheets(
    rows: tuple[GradientRow, ...], point: tuple[Column, ...], caption: tuple[str, ...]
) -> Iterator[Block]:
    """The distance from the best, weights, importance ratios and anatomy, where some row has it."""
    where = place(rows[0])
    having = tuple(row for row in rows if row.over_least is not None)
    if having:
        said = (
            *caption,
            "over the least: the mean variance over that of the unbiased baseline of least "
            "variance in the same group; typical instance: the median over instances of that "
            "ratio; less on: the instances where the row has less. Each interval alone, not "
            "corrected for the choice of the least.",
        )
        columns = (*point, *OVER_LEAST)
        yield Sheet(f"Against the least variance: {where}", columns, having, said, _breaks(having))
    having = tuple(row for row in rows if row.over_best is not None)
    if having:
        said = (
            *caption,
            "over best possible: the variance over that of joint_optimum, the best of all "
            "symmetric leave-one-out baselines, at the same n and K; a paired ratio, of rows "
            "derived unbiased.",
        )
        columns = (*point, measure("variance"), OVER_BEST)
        yield Sheet(
            f"How far from the best possible: {where}", columns, having, said, _breaks(having)
        )
    for title, names in (("Weights", OF_WEIGHTS), ("Importance ratios", OF_RATIOS)):
        found = [name for name in names if any(name in row.intervals for row in rows)]
        having = tuple(row for row in rows if any(name in row.intervals for name in found))
        if found:
            columns = (*point, *(measure(name) for name in found))
            yield Sheet(f"{title}: {where}", columns, having, caption, _breaks(having))
    having = tuple(row for row in rows if row.anatomy)
    if having:
        said = (
            *caption,
            "Shares of the variance in percent; they sum to 100, and the interaction may be below "
            "0. Exact for these instances, by complete enumeration: no interval.",
        )
        columns = (*point, measure("variance"), *(share(part) for part in ANATOMY))
        yield Sheet(f"Variance anatomy: {where}", columns, having, said, _breaks(having))


def _breaks(rows: Sequence[GradientRow]) -> tuple[int, ...]:
    """A rule above each size, unless each has one row: a rule between all rows divides nothing."""
    sizes = [(row.key.setting, row.key.k, row.key.n) for row in rows]
    return breaks_between(sizes) if len(set(sizes)) < len(sizes) else ()


@dataclass(frozen=True)
class _Size:
    """A line of the sheet of the best baselines."""

    setting: Setting
    n: int


def _best_sheet(rows: tuple[GradientRow, ...], caption: tuple[str, ...]) -> Sheet:
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
    return Sheet(f"Best baseline: {place(rows[0])}", tuple(columns), tuple(sizes), caption)
