"""`maxk-lab list runs`: a line for every run, with what is done, its verdicts and its size."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.cli.console import console, emit_json, print_table, say, warn
from maxk_lab.cli.verbs.upkeep.asking import counted_size
from maxk_lab.errors import LabError, shown
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from collections import Counter

    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.upkeep.overview import Overview

_COUNTS = ("done", "failed", "stale", "missing")
_HEADINGS = ("run", "changed", *_COUNTS, "verdicts", "size", "description")
# A description has so many letters at least, however narrow the terminal.
_LEAST = 24
_KEYS: Mapping[str, Callable[[Overview], Any]] = {
    "changed": lambda one: -one.changed,
    "name": lambda one: one.name,
    "size": lambda one: -one.size,
    "done": lambda one: -one.done,
    "failed": lambda one: -one.failed,
    "stale": lambda one: -one.stale,
    "missing": lambda one: -(one.missing or 0),
}
SORTS = tuple(_KEYS)


def list_runs(results: Path, pattern: str | None, sort: str | None, *, json: bool) -> None:
    """Print the runs of these results; those with names of a pattern, by a key of `SORTS`.

    The pattern may also be the path of a bundle.

    Raises `LabError` for a key that is none.
    """
    from maxk_lab.report.formats.last import last_verdicts
    from maxk_lab.sweeps.run.bundle import is_bundle
    from maxk_lab.sweeps.run.find import find_runs
    from maxk_lab.sweeps.upkeep.overview import overview

    if sort is not None and sort not in _KEYS:
        also = did_you_mean(sort, SORTS)
        raise LabError(f"--sort {shown(sort)} is no column{also}; known: {', '.join(SORTS)}")
    if pattern is not None and is_bundle(pattern):
        results, pattern = Path(pattern), None
    known = find_runs(results)
    runs = [run for run in known if pattern is None or fnmatchcase(run.name, pattern)]
    found = [(overview(run), last_verdicts(run)) for run in runs]
    found.sort(key=lambda pair: _KEYS[sort or "changed"](pair[0]))
    if json:
        emit_json([as_json(*pair) for pair in found])
        return
    if found:
        _print(found)
    elif known:
        say(f"none of the {len(known)} runs under {results} is named {pattern}")
    else:
        say(f"no runs under {results}; start one with: maxk-lab run experiments/tsp_sweep.yaml")
    for one, _ in found:
        if one.changed_since:
            what = "; ".join(one.changed_since)
            warn(f"{one.name}: {what} since: what uses it is not done as it is now")
        if one.wrong:
            warn(f"{one.name}: {one.wrong}")
        if one.damaged:
            warn(f"{one.name}: {one.damaged} records are damaged: maxk-lab show {one.folder}")


def view(run: RunDirectory) -> dict[str, Any]:
    """Return the overview of one run as plain JSON."""
    from maxk_lab.report.formats.last import last_verdicts
    from maxk_lab.sweeps.upkeep.overview import overview

    return as_json(overview(run), last_verdicts(run))


def as_json(one: Overview, verdicts: Counter[str] | None) -> dict[str, Any]:
    """Return an overview, and the verdicts of the last report, as plain JSON."""
    told = asdict(one)
    return {
        "name": told.pop("name"),
        "meaning": told.pop("description"),
        **told,
        "folder": str(one.folder),
        "changed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.changed)),
        "verdicts": None if verdicts is None else dict(verdicts),
    }


def _print(found: list[tuple[Overview, Counter[str] | None]]) -> None:
    rows = [_row(*pair) for pair in found]
    widths = [max(map(len, column)) + 2 for column in zip(_HEADINGS, *rows, strict=True)]
    room = max(_LEAST, console().width - sum(widths[:-1]))
    print_table(_HEADINGS, [[*row[:-1], _cut(row[-1], room)] for row in rows])


def _row(one: Overview, verdicts: Counter[str] | None) -> list[str]:
    counts = [_count(getattr(one, count)) for count in _COUNTS]
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
    size = counted_size(one.size)
    return [one.name, changed, *counts, _judged(one, verdicts), size, visible_line(one.description)]


def _count(count: int | None) -> str:
    return "?" if count is None else str(count or "·")


def _judged(one: Overview, verdicts: Counter[str] | None) -> str:
    """Return the verdicts, or why there are none: a listing judges nothing itself."""
    if verdicts:
        return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    return "not reported" if one.claims else "no claims"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
