"""Runs found by their names: folders of results, and bundles."""

from __future__ import annotations

import os
from pathlib import Path

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.bundle import BUNDLE, Bundle, has_manifest
from maxk_lab.sweeps.run.records import RunDirectory


def find_runs(results: str | Path = "results") -> list[RunDirectory]:
    """Return every run under `results`, the one that ran last first; bundles, too.

    `results` may also be one bundle.
    """
    if os.path.isfile(results):
        return [Bundle(results)]
    found = [RunDirectory(path.parent) for path in Path(results).glob("[!.]*/spec.yaml")]
    # Whoever names a file that is no bundle is told what is wrong with it.
    found += [Bundle(path) for path in Path(results).glob(f"[!.]*{BUNDLE}") if has_manifest(path)]
    return sorted(found, key=lambda run: (-run.changed, run.name))


def find_run(
    name_or_path: str | Path | None = None, results: str | Path = "results"
) -> RunDirectory:
    """Return the run of that name under `results`, in that folder or bundle; the latest if None.

    Raises `LabError` where there is none.
    """
    if name_or_path is not None:
        for root in (Path(results) / name_or_path, Path(name_or_path)):
            if os.path.lexists(root / "spec.yaml"):
                return RunDirectory(root)
            # A bundle may also lie beside the report that was made of it.
            for path in (f"{root}{BUNDLE}", root, root / f"{root.name}{BUNDLE}"):
                if os.path.isfile(path):
                    return Bundle(path)
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
