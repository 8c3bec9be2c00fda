"""Overviews of runs: a line for every run, with what is done, its verdicts and its size."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from maxk_lab.cli.console import console, emit_json, print_table, say, warn
from maxk_lab.execution.bundle import find_runs, is_bundle
from maxk_lab.execution.upkeep import Overview, overview
from maxk_lab.reports.formats.last import last_verdicts
from maxk_lab.visible import visible_line

_COUNTS = ("done", "failed", "stale", "missing")
_HEADINGS = ("run", "changed", *_COUNTS, "verdicts", "size", "description")
# A description has so many letters at least, however narrow the terminal.
_LEAST = 24


def list_runs(results: Path, pattern: str | None, sort: str | None, *, json: bool) -> None:
    """Print the runs of these results, those with names of a pattern, sorted by a field of theirs.

    The pattern may also be the path of a bundle.
    """
    if pattern is not None and is_bundle(pattern):
        results, pattern = Path(pattern), None
    everything = find_runs(results)
    runs = [run for run in everything if pattern is None or fnmatchcase(run.name, pattern)]
    pairs = [(overview(run), last_verdicts(run)) for run in runs]
    field = sort or "changed"
    if field == "name":
        pairs.sort(key=lambda pair: pair[0].name)
    else:
        pairs.sort(key=lambda pair: -(getattr(pair[0], field) or 0))
    if json:
        emit_json([as_json(*pair) for pair in pairs])
        return
    if pairs:
        rows = [_row(*pair) for pair in pairs]
        widths = [max(map(len, column)) + 2 for column in zip(_HEADINGS, *rows, strict=True)]
        room = max(_LEAST, console().width - sum(widths[:-1]))
        print_table(
            _HEADINGS,
            [[*row, textwrap.shorten(about, room, placeholder=" …")] for *row, about in rows],
        )
    elif everything:
        say(f"none of the {len(everything)} runs under {results} is named {pattern}")
    else:
        say(f"no runs under {results}; start one with: maxk-lab run experiments/tsp_sweep.yaml")
    for one, _ in pairs:
        if one.changed_since:
            what = "; ".join(one.changed_since)
            warn(f"{one.name}: {what} since: what uses it is not done as it is now")
        if one.wrong:
            warn(f"{one.name}: {one.wrong}")
        if one.damaged:
            warn(
                f"{one.name}: {one.damaged} records are damaged: maxk-lab show {one.folder} --check"
            )


def as_json(one: Overview, verdicts: Counter[str] | None) -> dict[str, Any]:
    """Return an overview, and the verdicts of the last report, as plain JSON."""
    fields = asdict(one)
    return {
        "name": fields.pop("name"),
        "meaning": fields.pop("description"),
        **fields,
        "folder": str(one.folder),
        "changed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.changed)),
        "verdicts": None if verdicts is None else dict(verdicts),
    }


def _row(one: Overview, verdicts: Counter[str] | None) -> list[str]:
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
    counts = [getattr(one, count) for count in _COUNTS]
    # A listing judges nothing itself.
    judged = ", ".join(f"{count} {verdict}" for verdict, count in (verdicts or {}).items())
    return [
        one.name,
        changed,
        *("?" if count is None else str(count or "·") for count in counts),
        judged or ("not reported" if one.claims else "no claims"),
        decimal(one.size),
        visible_line(one.description),
    ]
