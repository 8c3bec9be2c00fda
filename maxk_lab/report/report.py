"""A summary put together for printing: the chapters of all kinds of study, in reading order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from maxk_lab.report.absent import absent_lines, standing_lines
from maxk_lab.report.document import Block, Bullets, Chapter, Paragraph, Section
from maxk_lab.report.model import Header, Summary
from maxk_lab.report.parts import SectionPart
from maxk_lab.sweeps.studies import STUDIES, in_reading_order


@dataclass(frozen=True)
class Report:
    """A summary, and how it is to look: `colour` and `width` are the terminal's, `images`
    (caption, relative path) Markdown's, and `undrawn` a line for each figure that is missing.
    """

    summary: Summary
    colour: bool = False
    width: int = 100
    images: Sequence[tuple[str, str]] = ()
    undrawn: Sequence[str] = ()

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
        """All there is to read: what was measured at all, the header, claims, then the sections."""
        summary = self.summary
        first = (*standing_lines(summary), *self.undrawn, *header_lines(summary.header))
        blocks: list[Block] = [Paragraph(first)]
        if summary.claims:
            items = tuple(
                f"{claim.verdict.upper()} — {claim.name}: {claim.text}. Measured: {claim.detail}."
                for claim in summary.claims
            )
            blocks.append(Bullets("Claims", items))
        absent = tuple(absent_lines(summary))
        if absent:
            blocks.append(Bullets("Without a result", absent))
        if not summary.counts.done:  # tables of dashes
            return blocks
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
