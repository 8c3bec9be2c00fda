"""A summary put together for printing: the chapters of all kinds of study, in reading order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from maxk_lab.planning.plan import stale_line
from maxk_lab.reports.claims import verdict_lines
from maxk_lab.reports.document import Block
from maxk_lab.reports.model import Header, Summary
from maxk_lab.reports.naming import listed
from maxk_lab.reports.sections import Chapter, Section, chapter, sections
from maxk_lab.reports.tables import grouped
from maxk_lab.reports.view import WHOLE, View
from maxk_lab.sweep_file.studies import STUDIES, in_reading_order

if TYPE_CHECKING:
    from maxk_lab.reports.charts import Figure

# So many reasons are listed one by one, so many cells that are not finished, and so many names.
_LISTED, _CELLS, _NAMED = 20, 6, 5
# So many that failed are; of more, those with one error are one line.
_FAILED = 5


@dataclass(frozen=True)
class Report:
    """A summary, and how it is to look: `colour` and `width` are the terminal's.

    Without `full` what is folded is left out. `pictures` lie in the folder of the figures, and
    `undrawn` has a line for each that is missing. `view` is the part that is shown,
    and `more` the charts on request.
    """

    summary: Summary
    colour: bool = False
    width: int = 100
    full: bool = True
    pictures: Sequence[Figure] = ()
    undrawn: Sequence[str] = ()
    view: View = WHOLE
    more: Sequence[str] = ()

    @property
    def title(self) -> str:
        """The title of the whole report."""
        return f"maxk-lab: {self.summary.header.name}"

    @cached_property
    def chapters(self) -> Mapping[str, Chapter]:
        """The chapter of every kind of study, in the catalogue's order."""
        studies = self.summary.studies
        return {kind.name: chapter(kind, studies[kind.name], self.summary) for kind in STUDIES}

    @cached_property
    def sections(self) -> list[Section]:
        """The sections that have rows to show, in reading order."""
        return self.view.of(self._all_sections)

    @cached_property
    def _all_sections(self) -> list[Section]:
        return [
            replace(section, notes=self.chapters[kind.name].notes if self.view.columns else ())
            for kind in in_reading_order()
            for section in sections(kind, self.summary.studies[kind.name])
            if section.lines
        ]

    @property
    def standing(self) -> list[str]:
        """The first lines: what was measured at all, and what is shown of it."""
        shown, planned = (
            sum(len(section.lines) for section in several)
            for several in (self.sections, self._all_sections)
        )
        return [*standing_lines(self.summary), *self.view.lines(shown, planned), *self.undrawn]

    @property
    def answer(self) -> list[str]:
        """The sentences on what was found: of each kind of study, then of the claims together."""
        if not self.summary.counts.done:
            return []
        chapters = (self.chapters[kind.name] for kind in in_reading_order())
        return [
            *(line for chapter in chapters for line in chapter.answer),
            *verdict_lines(self.summary.claims),
        ]

    @property
    def shortest(self) -> list[Block]:
        """The short tables that carry the answer."""
        if not self.summary.counts.done:  # tables of dashes
            return []
        return [table for kind in in_reading_order() for table in self.chapters[kind.name].short]

    @property
    def blocks(self) -> list[Block]:
        """All there is to read: the answer, claims, what they rest on, and the rest folded.

        Of a view of a part: the tables that it shows, and nothing folded. Without a measured cell
        there are no claims to judge, as the first lines say.
        """
        summary, measured = self.summary, bool(self.summary.counts.done)
        first = (*filter(None, [summary.header.description]), *self.standing)
        origin = tuple(header_lines(summary.header))
        judged = summary.claims if measured else ()
        verdicts = (f"{one.verdict.upper()} — {one.name}: {one.detail}." for one in judged)
        claims = Block("Claims", items=tuple(verdicts))
        absent = Block("Without a result", items=tuple(absent_lines(summary)))
        tables = [table for section in self.sections for table in section.blocks if measured]
        if not self.view.whole:
            return _filled(Block(lines=(*first, *origin)), claims, absent, *tables)
        words = tuple(f"{claim.name}: {claim.text}." for claim in judged)
        read = [
            Block(lines=first),
            Block("Answer", tuple(self.answer), labelled=True),
            claims,
            *self.shortest,
            Block("Figures", pictures=tuple(self.pictures)),
            absent,
        ]
        every = _filled(Block("What the claims say", items=words), *tables)
        folded = [
            Block("All tables", folded=tuple(every)),
            Block("Where these numbers come from", folded=(Block(lines=origin),)),
        ]
        return _filled(*read, *(folded if self.full else ()))


def _filled(*blocks: Block) -> list[Block]:
    """The blocks that have more than a title."""
    return [one for one in blocks if replace(one, title="", labelled=False) != Block()]


def header_lines(header: Header) -> list[str]:
    """Git commit and versions, one line each."""
    versions = ", ".join(
        f"{package} {' / '.join(found)}" for package, found in header.versions.items()
    )
    lines = [f"git commit: {', '.join(header.commits) or 'unknown'}"]
    if header.projects:
        lines.append(f"project commit: {', '.join(header.projects)}")
    if versions:
        lines.append(f"versions: {versions}")
    return lines


def standing_lines(summary: Summary) -> list[str]:
    """Return the first lines: what has a result, and what changed since."""
    counts = summary.counts
    said = str(counts)
    if counts.planned and counts.failed == counts.planned:
        said = f"every cell failed and nothing was measured: {said}"
    elif counts.planned and not counts.done:
        said = f"nothing is measured yet: {said}"
    lines = [f"{said[0].upper()}{said[1:]}."]
    if summary.changed:
        lines.append(f"CHANGED: {changed_line(summary.changed)}.")
    if not counts.done:
        lines += failure_lines(summary)
    if summary.unjudged:
        names = listed(summary.unjudged, _NAMED)
        lines.append(f"Claims that cannot be judged for want of cells: {names}.")
    return lines


def changed_line(changed: Sequence[str]) -> str:
    """Return the sentence on code and models that changed since the measurement."""
    return f"{listed(changed, _NAMED)} changed since the measurement; run the sweep again"


def absent_lines(summary: Summary) -> list[str]:
    """Return a line for every cell without a result, or for many of them together."""
    # Where nothing was measured, they stand in the first lines.
    failed = failure_lines(summary) if summary.counts.done else []
    items = [f"failed: {line}" for line in failed]
    unfinished = [
        f"{row.key.path} seed {seed} (cell {cell})"
        for study in summary.studies.values()
        for row in study.rows
        for seed, cell in row.cells.items()
        if cell in summary.missing
    ]
    if len(unfinished) > _CELLS:
        go_on = f"go on with maxk-lab run {summary.header.name}.yaml"
        items.append(f"not finished: {len(unfinished)} cells, such as {unfinished[0]}; {go_on}")
    else:
        items += [f"not finished: {one}" for one in unfinished]
    return [*items, stale_line(summary.stale)] if summary.stale else items


def failure_lines(summary: Summary) -> list[str]:
    """Return a line for every failed cell; for every reason, where many failed or all did."""
    each = summary.counts.done and len(summary.failed) <= _FAILED
    groups = grouped(summary.failed, lambda one: one.cell if each else one.error).values()
    lines = [
        f"{f'{len(cells)} cells, e.g. ' if len(cells) > 1 else ''}{cells[0]}: {cells[0].error}"
        for cells in groups
    ]
    more = len(lines) - _LISTED
    return [*lines[:_LISTED], *([f"and {more} more reasons"] if more > 0 else [])]
