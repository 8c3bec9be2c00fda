"""A report as one page that opens offline: no other file is asked for, and the network never."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from maxk_lab.report.document import Bullets, Folded, Paragraph, Section, Sheet, with_captions
from maxk_lab.report.figures import figures
from maxk_lab.report.formats.csv import FORMULA
from maxk_lab.report.formats.html import assets
from maxk_lab.report.formats.html.columns import columns, definitions_of_names
from maxk_lab.report.formats.html.pack import squeezed
from maxk_lab.report.formats.html.table import cells, table
from maxk_lab.report.formats.latex import ESCAPES
from maxk_lab.report.report import Report, absent_lines
from maxk_lab.sweeps.studies import STUDIES
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.report.charts import Figure

# A table of more rows is in the one table of all rows, and not a second time below it.
_MOST_ROWS = 60
_STATES = ("failed", "damaged", "stale", "missing")


def html(report: Report) -> str:
    """The report as a page, with its figures: they are drawn for it unless they are given."""
    return together([report])


def together(reports: Sequence[Report]) -> str:
    """Several reports as one page, beside each other and in one table."""
    names = _names(reports)
    found = [_with_pictures(report) for report in reports]
    drawn = [
        (name, figure)
        for name, report in zip(names, found, strict=True)
        for figure in report.pictures
    ]
    order = list(dict.fromkeys(figure.name for _, figure in drawn))
    drawn.sort(key=lambda one: order.index(one[1].name))
    runs = [_run(name, report) for name, report in zip(names, found, strict=True)]
    shown = [
        {"run": name, "name": one.name, "title": one.title, "caption": one.caption}
        for name, one in drawn
    ]
    sections = list(dict.fromkeys(one.name for report in found for one in report.sections))
    return _template().render(
        title=" and ".join(names),
        runs=runs,
        figures=shown,
        sections=sections,
        captions={name: _captions(found, name) for name in sections},
        meanings={name: STUDIES.get(name).meaning if name in STUDIES else "" for name in sections},
        level=reports[0].summary.level,
        licences=[assets.text(name) for name in assets.LICENCES],
        policy=assets.policy(),
        scripts=[Markup(assets.text(name)) for name in assets.SCRIPTS],
        styles=[Markup(assets.text(name)) for name in assets.STYLES],
        data=squeezed(_data(names, found, [figure for _, figure in drawn])),
    )


def _names(reports: Sequence[Report]) -> list[str]:
    """The names of the runs, numbered where several have the same."""
    names = [visible_line(report.summary.header.name) for report in reports]
    return [
        f"{name} ({names[: place + 1].count(name)})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def _with_pictures(report: Report) -> Report:
    """The report with its figures, where it is of the whole run."""
    from dataclasses import replace

    if report.pictures or report.undrawn or not report.view.whole:
        return report
    undrawn: list[str] = []
    found = list(
        figures(report.summary, report.more, failed=undrawn.append, left_out=undrawn.append)
    )
    return replace(report, pictures=found, undrawn=undrawn)


def _run(name: str, report: Report) -> dict[str, Any]:
    """The part of a run that stands in the page as text."""
    summary = report.summary
    verdicts = [claim.verdict for claim in summary.claims]
    counts = {state: getattr(summary.counts, state) for state in _STATES}
    counts["damaged"] = max(counts["damaged"], len(summary.problems))
    counts["stale"] = max(counts["stale"], len(summary.stale))
    measured = bool(summary.counts.done)
    return {
        "name": name,
        "description": summary.header.description,
        "standing": report.standing,
        "verdicts": {
            verdict: verdicts.count(verdict) for verdict in ("supported", "undecided", "refuted")
        },
        "counts": {state: count for state, count in counts.items() if count},
        "answer": report.answer,
        "claims": summary.claims if measured else (),
        "short": [_block(block) for block in report.shortest],
        "absent": list(absent_lines(summary)),
        "folded": [
            {"title": fold.title, "blocks": _blocks(fold)}
            for fold in report.blocks
            if isinstance(fold, Folded)
        ],
    }


def _captions(reports: Sequence[Report], name: str) -> list[str]:
    """The lines below the tables of chosen columns of a section."""
    blocks = (
        block
        for report in reports
        if report.view.columns
        for section in report.sections
        if section.name == name
        for block in section.blocks
    )
    return list(
        dict.fromkeys(t for block in blocks if isinstance(block, Sheet) for t in block.caption)
    )


def _blocks(fold: Folded) -> list[dict[str, Any]]:
    return [_block(block, caption) for block, caption in with_captions(fold.blocks)]


def _block(
    block: Paragraph | Bullets | Sheet, caption: Sequence[str] | None = None
) -> dict[str, Any]:
    """The block as the template has it: lines, items or a table, below a title."""
    if isinstance(block, Paragraph):
        return {"title": block.title, "lines": block.lines}
    if isinstance(block, Bullets):
        return {"title": block.title, "items": block.items}
    shown = block.rows if len(block.rows) <= _MOST_ROWS else ()
    return {
        "title": block.title,
        "columns": block.columns,
        "rows": [[column.text(row) for column in block.columns] for row in shown],
        "breaks": block.breaks,
        "left_out": len(block.rows) - len(shown),
        "caption": block.caption if caption is None else caption,
    }


def _data(
    names: Sequence[str], reports: Sequence[Report], shown: Sequence[Figure]
) -> dict[str, Any]:
    """All that the scripts of the page show and look up."""
    from maxk_lab.report.charts import theme

    by_name: dict[str, list[Section]] = {}
    for report in reports:
        for section in report.sections:
            by_name.setdefault(section.name, []).append(section)
    chosen = list(dict.fromkeys(name for report in reports for name in report.view.columns))
    told = {name: columns(sections, chosen) for name, sections in by_name.items()}
    return {
        "runs": [
            {
                "name": name,
                "tables": {
                    section.name: table(section, report.summary, told[section.name])
                    for section in report.sections
                },
                "cells": cells(report.sections, report.summary),
            }
            for name, report in zip(names, reports, strict=True)
        ],
        "columns": told,
        "names": definitions_of_names(
            [section for sections in by_name.values() for section in sections]
        ),
        "figures": [figure.spec for figure in shown],
        "themes": {"light": theme(), "dark": theme(dark=True)} if shown else {},
        "level": reports[0].summary.level,
        "latex": ESCAPES,
        "formula": FORMULA,
    }


@cache
def _template() -> Template:
    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters["line"] = lambda text: visible_line(str(text))
    return page.from_string(assets.text("page.html"))
