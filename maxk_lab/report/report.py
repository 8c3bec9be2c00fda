"""A summary put together for printing: the chapters of all kinds of study, in reading order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from maxk_lab.report.document import Block, Bullets, Chapter, Paragraph, Section
from maxk_lab.report.model import Header, Summary
from maxk_lab.report.parts import SectionPart
from maxk_lab.sweeps.studies import STUDIES, in_reading_order

# So many rows without a result are listed, and the rest counted.
_LISTED = 20


@dataclass(frozen=True)
class Report:
    """A summary, and how it is to look: `colour` and `width` are the terminal's, `images`
    (caption, relative path) Markdown's.
    """

    summary: Summary
    colour: bool = False
    width: int = 100
    images: Sequence[tuple[str, str]] = ()

    @property
    def title(self) -> str:
        """The title of the whole report."""
        return f"maxk-lab: {self.summary.header.name}"

    @cached_property
    def chapters(self) -> Mapping[str, Chapter]:
        """The chapter of every kind of study, in the catalogue's order."""
        parts: dict[str, SectionPart] = {kind.name: kind.part("section") for kind in STUDIES}
        studies = self.summary.studies
        return {name: part.chapter(studies[name], self.summary) for name, part in parts.items()}

    @property
    def sections(self) -> list[Section]:
        """The sections that have rows, in reading order."""
        found = (self.chapters[kind.name] for kind in in_reading_order())
        return [part for chapter in found for part in chapter.sections if part.records]

    @property
    def blocks(self) -> list[Block]:
        """All there is to read: the header, claims, rows without a result, then the sections."""
        summary = self.summary
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
        return [*blocks, *(block for section in self.sections for block in section.blocks)]


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


def _absent(summary: Summary) -> list[str]:
    items = [
        f"failed: {failure.path} seed {failure.seed} (cell {failure.cell}): {failure.error}"
        for failure in summary.failed
    ]
    missing = set(summary.missing)
    unfinished = [
        f"not finished: {row.key.path} seed {seed} (cell {cell})"
        for study in summary.studies.values()
        for row in study.rows
        for seed, cell in row.cells.items()
        if cell in missing
    ]
    items += unfinished[:_LISTED]
    if len(unfinished) > _LISTED:
        items.append(f"and {len(unfinished) - _LISTED} more")
    if summary.stale:
        items.append(
            f"stale records, of another sweep file or version, not used: {len(summary.stale)} "
            f"({', '.join(summary.stale[:5])}{', …' if len(summary.stale) > 5 else ''})"
        )
    return items + [f"unreadable record: {problem}" for problem in summary.problems]
