"""The gradient study in a report: its answer and short table, its sheets, and its proxies."""

from __future__ import annotations

from collections.abc import Iterator

from maxk_lab.report.document import UNDEFINED, Block, Bullets, Chapter, Section
from maxk_lab.report.model import Summary
from maxk_lab.report.tables import grouped
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.studies.gradient.columns import ALWAYS, ANATOMY, SOMETIMES, record
from maxk_lab.studies.gradient.notes import basis, reading, undefined_lines
from maxk_lab.studies.gradient.proxies import proxy_section
from maxk_lab.studies.gradient.row.order import sorted_rows, table
from maxk_lab.studies.gradient.rows import GradientRows
from maxk_lab.studies.gradient.section.across import across
from maxk_lab.studies.gradient.section.answer import answer
from maxk_lab.studies.gradient.section.focus import focus
from maxk_lab.studies.gradient.section.meanings import FIRST, MEANINGS
from maxk_lab.studies.gradient.section.sheets import sheets
from maxk_lab.studies.gradient.section.short.table import short_table
from maxk_lab.studies.gradient.section.words import Words


def chapter(found: GradientRows, summary: Summary) -> Chapter:
    """The answer and the short table, then the sections of the measures and of the proxies."""
    rows = sorted_rows(found.rows)
    undefined = undefined_lines(found.rows)
    blocks = tuple(_blocks(found, summary, undefined))
    sections = (
        Section("gradient", blocks, tuple(map(record, rows)), FIRST, MEANINGS),
        proxy_section(found.proxies, summary.level),
    )
    if not rows:
        return Chapter(sections)
    at, words, met = focus(rows), Words(rows), across(rows, summary.alpha)
    return Chapter(
        sections,
        {"basis": basis(found.rows, found.rows, summary)},
        undefined,
        answer=answer(rows, at, words, met, found.proxies, summary),
        short=short_table(rows, at, words, met, summary),
    )


def _blocks(found: GradientRows, summary: Summary, undefined: list[str]) -> Iterator[Block]:
    """The lines that hold for all tables, the tables, what is undefined, what measures mean."""
    rows = sorted_rows(found.rows)
    if rows:
        yield Bullets("How to read these tables", reading(found.rows, summary))
    for members in grouped(rows, table).values():
        yield from sheets(tuple(members))
    if undefined:
        yield Bullets(f"Undefined values ({UNDEFINED})", tuple(undefined))
    measured = {*ALWAYS, *(name for row in rows for name in (*row.intervals, *row.anatomy))}
    told = [MEASURES.get(name) for name in (*ALWAYS, *SOMETIMES, *ANATOMY) if name in measured]
    yield Bullets("Measures", tuple(f"{each.heading}: {each.meaning}" for each in told))
