"""A comparison to print: what stands against what, what was changed, and every number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from maxk_lab.report.document import (
    Block,
    Bullets,
    Column,
    Paragraph,
    Section,
    Sheet,
    compact,
    number,
)
from maxk_lab.report.formats.csv import csv_of, safe_text
from maxk_lab.report.tables import Estimate, grouped
from maxk_lab.results.compare.model import VERDICTS, ClaimChange, ComparedRow, Comparison, Number
from maxk_lab.statistics.intervals import EXACT
from maxk_lab.visible import visible_json

# So many numbers of which nothing is told stand in a table; CSV and JSON have all.
_UNTOLD = 12
_TOLD = ("worse", "better", "differs", "differs for these seeds")
_NONE = "none compared, as no row has all of its results in both runs"


@dataclass(frozen=True)
class Line:
    """A number of a row, as a line of a table."""

    row: ComparedRow
    number: Number


@dataclass(frozen=True)
class Document:
    """A comparison, and how it is to look: `colour` and `width` are the terminal's."""

    comparison: Comparison
    colour: bool = False
    width: int = 100

    @property
    def title(self) -> str:
        """The title of the whole."""
        return "maxk-lab: {} against {}".format(*reversed(self.comparison.names))

    @property
    def blocks(self) -> list[Block]:
        """All there is to read."""
        found = self.comparison
        lists = {
            "Settings that were changed": found.settings,
            "Code, versions and machines that were changed": found.origins,
            "Cells compared in spite of other ids differ in": found.meanings,
            "Claims with another verdict or definition": list(map(_of_claim, found.claims)),
            "Alarms": found.alarms,
            "Not compared": [f"{one.state}: {one.path}. {one.reason}" for one in found.absences],
        }
        bullets = [Bullets(title, tuple(lines)) for title, lines in lists.items() if lines]
        return [Paragraph(tuple(_first_lines(found))), *bullets, *_sheets(found)]

    @property
    def sections(self) -> list[Section]:
        """A section for each kind of study, with every number of every row."""
        kinds = grouped(_lines(self.comparison), lambda line: line.row.kind)
        return [Section(kind, (), tuple(map(record, lines))) for kind, lines in kinds.items()]


def record(line: Line) -> dict[str, Any]:
    """Everything about a number of a row: both values, their difference or ratio, the verdict."""
    told, effect = line.number, line.number.effect
    axes = {name: value for name, value in line.row.axes.items() if name != "study"}
    return {
        **axes,
        "measure": told.measure,
        **told.a.interval.columns("a"),
        **told.b.interval.columns("b"),
        "change": "B / A" if effect.ratio else "B - A",
        **effect.interval.columns("change"),
        "change_of": "ratio" if effect.ratio else "difference",
        "paired": effect.paired,
        "about": effect.interval.question,
        "reason": effect.interval.reason,
        "unit": told.a.unit,
        "better": told.a.better,
        "verdict": told.verdict,
    }


def as_csv(document: Document) -> str:
    """One line per row and measure, identical ones too."""
    return csv_of(
        {safe_text(name): safe_text(value) for name, value in line.items()}
        for section in document.sections
        for line in ({"study": section.name, **record} for record in section.records)
    )


def as_json(document: Document) -> str:
    """The comparison as indented JSON; undefined is null."""
    found = document.comparison
    told: Mapping[str, Any] = {
        "a": {"run": found.names[0], "commit": found.commits[0]},
        "b": {"run": found.names[1], "commit": found.commits[1]},
        "cells": asdict(found.counts),
        "verdicts": found.verdicts,
        "worse": found.worse,
        "missing": found.missing,
        "changed": found.changed,
        "tests": found.tests,
        "level": found.level,
        "alpha": found.alpha,
        "tie": found.tie,
        "settings": found.settings,
        "origins": found.origins,
        "meanings": found.meanings,
        "claims": [_claim_in_json(claim) for claim in found.claims],
        "absences": [asdict(one) for one in found.absences],
        "alarms": found.alarms,
        **{section.name: section.records for section in document.sections},
    }
    return visible_json(told, indent=1) + "\n"


def _first_lines(found: Comparison) -> Iterator[str]:
    for letter, name, commit in zip("AB", found.names, found.commits, strict=True):
        yield f"{letter}: {name}, {commit}"
    words = {
        "identical": "identical to the last digit",
        "other_numbers": "the same with other numbers",
        "paired": "of the same row and seed with another id",
        "new": "in B alone",
        "gone": "in A alone",
        "without": "without a result in A or in B",
        "neither": "without one in both",
    }
    cells = [f"{n} {words[name]}" for name, n in asdict(found.counts).items() if n]
    yield f"Cells: {', '.join(cells) or 'none'}."
    verdicts = [f"{n} {verdict}" for verdict, n in found.verdicts.items() if n]
    yield f"Numbers of rows: {', '.join(verdicts) or _NONE}."


def _of_claim(claim: ClaimChange) -> str:
    mark = "WORSE: " if claim.worse else "MISSING: " if claim.missing else ""
    other = f", not the same claim: {'; '.join(claim.redefined)}" if claim.redefined else ""
    other += ", with other seeds" if claim.other_seeds else ""
    detail = f". In B: {claim.detail}" if claim.detail else ""
    return f"{mark}{claim.name}: {claim.a} -> {claim.b}{other}{detail}"


def _claim_in_json(claim: ClaimChange) -> dict[str, Any]:
    return asdict(claim) | {"worse": claim.worse, "missing": claim.missing}


def _lines(found: Comparison) -> list[Line]:
    return [Line(row, number) for row in found.rows for number in row.numbers]


def _sheets(found: Comparison) -> Iterator[Sheet]:
    """A table for each kind of study: what is told first, by its verdict."""
    compared = [line for line in _lines(found) if line.number.verdict != "identical"]
    for kind, lines in grouped(compared, lambda line: line.row.kind).items():
        told = sorted(
            (line for line in lines if line.number.verdict in _TOLD),
            key=lambda line: VERDICTS.index(line.number.verdict),
        )
        rest = [line for line in lines if line.number.verdict not in _TOLD]
        shown = (*told, *rest[:_UNTOLD])
        more = len(rest) - _UNTOLD
        left = (f"{more} more, not significant: --format csv has them.",) if more > 0 else ()
        yield Sheet(f"Other numbers: {kind}", _COLUMNS, shown, (*left, *_caption(found)))


def _caption(found: Comparison) -> Iterator[str]:
    yield (
        f"change: B / A of measures of gradients, else B − A, with a {found.level:.0%} interval of "
        "each alone. paired: by what values were set against each other one by one; else the "
        "interval is from those of both runs, wide enough whatever ties the two; with other seeds "
        "it is of the values of the seeds, where they are enough."
    )
    yield (
        f"Verdicts: at a family-wise level of {found.alpha:.0%}, Bonferroni over {found.tests} "
        f"comparisons. tie: surely less than {found.tie:.2%} of A's number, or "
        "than rounding explains. differs: neither side of this measure is better. "
        "differs for these seeds: by intervals that hold the policies fixed; their other seeds may "
        "be all that it shows. With other seeds, better and worse rest on the values of the seeds "
        "(Mann and Whitney's exact test)."
    )


def _change(line: Line) -> str:
    effect = line.number.effect
    if not effect.interval.known:
        return compact(effect.interval)
    if effect.interval.question == EXACT:
        text = number(effect.interval.value)
    else:
        text = compact(effect.interval)
    return f"× {text}" if effect.ratio else text


def _of(side: Callable[[Number], Estimate]) -> Callable[[Line], str]:
    def text(line: Line) -> str:
        found = side(line.number).interval
        return number(found.value) if found.question == EXACT else compact(found)

    return text


def _column(heading: str, text: Callable[[Line], str], *, numeric: bool = False) -> Column:
    return Column(heading, text, lambda line: {}, numeric)


_COLUMNS = (
    _column("verdict", lambda line: line.number.verdict),
    _column("row", lambda line: line.row.path),
    _column("measure", lambda line: line.number.measure),
    _column("A", _of(lambda told: told.a), numeric=True),
    _column("B", _of(lambda told: told.b), numeric=True),
    _column("change", _change, numeric=True),
    _column("paired", lambda line: line.number.effect.paired or "no"),
)
