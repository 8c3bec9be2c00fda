"""Runs found by their names: folders of results, and bundles."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.bundles.bundle import Bundle
from maxk_lab.sweeps.run.bundles.contents import SUFFIX
from maxk_lab.sweeps.run.records import RunDirectory


def find_runs(results: str | Path = "results") -> list[RunDirectory]:
    """Return every run under `results`, the one that ran last first; bundles, too.

    `results` may also be one bundle.
    """
    if os.path.isfile(results):
        return [Bundle.opened(results)]
    found = [RunDirectory(path.parent) for path in Path(results).glob("[!.]*/spec.yaml")]
    for path in Path(results).glob(f"[!.]*{SUFFIX}"):
        with suppress(LabError):  # whoever names the file is told what is wrong with it
            found.append(Bundle.opened(path))
    return sorted(found, key=lambda run: (-last_change(run), run.name))


def find_run(
    name_or_path: str | Path | None = None, results: str | Path = "results"
) -> RunDirectory:
    """Return the run of that name under `results`, in that folder or bundle; the latest if None.

    Raises `LabError` where there is none.
    """
    if name_or_path is not None:
        in_results = Path(results) / name_or_path
        for root in (in_results, Path(name_or_path)):
            if os.path.lexists(root / "spec.yaml"):
                return RunDirectory(root)
        for path in (f"{in_results}{SUFFIX}", in_results, name_or_path):
            if os.path.isfile(path):
                return Bundle.opened(path)
        if os.path.isdir(name_or_path):
            raise LabError(f"{name_or_path} is no run: there is no spec.yaml in it")
    runs = find_runs(results)
    if name_or_path is None and runs:
        return runs[0]
    if not runs:
        raise LabError(
            f"no runs under {results}; start one with: maxk-lab run experiments/tsp_sweep.yaml"
        )
    known = [run.name for run in runs]
    also = did_you_mean(str(name_or_path), known)
    raise LabError(f"no run {str(name_or_path)!r}{also}; known: {', '.join(known)}")


def find_folder(name_or_path: str, results: str | Path = "results") -> RunDirectory:
    """Return the same of a run that may have lost its spec, but not its records.

    Raises `LabError` where there is none.
    """
    for root in (Path(results) / name_or_path, Path(name_or_path)):
        if (root / "cells").is_dir():
            return RunDirectory(root)
    return find_run(name_or_path, results)


def last_change(run: RunDirectory) -> float:
    """Return when a run last did anything, in seconds since 1970; 0 where that is not known."""
    return max(map(_modified, run.told_by))


def _modified(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
