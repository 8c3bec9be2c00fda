"""The gradient study in a report: its columns, sheets, notes on undefined values and flat records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from maxk_lab.gradients.bias import POWER
from maxk_lab.gradients.statistics import MEASURES
from maxk_lab.report.document import (
    UNDEFINED,
    Block,
    Bullets,
    Column,
    Section,
    Sheet,
    compact,
    has_interval,
    number,
)
from maxk_lab.report.model import Summary, SummaryRow
from maxk_lab.report.order import ALONE, family, place, sorted_rows, table

HEADINGS = {
    "variance": "variance",
    "relative_variance": "relative variance",
    "snr": "SNR",
    "squared_bias": "squared bias",
    "scale": "scale",
    "cosine": "cosine",
}
_LISTED = 4


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
    blocks.append(Bullets("Measures", tuple(f"{HEADINGS[name]}: {text}" for name, text in MEASURES.items())))
    return Section("gradient", tuple(blocks), tuple(record(row) for row in sorted_rows(summary.rows)))


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
        row.bias.verdict in ("no bias seen", "scale bias", "biased") and not row.exact for row in summary.rows
    )
    enumerated = any(row.exact for row in rows)
    against = [
        _against(name) for name in dict.fromkeys(row.against for row in complete) if name != "complete"
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
            if not has_interval(interval):
                by_reason[interval.reason or "no interval"].append(HEADINGS[name])
        if row.bias.verdict == "undefined":
            by_reason[row.bias.reason or "not judged"].append("bias")
        for reason, names in by_reason.items():
            what = "all" if len(names) > len(MEASURES) else ", ".join(names)
            found[reason, what].append(row.key.path)
    return [
        f"{reason}: {what} of {', '.join(paths[:_LISTED])}"
        + (f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else "")
        for (reason, what), paths in found.items()
    ]


def record(row: SummaryRow) -> dict[str, Any]:
    """The row as a mapping of every column; what is None has its reason in `undefined`."""
    flat: dict[str, Any] = {"environment": row.key.environment, "stage": row.key.stage}
    for column in (*_KEY, *_VARIANCE, _measure("squared_bias"), *_BIAS):
        flat |= column.values(row)
    flat["instances"], flat["pool"] = row.instances, row.pool
    flat["cells"] = dict(row.cells)
    flat["undefined"] = {
        name: interval.reason for name, interval in row.intervals.items() if not has_interval(interval)
    }
    return flat


def _sheets(rows: tuple[SummaryRow, ...], summary: Summary) -> list[Block]:
    sizes = [(row.key.k, row.key.n) for row in rows]
    rules = tuple(i for i in range(1, len(rows)) if sizes[i] != sizes[i - 1])
    caption = basis(rows, summary)
    alone = family(rows[0]) == ALONE
    star = (
        "★: least variance of the baselines derived unbiased and not found biased, by paired comparison "
        f"with each (Bonferroni over the sweep at {summary.alpha:g}).",
    )
    seen = [
        "derived: by the catalogue; could see: the smallest bias, relative to ‖∇J‖ and in any direction, "
        f"that the test finds with probability {POWER:g}.",
    ]
    key = tuple(column for column in _KEY if column.heading != ("baseline" if alone else "estimator"))
    bias = list(_BIAS)
    if any(row.exact for row in rows):
        bias.insert(-1, _EXACT_BIAS)
        seen.append(
            "bias: √(mean ‖E ĝ − ∇J‖² / mean ‖∇J‖²) over these instances where it is enumerated; "
            "could see is its tolerance there."
        )
    bias_sheet = Sheet(f"Bias: {place(rows[0])}", (*key[:3], *bias), rows, (*caption, *seen), rules)
    if alone:
        # There is no baseline to choose.
        return [
            Sheet(f"Variance: {place(rows[0])}", (*key, *_VARIANCE[1:]), rows, caption, rules),
            bias_sheet,
        ]
    return [
        _best_sheet(rows, caption + star),
        Sheet(f"Variance: {place(rows[0])}", (*key, *_VARIANCE), rows, caption + star, rules),
        bias_sheet,
    ]


def _best_sheet(rows: tuple[SummaryRow, ...], caption: tuple[str, ...]) -> Sheet:
    best = {(row.key.n, row.key.k): row.key.baseline for row in rows if row.best}
    grid = {(row.key.n, row.key.k) for row in rows}

    def cell(k: int, n: int) -> str:
        return best.get((n, k), "no clear one" if (n, k) in grid else "")

    def value(k: int, n: int) -> dict[str, str | None]:
        return {f"k{k}": best.get((n, k))}

    columns = [Column("n", str, lambda n: {"n": n}, numeric=True)]
    columns += [Column(f"K = {k}", partial(cell, k), partial(value, k)) for k in sorted({k for _, k in grid})]
    sizes = tuple(sorted({n for n, _ in grid}))
    return Sheet(f"Best baseline: {place(rows[0])}", tuple(columns), sizes, caption)


def _measure(name: str) -> Column:
    def values(row: SummaryRow) -> Mapping[str, Any]:
        interval = row.intervals[name]
        known = has_interval(interval)
        ends = {"": interval.value, "_low": interval.low, "_high": interval.high}
        return {name + end: value if known else None for end, value in ends.items()}

    return Column(HEADINGS[name], lambda row: compact(row.intervals[name]), values, numeric=True)


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


_KEY = (
    Column("estimator", lambda row: row.key.estimator, lambda row: {"estimator": row.key.estimator}),
    Column("baseline", lambda row: row.key.baseline, lambda row: {"baseline": row.key.baseline}),
    Column("n", lambda row: str(row.key.n), lambda row: {"n": row.key.n}, numeric=True),
    Column("K", lambda row: str(row.key.k), lambda row: {"k": row.key.k}, numeric=True),
    Column(
        "seeds",
        lambda row: f"{len(row.finished)}/{len(row.cells)}",
        lambda row: {"seeds_finished": len(row.finished), "seeds": len(row.cells), "complete": row.complete},
    ),
)
_VARIANCE = (
    Column("★", lambda row: "★" if row.best else "", lambda row: {"best": row.best}),
    _measure("variance"),
    _measure("relative_variance"),
    _measure("snr"),
)
_BIAS = (
    _measure("scale"),
    _measure("cosine"),
    Column(
        "derived",
        lambda row: "unbiased" if row.catalogued_unbiased else "biased",
        lambda row: {"derived_unbiased": row.catalogued_unbiased},
    ),
    Column(
        "verdict",
        lambda row: UNDEFINED if row.bias.verdict == "undefined" else row.bias.verdict,
        lambda row: {
            "bias_verdict": row.bias.verdict,
            "bias_p_holm": _defined(row.bias.p_value),
            "relative_bias": _defined(row.bias.relative_bias),
        },
    ),
    Column(
        "could see",
        lambda row: number(row.bias.detectable),
        lambda row: {
            "detectable": _defined(row.bias.detectable),
            "detectable_scale": _defined(row.bias.detectable_scale),
            "against": row.against,
        },
        numeric=True,
    ),
)
# Exact for these instances, and so the one value that is printed without an interval.
_EXACT_BIAS = Column(
    "bias",
    lambda row: number(row.bias.relative_bias) if row.exact else UNDEFINED,
    lambda row: {},
    numeric=True,
)
