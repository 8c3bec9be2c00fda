"""Reuse: cells that another run of the same results has done are copied, not measured again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.execution.bundle import find_runs
from maxk_lab.execution.provenance import collect_provenance
from maxk_lab.execution.records import RunDirectory
from maxk_lab.files import write_atomically
from maxk_lab.planning.plan import Plan

# The key of the provenance that names the run a record was copied from.
REUSED_FROM = "reused_from"


def done_elsewhere(
    wanted: Iterable[str], states: Mapping[str, str], run: RunDirectory, results: Path | None
) -> dict[str, RunDirectory]:
    """Return which other run under `results` has done each of these cells, where one has.

    Those that are missing by their `states` are looked for, and none without `results`. Of several
    runs it is the one that ran last. What failed elsewhere may be the fault of another machine.
    """
    if results is None:
        return {}
    left = {one for one in wanted if states[one] == "missing"}
    origins: dict[str, RunDirectory] = {}
    for other in find_runs(results) if left else ():
        with suppress(LabError):  # whoever names that run is told what is wrong with it
            if other.place.resolve() != run.place.resolve():
                done = left & {one.id for one in other.heads.values() if one.status == "done"}
                origins |= dict.fromkeys(done, other)
                left -= done
    return origins


def copy_cells(
    plan: Plan, origins: Mapping[str, RunDirectory], run: RunDirectory
) -> dict[str, str]:
    """Copy the records of these cells from the runs that have them, and return their names.

    A copy has the metrics, timings and provenance of its original, and in addition the name of the
    run. Of the cache comes along what the units can use. Raises `StorageError` where nothing can be
    written.
    """
    copied: dict[str, str] = {}
    lines: list[bytes] = []
    heads = run.heads
    for unit in plan.units:
        for cell in (one for one in unit.cells if one.id in origins):
            origin = origins[cell.id]
            # What the cache has for it, such as the pool and the policies that it trained.
            for path in origin.cached(unit, "kept", [cell]):
                copy = run.cache_path / path.name
                with suppress(FileNotFoundError):
                    if not copy.exists():
                        write_atomically(copy, path.read_bytes())
            record = origin.read(cell.id, cell)
            if record is not None and record.status == "done":
                finished = time.gmtime(record.timings.get("finished", 0.0))
                measured = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", finished)
                # A copy of a copy names the run that has measured the cell.
                source = {REUSED_FROM: {"run": origin.name, "measured": measured}}
                copied_record = replace(record, provenance=source | record.provenance)
                attempt = heads[cell.id].attempt + 1 if cell.id in heads else 1
                lines.append(copied_record.to_line(attempt))
                copied[cell.id] = origin.name
    if lines:
        run.append(b"".join(lines))
    return copied


def measured_with(origins: Mapping[str, RunDirectory]) -> dict[str, str]:
    """Return what was measured with what by the names of the runs in which cells are done.

    It is a clause as in "old (measured with commit 1234567; this is commit 89abcde)", and empty for
    what is here: it goes behind the name. The first of its cells speaks for all of a run.
    """
    here = dict(_parts(collect_provenance())) if origins else {}
    clauses: dict[str, str] = {}
    for cell_id, run in origins.items():
        if run.name not in clauses and (record := run.read(cell_id)) is not None:
            parts = [(one, of) for one, of in _parts(record.provenance) if here.get(one, of) != of]
            measured = ", ".join(f"{part} {version}" for part, version in parts)
            now = ", ".join(f"{part} {here[part]}" for part, _ in parts)
            clauses[run.name] = f" (measured with {measured}; this is {now})" if parts else ""
    return clauses


def _parts(provenance: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parts of the code and their versions, as far as they are known."""
    git = provenance.get("git") or {}
    if git.get("commit"):
        yield "commit", git["commit"][:7] + " with uncommitted changes" * bool(git.get("dirty"))
    for package, version in (provenance.get("versions") or {}).items():
        if version is not None:
            yield package, str(version)
