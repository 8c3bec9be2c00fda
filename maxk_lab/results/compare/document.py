"""A comparison to print: what stands against what, what was changed, and every number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import MistakeError, shown
from maxk_lab.reports.document import Block, compact, number, sheet
from maxk_lab.reports.formats.data import csv_of_lines
from maxk_lab.reports.formats.markdown import written
from maxk_lab.reports.formats.terminal import printed
from maxk_lab.reports.tables import axes, grouped
from maxk_lab.results.compare.comparison import STATES, ClaimChange, Comparison
from maxk_lab.results.compare.numbers import VERDICTS, Effect, Estimate, Number
from maxk_lab.statistics.intervals import EXACT
from maxk_lab.visible import visible_json

# So many numbers of which nothing is told stand in a table; CSV and JSON have all.
_UNTOLD = 12
_TOLD = ("worse", "better", "differs", "differs for these seeds")
_NONE = "none compared, as no row has all of its results in both runs"


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
        listed = [Block(title, items=tuple(lines)) for title, lines in lists.items() if lines]
        return [Block(lines=tuple(_first_lines(found))), *listed, *_sheets(found)]


def record(told: Number) -> dict[str, Any]:
    """Everything about a number of a row: both values, their difference or ratio, the verdict."""
    effect = told.effect
    return {
        **axes(told.pair.kind, told.pair.b.key),
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


def _by_kind(found: Iterable[Number]) -> dict[str, list[Number]]:
    return grouped(found, lambda one: one.pair.kind)


def as_csv(document: Document) -> str:
    """One line per row and measure, identical ones too."""
    return csv_of_lines(
        record(one) for several in _by_kind(document.comparison.numbers).values() for one in several
    )


def as_json(document: Document) -> str:
    """The comparison as indented JSON; undefined is null."""
    found = document.comparison
    runs = zip("ab", found.names, found.commits, strict=True)
    lists = ("settings", "origins", "meanings", "alarms")
    content: dict[str, Any] = {
        **{letter: {"run": name, "commit": commit} for letter, name, commit in runs},
        "cells": found.counts,
        **{name: getattr(found, name) for name in ("verdicts", "worse", "missing", "changed")},
        **{name: getattr(found, name) for name in ("tests", "level", "alpha", "tie", *lists)},
        "claims": [
            asdict(claim) | {"worse": claim.worse, "missing": claim.missing}
            for claim in found.claims
        ],
        "absences": [asdict(one) for one in found.absences],
        **{
            kind: [{k: v for k, v in record(one).items() if k != "study"} for one in several]
            for kind, several in _by_kind(found.numbers).items()
        },
    }
    return visible_json(content, indent=1) + "\n"


def _first_lines(found: Comparison) -> Iterator[str]:
    for letter, name, commit in zip("AB", found.names, found.commits, strict=True):
        yield f"{letter}: {name}, {commit}"
    cells = [f"{n} {STATES[name]}" for name, n in found.counts.items() if n]
    yield f"Cells: {', '.join(cells) or 'none'}."
    verdicts = [f"{n} {verdict}" for verdict, n in found.verdicts.items() if n]
    yield f"Numbers of rows: {', '.join(verdicts) or _NONE}."


def _of_claim(claim: ClaimChange) -> str:
    mark = "WORSE: " if claim.worse else "MISSING: " if claim.missing else ""
    other = f", not the same claim: {'; '.join(claim.redefined)}" if claim.redefined else ""
    other += ", with other seeds" if claim.other_seeds else ""
    detail = f". In B: {claim.detail}" if claim.detail else ""
    return f"{mark}{claim.name}: {claim.a} -> {claim.b}{other}{detail}"


def _sheets(found: Comparison) -> Iterator[Block]:
    """A table for each kind of study: what is told first, by its verdict."""
    compared = [one for one in found.numbers if one.verdict != "identical"]
    for kind, lines in _by_kind(compared).items():
        told = [one for one in lines if one.verdict in _TOLD]
        told.sort(key=lambda one: VERDICTS.index(one.verdict))
        rest = [one for one in lines if one.verdict not in _TOLD]
        more = len(rest) - _UNTOLD
        left = (f"{more} more, not significant: --format csv has them.",) if more > 0 else ()
        rows = [*told, *rest[:_UNTOLD]]
        texts = pd.DataFrame([{name: text(one) for name, text in _COLUMNS.items()} for one in rows])
        caption = (*left, *_caption(found))
        yield sheet(f"Other numbers: {kind}", texts, ("A", "B", "change"), caption)


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


def _change(one: Number) -> str:
    effect = one.effect
    known = effect.interval.defined
    return f"× {_value(effect)}" if known and effect.ratio else _value(effect)


def _value(found: Estimate | Effect) -> str:
    one = found.interval
    return number(one.value) if one.question == EXACT and one.defined else compact(one)


_COLUMNS: dict[str, Callable[[Number], str]] = {
    "verdict": lambda one: one.verdict,
    "row": lambda one: one.pair.b.key.path,
    "measure": lambda one: one.measure,
    "A": lambda one: _value(one.a),
    "B": lambda one: _value(one.b),
    "change": _change,
    "paired": lambda one: one.effect.paired or "no",
}


def as_terminal(document: Document) -> str:
    """The comparison as text within its width."""
    width, colour = document.width, document.colour
    return printed(document.title, document.blocks, width=width, colour=colour)


def as_markdown(document: Document) -> str:
    """The comparison as Markdown."""
    return written(document.title, document.blocks)


# What makes the text of each format, and the file that it is written to.
FORMATS: dict[str, tuple[Callable[[Any], str], str]] = {
    "terminal": (as_terminal, ""),
    "markdown": (as_markdown, "comparison.md"),
    "csv": (as_csv, "comparison.csv"),
    "json": (as_json, "comparison.json"),
}


def format_of(name: str) -> Callable[[Document], str]:
    """The function that writes a format. Raises `LabError` where there is none of this name."""
    if name not in FORMATS:
        also = did_you_mean(name, FORMATS)
        raise MistakeError(f"unknown format {shown(name)}{also}; known: {', '.join(FORMATS)}")
    return FORMATS[name][0]
