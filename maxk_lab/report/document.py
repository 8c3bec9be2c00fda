"""A report as blocks (paragraph, bullets, sheet) that every text format prints; a study adds a section."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxk_lab.report.model import Header, Summary
from maxk_lab.statistics.intervals import Interval

UNDEFINED = "—"
# Below a sheet whose caption shares lines with the one before.
SAME = "The rest as below the table before."


@dataclass(frozen=True)
class Paragraph:
    """Lines of running text."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Bullets:
    """A titled list of items."""

    title: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """One column, the same in every format: `text(row)` to read, `values(row)` (name → value) for code."""

    heading: str
    text: Callable[[Any], str]
    values: Callable[[Any], Mapping[str, Any]]
    numeric: bool = False


@dataclass(frozen=True)
class Sheet:
    """A printed table; `rules` are the row numbers with a rule above, `caption` what holds for all."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Any, ...]
    caption: tuple[str, ...] = ()
    rules: tuple[int, ...] = ()


Block = Paragraph | Bullets | Sheet


@dataclass(frozen=True)
class Section:
    """One study of the report: blocks to read, and flat records (one per table row) to compute with."""

    name: str
    blocks: tuple[Block, ...]
    records: tuple[Mapping[str, Any], ...]


def document(summary: Summary, sections: Sequence[Section]) -> list[Block]:
    """The whole report in reading order: where it comes from, claims, the sections, and what is missing."""
    blocks: list[Block] = [Paragraph(tuple(header_lines(summary.header)))]
    if summary.claims:
        items = tuple(
            f"{claim.verdict.upper()} — {claim.name}: {claim.text}. Measured: {claim.detail}."
            for claim in summary.claims
        )
        blocks.append(Bullets("Claims", items))
    absent = _absent(summary)
    if absent:
        blocks.append(Bullets("Without a result", tuple(absent)))
    for section in sections:
        blocks.extend(section.blocks)
    return blocks


def with_captions(blocks: Sequence[Block]) -> Iterator[tuple[Block, tuple[str, ...]]]:
    """Each block with the lines to print below it: of a sheet's caption, those that the sheet before it does not have."""
    before: tuple[str, ...] = ()
    for block in blocks:
        caption = block.caption if isinstance(block, Sheet) else ()
        new = tuple(line for line in caption if line not in before)
        yield block, new if len(new) == len(caption) else (*new, SAME)
        before = caption


def header_lines(header: Header) -> list[str]:
    """Description, git commit and versions, one line each."""
    versions = ", ".join(
        f"{package} {' / '.join(found)}" for package, found in header.versions.items()
    )
    lines = [header.description] if header.description else []
    lines.append(f"git commit: {', '.join(header.commits) or 'unknown'}")
    if versions:
        lines.append(f"versions: {versions}")
    return lines


def number(value: float) -> str:
    """Three significant digits, trailing zeros kept; `—` for undefined."""
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2e}"
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:#.3g}".rstrip(".")


def exact(value: float) -> str:
    """Four significant digits of a number that was computed, not measured; `—` for undefined."""
    return UNDEFINED if math.isnan(value) else f"{0.0 if abs(value) < 1e-12 else value:.4g}"


def compact(interval: Interval) -> str:
    """`12.3 [11.0, 13.9]`; `—` where there is no value or no interval."""
    if not interval.known:
        return UNDEFINED
    return f"{number(interval.value)} [{number(interval.low)}, {number(interval.high)}]"


def _absent(summary: Summary) -> list[str]:
    items = [
        f"failed: {failure.path} seed {failure.seed} (cell {failure.cell}): {failure.error}"
        for failure in summary.failed
    ]
    missing = set(summary.missing)
    rows: tuple[Any, ...] = (
        *summary.rows,
        *summary.training,
        *summary.objectives,
        *summary.weights,
    )
    unfinished = [
        f"not finished: {row.key.path} seed {seed} (cell {cell})"
        for row in rows
        for seed, cell in row.cells.items()
        if cell in missing
    ]
    items += (
        unfinished
        if len(unfinished) <= 20
        else [*unfinished[:20], f"and {len(unfinished) - 20} more"]
    )
    if summary.stale:
        items.append(
            f"stale records, of another sweep file or version, not used: {len(summary.stale)} "
            f"({', '.join(summary.stale[:5])}{', …' if len(summary.stale) > 5 else ''})"
        )
    return items + [f"unreadable record: {problem}" for problem in summary.problems]
