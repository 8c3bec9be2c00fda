"""The training study in a report: final Max@K of every row, its difference to a reference, and what is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from maxk_lab.estimators.catalogue import choose_estimator, effective_k
from maxk_lab.gradients.statistics import Interval
from maxk_lab.report.document import (
    UNDEFINED,
    Block,
    Bullets,
    Column,
    Section,
    Sheet,
    compact,
    has_interval,
)
from maxk_lab.report.model import Summary
from maxk_lab.report.training_model import TrainingRow

# Columns of intervals that stand side by side in a hundred letters.
_SIDE_BY_SIDE = 3
_LISTED = 4


def training_section(summary: Summary) -> Section:
    """Sheets per environment: the final Max@K curve and its differences to a reference; then notes."""
    blocks: list[Block] = []
    for _, found in groupby(summary.training, key=lambda row: row.key.environment):
        blocks += _sheets(tuple(found), summary)
    notes = training_notes(summary.training)
    if notes:
        blocks.append(Bullets(f"Training without a value ({UNDEFINED})", tuple(notes)))
    return Section("training", tuple(blocks), tuple(record(row) for row in summary.training))


def labels(rows: Sequence[TrainingRow]) -> list[str]:
    """What tells the rows of one n apart, e.g. `maxk centred, K = 8`; a biased pair says so."""
    several = len({row.key.k for row in rows}) > 1
    return [
        _pair(row)
        + (f", K = {row.key.k}" if several else "")
        + ("" if row.catalogued_unbiased else " (biased)")
        for row in rows
    ]


def over_what(rows: Sequence[TrainingRow]) -> str:
    """What the intervals are over: `5 seeds`, or the instances of a single one."""
    seeds = max(len(row.cells) for row in rows)
    return "held-out instances of one seed" if seeds == 1 else f"{seeds} seeds"


def training_basis(rows: Sequence[TrainingRow], summary: Summary) -> tuple[str, ...]:
    """What the numbers of a training study rest on."""
    seeds = sorted({seed for row in rows for seed in row.cells})
    settings = rows[0].settings
    evaluate = settings.get("evaluate", {})
    lines = [f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({', '.join(map(str, seeds))})"]
    done = next((row for row in rows if row.curve), None)
    if done is not None:
        lines[0] += f"; {done.steps} steps, {done.rollouts} rollouts"
    if evaluate:
        lines[0] += (
            f"; evaluated on {evaluate['instances']} held-out instances with {evaluate['samples']} samples each"
        )
    lines[0] += "."
    if len(seeds) > 1:
        lines.append(
            f"Intervals: {summary.level:.0%}, Student's t over the values of the seeds, each with its own policy "
            "and held-out instances; not corrected for their number."
        )
    else:
        lines.append(
            f"Intervals: {summary.level:.0%}, bootstrap over the held-out instances of the one seed: they say "
            "nothing of other training runs."
        )
    bent = biasing(settings)
    if bent:
        lines.append(f"Bias the gradient of every row: {', '.join(bent)}.")
    return tuple(lines)


def biasing(settings: Mapping[str, Any]) -> list[str]:
    """The settings of a training that bias the gradient whatever the estimator."""
    loss = settings.get("loss", {})
    wrong = {
        "normalize_advantages": settings.get("normalize_advantages", False),
        f"weight_normalization {settings.get('weight_normalization')}": settings.get(
            "weight_normalization", "none"
        )
        != "none",
        "min_gap_scale": settings.get("min_gap_scale") is not None,
        f"aggregation {loss.get('aggregation')}": loss.get("aggregation", "seq_sum")
        in ("seq_mean", "token_mean"),
        "inner_epochs above 1": settings.get("inner_epochs", 1) > 1,
        f"max_grad_norm {settings.get('max_grad_norm')}": settings.get("max_grad_norm") is not None,
        f"truncated {settings.get('truncated')}": settings.get("truncated", "keep") != "keep",
    }
    return [name for name, is_so in wrong.items() if is_so]


def training_notes(rows: Sequence[TrainingRow]) -> list[str]:
    """One line per reason: which rows, or which of their values, are undefined and why."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.reason:
            found[row.reason, "all"].append(row.key.path)
            continue
        by_reason: dict[str, list[str]] = defaultdict(list)
        for k in row.ks:
            for what, value in (("", row.final(k)), ("difference at ", row.differences.get(k))):
                if value is not None and not has_interval(value):
                    by_reason[value.reason or "no interval"].append(f"{what}K = {k}")
        for reason, which in by_reason.items():
            found[reason, ", ".join(which)].append(row.key.path)
    return [
        f"{reason}: {what} of {', '.join(paths[:_LISTED])}"
        + (f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else "")
        for (reason, what), paths in found.items()
    ]


def record(row: TrainingRow) -> dict[str, Any]:
    """The row as a mapping of every value; `evaluations` is a list of lines, one per step and K."""
    flat: dict[str, Any] = {"environment": row.key.environment}
    for column in _KEY:
        flat |= column.values(row)
    flat |= {"steps": row.steps, "rollouts": row.rollouts, "reference": row.reference}
    for k in row.ks:
        flat |= _flat(f"max@{k}", row.final(k)) | _flat(f"difference@{k}", row.differences.get(k))
    flat["cells"] = dict(row.cells)
    flat["evaluations"] = [
        {"step": e.step, "rollouts": e.rollouts, "seconds": e.seconds, "k": k, **_flat("value", value)}
        for e in row.evaluations
        for k, value in e.values.items()
    ]
    flat["undefined"] = {"all": row.reason} if row.reason else {}
    return flat


def _pair(row: TrainingRow) -> str:
    takes = choose_estimator(row.key.estimator).row.takes_baseline
    return f"{row.key.estimator} {row.key.baseline}" if takes else row.key.estimator


def _sheets(rows: tuple[TrainingRow, ...], summary: Summary) -> list[Block]:
    environment = rows[0].key.environment
    rules = tuple(i for i in range(1, len(rows)) if _group(rows[i]) != _group(rows[i - 1]))
    caption = training_basis(rows, summary)
    ks = sorted({k for row in rows for k in row.ks})
    sheets = max(1, -(-len(ks) // _SIDE_BY_SIDE))
    chunks = [list(chunk) for chunk in np.array_split(ks, sheets)]
    blocks: list[Block] = [
        Sheet(
            f"Max@K after training, {_span(chunk)}: {environment}",
            (*_KEY, *(_value_column(k, _final) for k in chunk)),
            rows,
            caption,
            rules,
        )
        for chunk in chunks
    ]
    compared = tuple(row for row in rows if row.reference)
    references = ", ".join(dict.fromkeys(row.reference for row in compared))
    paired = "seed" if len(rows[0].cells) > 1 else "instance"
    said = (*caption, f"Differences: to {references} of the same n, paired by {paired}; positive is better.")
    return blocks + [
        Sheet(
            f"Difference to {references}, {_span(chunk)}: {environment}",
            (*_KEY, *(_value_column(k, _gap) for k in chunk)),
            compared,
            said,
            tuple(i for i in range(1, len(compared)) if _group(compared[i]) != _group(compared[i - 1])),
        )
        for chunk in chunks
        if compared and chunk
    ]


def _group(row: TrainingRow) -> tuple[int, int]:
    return row.key.n, effective_k(row.key.estimator, row.key.k)


def _span(ks: Sequence[int]) -> str:
    return f"K = {', '.join(map(str, ks))}" if ks else "no value yet"


def _final(row: TrainingRow, k: int) -> Interval | None:
    return row.final(k)


def _gap(row: TrainingRow, k: int) -> Interval | None:
    return row.differences.get(k)


def _value_column(k: int, get: Callable[[TrainingRow, int], Interval | None]) -> Column:
    def text(row: TrainingRow) -> str:
        found = get(row, k)
        return UNDEFINED if found is None else compact(found)

    heading = "mean (Max@1)" if k == 1 else f"Max@{k}"
    return Column(heading, text, lambda row: {}, numeric=True)


def _flat(name: str, found: Interval | None) -> dict[str, float | None]:
    known = found is not None and has_interval(found)
    ends = ("value", "low", "high")
    return {
        name + ("" if end == "value" else f"_{end}"): getattr(found, end) if known else None for end in ends
    }


_KEY = (
    Column("estimator", lambda row: row.key.estimator, lambda row: {"estimator": row.key.estimator}),
    Column("baseline", lambda row: row.key.baseline, lambda row: {"baseline": row.key.baseline}),
    Column("n", lambda row: str(row.key.n), lambda row: {"n": row.key.n}, numeric=True),
    Column("K", lambda row: str(row.key.k), lambda row: {"k": row.key.k}, numeric=True),
    Column(
        "derived",
        lambda row: "unbiased" if row.catalogued_unbiased else "biased",
        lambda row: {"derived_unbiased": row.catalogued_unbiased},
    ),
    Column(
        "seeds",
        lambda row: f"{len(row.finished)}/{len(row.cells)}",
        lambda row: {"seeds_finished": len(row.finished), "seeds": len(row.cells), "complete": row.complete},
    ),
)
