"""The gradient study in a report: its sheets, what they rest on, and notes on undefined values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Column, Section, Sheet
from maxk_lab.report.model import Summary, SummaryRow
from maxk_lab.report.naming import Setting
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
    SOMETIMES,
    VARIANCE,
    measure,
    record,
    setting_columns,
    share,
)
from maxk_lab.studies.gradient.order import ALONE, family, is_oracle, place, sorted_rows, table

_LISTED = 4
# With more settings than these, a sheet of each measure would bury what the sweep is about.
_SETTINGS = 12


def gradient_section(summary: Summary) -> Section:
    """Sheets per (environment, stage, family): the best baselines, variance and bias; then notes."""
    blocks: list[Block] = []
    if not summary.rows:
        return Section("gradient", (), ())
    for _, found in groupby(sorted_rows(summary.rows), key=table):
        blocks += _sheets(tuple(found), summary)
    notes = undefined_notes(summary.rows)
    if notes:
        blocks.append(Bullets(f"Undefined values ({UNDEFINED})", tuple(notes)))
    measured = {*ALWAYS, *(name for row in summary.rows for name in (*row.intervals, *row.anatomy))}
    told = [MEASURES.get(name) for name in (*ALWAYS, *SOMETIMES, *ANATOMY) if name in measured]
    lines = (f"{each.heading}: {each.meaning}" for each in told)
    blocks.append(Bullets("Measures", tuple(lines)))
    return Section(
        "gradient", tuple(blocks), tuple(record(row) for row in sorted_rows(summary.rows))
    )


def basis(rows: Sequence[SummaryRow], summary: Summary) -> tuple[str, ...]:
    """What the numbers rest on: seeds, samples, what is resampled, and what bias is judged against."""
    complete = [row for row in rows if row.complete]
    first = (complete or rows)[0]
    seeds = sorted({seed for row in rows for seed in row.cells})
    many = f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({', '.join(map(str, seeds))})"
    units = {
        "instance": f"bootstrap over instances ({first.units_per_seed} per seed)",
        "block": f"bootstrap over pool blocks ({first.units_per_seed} per seed)",
    }.get(first.unit, "none yet")
    judged = sum(
        row.bias.verdict in ("no bias seen", "scale bias", "biased") and not row.exact
        for row in summary.rows
    )
    enumerated = any(row.exact for row in rows)
    against = [
        _against(name)
        for name in dict.fromkeys(row.against for row in complete)
        if name != "complete"
    ]
    lines = [
        f"{many}; {first.instances} instance{'s' if first.instances > 1 else ''}, "
        f"pool of {first.pool} trajectories each.",
        f"Intervals: {summary.level:.0%}, {units}, stratified by seed; policies are held fixed.",
    ]
    if enumerated:
        lines.append(
            "Complete enumeration: mean and variance are sums over every possible group of n samples, so bias and "
            "variance of each instance are exact: the verdict unbiased is proven there, to the tolerance of its row."
        )
    if against or not enumerated:
        which = "Rows too large for that, bias" if enumerated else "Bias"
        lines.append(
            f"{which} against {' and '.join(against) or 'nothing yet'}; "
            f"Holm-corrected over {judged} rows at {summary.alpha:g}."
        )
    return tuple(lines)


def _against(name: str) -> str:
    reference = f"the estimator {name.removeprefix('reference:')} (no exact gradient here)"
    return {"exact": "the exact gradient"}.get(name, reference)


def undefined_notes(rows: Sequence[SummaryRow]) -> list[str]:
    """One line per reason: which measures of which rows have no value, and why."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        by_reason: dict[str, list[str]] = defaultdict(list)
        for name, interval in row.intervals.items():
            if not interval.known:
                by_reason[interval.reason or "no interval"].append(MEASURES.get(name).heading)
        if row.bias.verdict == "undefined":
            by_reason[row.bias.reason or "not judged"].append("bias")
        for reason, names in by_reason.items():
            what = (
                "all"
                if {MEASURES.get(name).heading for name in ALWAYS} < set(names)
                else ", ".join(names)
            )
            found[reason, what].append(row.key.path)
    return [
        f"{reason}: {what} of {', '.join(paths[:_LISTED])}"
        + (f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else "")
        for (reason, what), paths in found.items()
    ]


def _sheets(rows: tuple[SummaryRow, ...], summary: Summary) -> list[Block]:
    caption = basis(rows, summary)
    alone = family(rows[0]) == ALONE
    star: tuple[str, ...] = (
        "★: least variance of the baselines derived unbiased and not found biased, by paired comparison "
        f"with each (Bonferroni over the sweep at {summary.alpha:g}).",
    )
    if any(is_oracle(row) for row in rows):
        star += ("Oracles, which no training can have, are no candidates for it.",)
    seen = [
        "derived: by the catalogue; could see: the smallest bias, relative to ‖∇J‖ and in any direction, "
        f"that the test finds with probability {POWER:g}.",
    ]
    told = tuple(
        column for column in KEY if column.heading != ("baseline" if alone else "estimator")
    )
    key = (*setting_columns([row.key.setting for row in rows]), *told)
    # The seeds stand in the sheet of the variance, where they are not the same as below it.
    point = key[:-1]
    if all(row.complete for row in rows):
        key = point
    bias = list(BIAS)
    if any(row.exact for row in rows):
        bias.insert(-1, EXACT_BIAS)
        seen.append(
            "bias: √(mean ‖E ĝ − ∇J‖² / mean ‖∇J‖²) over these instances where it is enumerated; "
            "could see is its tolerance there."
        )
    # There is no baseline to choose where there is none, or one.
    chosen = not alone and len({row.key.baseline for row in rows}) > 1
    variance, said = (VARIANCE, caption + star) if chosen else (VARIANCE[1:], caption)
    where = place(rows[0])
    judged, measured = rows, list(_measured_sheets(rows, point, caption))
    if len({row.key.setting for row in rows}) > _SETTINGS:
        judged, measured = tuple(row for row in rows if not _as_derived_unbiased(row)), []
        said += (
            f"{len(rows) - len(judged)} rows were derived and found unbiased. With so many settings, only the others have "
            "a table of their bias; CSV and JSON have all, with every other measure.",
        )
    bias_sheet = Sheet(f"Bias: {where}", (*point, *bias), judged, (*caption, *seen), _rules(judged))
    return [
        *([_best_sheet(rows, caption + star)] if chosen else []),
        Sheet(f"Variance: {where}", (*key, *variance), rows, said, _rules(rows)),
        *([bias_sheet] if judged else []),
        *measured,
    ]


def _as_derived_unbiased(row: SummaryRow) -> bool:
    return row.catalogued_unbiased and row.bias.verdict in ("unbiased", "no bias seen")


def _measured_sheets(
    rows: tuple[SummaryRow, ...], point: tuple[Column, ...], caption: tuple[str, ...]
) -> Iterator[Block]:
    """Of the distance from the best, of weights, importance ratios and the anatomy, each where some row has it."""
    where = place(rows[0])
    having = tuple(row for row in rows if row.over_best is not None)
    if having:
        said = (
            *caption,
            "over best possible: the variance over that of joint_optimum, the best of all symmetric leave-one-out "
            "baselines, at the same n and K; a paired ratio, of rows derived unbiased.",
        )
        columns = (*point, measure("variance"), OVER_BEST)
        yield Sheet(
            f"How far from the best possible: {where}", columns, having, said, _rules(having)
        )
    for title, names in (("Weights", OF_WEIGHTS), ("Importance ratios", OF_RATIOS)):
        found = [name for name in names if any(name in row.intervals for row in rows)]
        having = tuple(row for row in rows if any(name in row.intervals for name in found))
        if found:
            columns = (*point, *(measure(name) for name in found))
            yield Sheet(f"{title}: {where}", columns, having, caption, _rules(having))
    having = tuple(row for row in rows if row.anatomy)
    if having:
        said = (
            *caption,
            "Shares of the variance in percent; they sum to 100, and the interaction may be below 0. Exact for these "
            "instances, by complete enumeration: no interval.",
        )
        columns = (*point, measure("variance"), *(share(part) for part in ANATOMY))
        yield Sheet(f"Variance anatomy: {where}", columns, having, said, _rules(having))


def _rules(rows: Sequence[SummaryRow]) -> tuple[int, ...]:
    """Above each size that is not of one row alone: a rule between all rows divides nothing."""
    sizes = [(row.key.setting, row.key.k, row.key.n) for row in rows]
    if len(set(sizes)) == len(sizes):
        return ()
    return tuple(i for i in range(1, len(rows)) if sizes[i] != sizes[i - 1])


@dataclass(frozen=True)
class _Size:
    """A line of the sheet of the best baselines."""

    setting: Setting
    n: int


def _best_sheet(rows: tuple[SummaryRow, ...], caption: tuple[str, ...]) -> Sheet:
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
