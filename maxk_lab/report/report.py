"""A summary put together for printing: the chapters of all kinds of study, in reading order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from maxk_lab.report.absent import absent_lines, standing_lines
from maxk_lab.report.document import Block, Bullets, Chapter, Paragraph, Section
from maxk_lab.report.model import Header, Summary
from maxk_lab.report.parts import SectionPart
from maxk_lab.report.view.view import WHOLE, View
from maxk_lab.sweeps.studies import STUDIES, in_reading_order


@dataclass(frozen=True)
class Report:
    """A summary, and how it is to look: `colour` and `width` are the terminal's, `images`
    (caption, relative path) Markdown's, and `undrawn` a line for each figure that is missing.
    `view` is the part that is shown.
    """

    summary: Summary
    colour: bool = False
    width: int = 100
    images: Sequence[tuple[str, str]] = ()
    undrawn: Sequence[str] = ()
    view: View = WHOLE

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

    @cached_property
    def sections(self) -> list[Section]:
        """The sections that have rows to show, in reading order."""
        captions = {
            section.name: tuple(line for lines in chapter.basis.values() for line in lines)
            for chapter in self.chapters.values()
            for section in chapter.sections
        }
        return self.view.of(self._all_sections, captions)

    @cached_property
    def _all_sections(self) -> list[Section]:
        found = (self.chapters[kind.name] for kind in in_reading_order())
        return [part for chapter in found for part in chapter.sections if part.records]

    @property
    def standing(self) -> list[str]:
        """The first lines: what was measured at all, and what is shown of it."""
        shown, planned = (
            sum(len(section.records) for section in sections)
            for sections in (self.sections, self._all_sections)
        )
        return [*standing_lines(self.summary), *self.view.lines(shown, planned), *self.undrawn]

    @property
    def blocks(self) -> list[Block]:
        """All there is to read: what was measured at all, the header, claims, then the sections."""
        summary = self.summary
        first = (*self.standing, *header_lines(summary.header))
        blocks: list[Block] = [Paragraph(first)]
        # Without a measured cell there is none to judge, as the first lines say.
        if summary.claims and summary.counts.done:
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
    if header.projects:
        lines.append(f"project commit: {', '.join(header.projects)}")
    if versions:
        lines.append(f"versions: {versions}")
    return lines
