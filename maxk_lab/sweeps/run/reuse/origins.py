"""The code that reused cells were measured with, where it is not that of this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxk_lab.sweeps.run.provenance import collect_provenance
from maxk_lab.sweeps.run.records import RunDirectory

# So many records of a run are read for it, and so many versions told.
_READ, _TOLD = 100, 3


def measured_with(found: Mapping[str, RunDirectory]) -> dict[str, str]:
    """Return what was measured with what by the names of the runs in which cells are `found`.

    It is a clause as in "old (measured with commit 1234567; this is commit 89abcde)", and empty for
    what is here: it goes behind the name. Of very many cells some are looked at.
    """
    by_run: dict[RunDirectory, list[str]] = defaultdict(list)
    for cell_id, run in found.items():
        by_run[run].append(cell_id)
    here = dict(_parts(collect_provenance())) if by_run else {}
    return {run.name: _clause(_provenances(run, ids), here) for run, ids in by_run.items()}


def _provenances(run: RunDirectory, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    for cell_id in ids[:: -(-len(ids) // _READ)]:
        if (record := run.read_once(cell_id)) is not None:
            yield record.provenance


def _clause(provenances: Iterator[Mapping[str, Any]], here: Mapping[str, str]) -> str:
    there: dict[str, set[str]] = defaultdict(set)
    for provenance in provenances:
        for part, told in _parts(provenance):
            there[part].add(told)
    others = {part: told for part, told in there.items() if part in here and told != {here[part]}}
    if not others:
        return ""
    measured = ", ".join(f"{part} {_some(told)}" for part, told in others.items())
    return f" (measured with {measured}; this is {', '.join(f'{p} {here[p]}' for p in others)})"


def _some(told: set[str]) -> str:
    more = len(told) - _TOLD
    return " or ".join(sorted(told)[:_TOLD]) + (f" or {more} more" if more > 0 else "")


def _parts(provenance: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parts of the code and their versions, as far as they are known."""
    git = provenance.get("git") or {}
    if git.get("commit"):
        yield "commit", git["commit"][:7] + " with uncommitted changes" * bool(git.get("dirty"))
    for package, version in (provenance.get("versions") or {}).items():
        if version is not None:
            yield package, str(version)
