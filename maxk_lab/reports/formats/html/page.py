"""A report as one page that opens offline: no other file is asked for, and the network never."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.reports.document import UNDEFINED, with_captions
from maxk_lab.reports.naming import short_names
from maxk_lab.reports.report import Report, absent_lines
from maxk_lab.reports.sections import Section
from maxk_lab.reports.view import BESIDE, HOW_MUCH, is_axis
from maxk_lab.reports.write import figures
from maxk_lab.statistics.measures import MEASURES, described
from maxk_lab.sweep_file.studies import STUDIES
from maxk_lab.visible import harmless, visible_line

if TYPE_CHECKING:
    from maxk_lab.reports.model import Summary

HERE = files(__package__)
# In the order in which they run.
SCRIPTS = ("libraries/tabulator.min.js", "libraries/vega.min.js", "page.js")
STYLES = ("libraries/tabulator.min.css", "page.css")
LICENCES = ("libraries/LICENSE-tabulator", "libraries/LICENSE-vega")
# Where developers' tools would look for another file.
_MAPS = re.compile(r"\n(//|/\*)# sourceMappingURL=[^\n]*")
# A table of more rows is in the one table of all rows, and not a second time below it.
_MOST_ROWS = 60
# So many columns of numbers are seen at first where none says that it is.
_FIRST = 6
# Of a longer error its end is shown: the last call and what was raised.
_LETTERS = 4000
_STATES = ("failed", "missing")
# The parts of a cell that are told beside its settings, or for each seed.
_TOLD_ELSEWHERE = ("id", "seed", "setting", "identity_version", "record_version")
_NAMES: Mapping[str, Callable[[str], Any]] = {
    "estimator": choose_estimator,
    "baseline": choose_baseline,
}
# What every kind of study has, and its meaning.
_SHARED = {
    "environment": "where the trajectories come from, with the sizes that tell it from others",
    "stage": "the steps of training after which the policy was frozen and measured",
    "estimator": "the way in which a gradient is made of the rewards of a group",
    "baseline": "the number that is subtracted from each reward, which lowers the variance",
    "n": "the trajectories (rollouts) that are sampled for each instance or prompt",
    "k": "Max@K counts the best of K trajectories: K = 1 is the mean reward",
    "seeds": "the seeds that are planned for the row",
    "seeds_finished": "those of them that have a result",
    "complete": "whether all of them have: no mean is made of fewer",
    "instances": "the problems, prompts or states that every seed is measured on",
}


def html(report: Report) -> str:
    """The report as a page, with its figures: they are drawn for it unless they are given."""
    return together([report])


def together(reports: Sequence[Report]) -> str:
    """Several reports as one page, beside each other and in one table."""
    names = _names(reports)
    runs = dict(zip(names, map(_with_pictures, reports), strict=True))
    drawn = [(name, figure) for name, report in runs.items() for figure in report.pictures]
    order = list(dict.fromkeys(figure.name for _, figure in drawn))
    drawn.sort(key=lambda one: order.index(one[1].name))
    sections: dict[str, dict[str, Section]] = {}
    for name, report in runs.items():
        for section in report.sections:
            sections.setdefault(section.name, {})[name] = section
    columns = {name: _columns(list(of_runs.values())) for name, of_runs in sections.items()}
    terms = {axis: _terms(axis, sections) for axis in _NAMES}
    explained = [(one["heading"], one["tip"]) for several in columns.values() for one in several]
    explained += [term for of_axis in terms.values() for term in of_axis.items()]
    data = {
        "runs": names,
        "columns": columns,
        "terms": terms,
        "tables": {
            name: [_table(section, run, runs[run].summary) for run, section in of_runs.items()]
            for name, of_runs in sections.items()
        },
        "cells": {name: _cells(report) for name, report in runs.items()},
        "figures": [figure.spec for _, figure in drawn],
        "themes": _themes() if drawn else {},
    }
    return _template().render(
        title=" and ".join(names),
        runs=[_run(name, report) for name, report in runs.items()],
        figures=[{"run": name, "figure": figure} for name, figure in drawn],
        sections={name: STUDIES.get(name).meaning if name in STUDIES else "" for name in sections},
        captions={name: _captions(of_runs.values()) for name, of_runs in sections.items()},
        explained={heading: tip for heading, tip in explained if tip},
        level=reports[0].summary.level,
        most_rows=_MOST_ROWS,
        licences=[text(name) for name in LICENCES],
        policy=policy(),
        scripts=[Markup(text(name)) for name in SCRIPTS],
        styles=[Markup(text(name)) for name in STYLES],
        data=squeezed(data),
    )


@cache
def text(name: str) -> str:
    """The text of a file as it stands in the page."""
    return _MAPS.sub("", HERE.joinpath(name).read_text(encoding="utf-8")).strip("\n")


@cache
def policy() -> str:
    """The Content-Security-Policy: these scripts alone run, and nothing is fetched from anywhere.

    Vega and Tabulator set styles of elements, which only `unsafe-inline` allows.
    """
    digests = (hashlib.sha256(text(name).encode()).digest() for name in SCRIPTS)
    scripts = " ".join(f"'sha256-{base64.b64encode(one).decode('ascii')}'" for one in digests)
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def squeezed(value: Any) -> str:
    """The value as JSON, deflated, in letters that HTML takes for nothing else."""
    told = json.dumps(harmless(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(told.encode(), 9)).decode("ascii")


def _names(reports: Sequence[Report]) -> list[str]:
    """The names of the runs, numbered where several have the same."""
    names = [visible_line(report.summary.header.name) for report in reports]
    return [
        f"{name} ({names[: place + 1].count(name)})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def _with_pictures(report: Report) -> Report:
    """The report with its figures, where it is of the whole run."""
    if report.pictures or report.undrawn or not report.view.whole:
        return report
    undrawn: list[str] = []
    pictures = list(figures(report.summary, report.more, failed=undrawn.append))
    return replace(report, pictures=pictures, undrawn=undrawn)


def _themes() -> dict[str, Any]:
    from maxk_lab.reports.charts import theme

    return {"light": theme(), "dark": theme(dark=True)}


def _run(name: str, report: Report) -> dict[str, Any]:
    """The part of a run that stands in the page as text."""
    summary = report.summary
    verdicts = [claim.verdict for claim in summary.claims]
    counts = {state: getattr(summary.counts, state) for state in _STATES}
    counts["stale"] = summary.stale
    verdict_counts = {one: verdicts.count(one) for one in ("supported", "undecided", "refuted")}
    return {
        "name": name,
        "description": summary.header.description,
        "standing": report.standing,
        "counts": {state: count for state, count in (verdict_counts | counts).items() if count},
        "answer": report.answer,
        "claims": summary.claims if summary.counts.done else (),
        "short": report.shortest,
        "absent": absent_lines(summary),
        "folded": [
            (block.title, list(with_captions(block.folded)))
            for block in report.blocks
            if block.folded
        ],
    }


def _captions(sections: Iterable[Section]) -> list[str]:
    """The lines below the tables of chosen columns."""
    tables = (table for one in sections if one.chosen for table in one.blocks)
    return list(dict.fromkeys(line for table in tables for line in table.caption))


def _columns(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The columns of sections of one name, of several runs: what `page.js` makes its table of.

    `tip` explains a column, `first` says that it is seen at first, `ends` that it is the end of an
    interval, which is only downloaded. Of columns that are chosen all are seen, in their order.
    """
    records = [record for section in sections for record in section.records]
    chosen = dict.fromkeys(name for section in sections for name in section.chosen)
    every = (name for one in sections for name in one.names)
    given = (name for record in records for name in record)
    names = dict.fromkeys((*chosen, *given) if chosen else every)
    names.pop("cells", None)
    ends = {name + end for name in names for end in BESIDE} - chosen.keys()
    short = short_names([name for name in names if "." in name and is_axis(name)])
    values = {name: [record.get(name) for record in records] for name in names}
    axes = [name for name in names if is_axis(name) and any(v is not None for v in values[name])]
    differing = {name for name in axes if len(set(map(repr, values[name]))) > 1}
    told = {name: described(name) for name in names if name not in ends}
    others = [name for name in told if name not in axes and name not in HOW_MUCH]
    important = {name for name in others if (one := told[name]) and one.first}
    first = differing | (important or set(others[:_FIRST]))
    first |= {"seeds_finished"} if False in values.get("complete", ()) else set()
    return [
        {
            "key": name,
            "heading": _heading(name, short),
            "tip": _tip(name, name in axes),
            "numeric": all(
                isinstance(value, int | float | None) and not isinstance(value, bool)
                for value in values[name]
            ),
            "axis": name in axes,
            "first": name in (chosen or first),
            "ends": name in ends,
        }
        for name in names
    ]


def _heading(name: str, short: Mapping[str, str]) -> str:
    words = "K" if name == "k" else short.get(name, name).replace("_", " ")
    column = described(name)
    heading = column.heading if column is not None else ""
    # Such as `verdict`, of which `bias_verdict` says more.
    return words if not heading or words.startswith(f"{heading} ") else heading


def _tip(name: str, is_place: bool) -> str:
    """The meaning of a column with formula, unit and source, a line each."""
    if name in _SHARED:
        return _SHARED[name]
    column = described(name)
    if column is None:
        return f"{name}, a setting that the sweep varies" if is_place else ""
    if name not in MEASURES.names():
        return column.meaning
    row = MEASURES.get(name)
    notes = {
        "unit: {}": "" if row.unit == "1" else row.unit,
        "{} is better": row.better,
        "its interval is about {}": row.question,
    }
    rest = " · ".join(words.format(value) for words, value in notes.items() if value)
    source = row.citation or row.implementation
    return "\n".join(filter(None, (row.meaning, rest, source and f"source: {source}")))


def _terms(axis: str, sections: Mapping[str, Mapping[str, Section]]) -> dict[str, str]:
    """The meaning, formula and source of the estimators and baselines, by their names."""
    names = {
        record.get(axis)
        for of_runs in sections.values()
        for section in of_runs.values()
        for record in section.records
    }
    found = {}
    for name in sorted(filter(None, names)):
        try:
            row = _NAMES[axis](name).row
        except LabError:  # of a package that is not installed here
            continue
        source = row.citation and f"source: {row.citation}"
        found[name] = "\n".join(filter(None, (row.meaning, row.formula, source)))
    return found


def _table(section: Section, run: str, summary: Summary) -> dict[str, Any]:
    """The rows of a section: values by column, the texts of those that have an interval, cells.

    `settings` are those of any cell with a record of a row, but for its seed, by their keys.
    """
    names = dict.fromkeys(name for record in section.records for name in record)
    values: dict[str, list[Any]] = {}
    texts: dict[str, list[str]] = {}
    for name in names:
        column = [record.get(name) for record in section.records]
        types = set(map(type, column))
        if types & {list, dict}:
            continue
        if types & {bool, str}:
            told = zip(column, section.lines, strict=True)
            column = [None if value is None else line.text(name) for value, line in told]
        elif float in types and not name.endswith(BESIDE):
            texts[name] = [line.text(name) or UNDEFINED for line in section.lines]
        values[name] = column
    origins = summary.origins
    cells: list[Mapping[str, Any]] = [
        next((origins[one].cell for one in line.row.cells.values() if one in origins), {})
        for line in section.lines
    ]
    keys = dict.fromkeys(key for cell in cells for key in cell if key not in _TOLD_ELSEWHERE)
    return {
        "run": run,
        "values": values,
        "texts": texts,
        "undefined": [line.record["undefined"] for line in section.lines],
        "cells": [list(line.row.cells.items()) for line in section.lines],
        "settings": {key: _shared([cell.get(key) for cell in cells]) for key in keys},
    }


def _shared(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Each value that there is, once, and the place of each row among them."""
    places: dict[str, int] = {}
    at = [places.setdefault(repr(value), len(places)) for value in values]
    return {"of": [values[at.index(place)] for place in range(len(places))], "at": at}


def _cells(report: Report) -> dict[str, Any]:
    """The state, times, error and origin of the cells behind all rows, by their ids."""
    summary = report.summary
    origins: dict[int, int] = {}
    shared: list[Mapping[str, Any]] = []
    found: dict[str, list[Any]] = {}
    for section in report.sections:
        for cell in (one for line in section.lines for one in line.row.cells.values()):
            origin = summary.origins.get(cell)
            if origin is None:
                found[cell] = ["missing", None, None, "", None]
                continue
            place = origins.setdefault(id(origin.provenance), len(shared))
            if place == len(shared):
                shared.append(origin.provenance)
            took, finished = (origin.timings.get(name) for name in ("seconds", "finished"))
            found[cell] = [origin.status, took, finished, (origin.error or "")[-_LETTERS:], place]
    return {"of": found, "origins": shared}


@cache
def _template() -> Template:
    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters["line"] = lambda words: visible_line(str(words))
    return page.from_string(text("page.html"))
