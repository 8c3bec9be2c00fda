"""Fixtures of the tests of bundles: a run of eight records, and its bundle taken apart."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hand_written import gradient_metrics

from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.bundles.write import write_bundle
from maxk_lab.sweeps.run.record import Record
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

Rewrite = Callable[[dict[str, bytes]], None]


@pytest.fixture
def plan(small: str) -> Plan:
    return make_plan(load_spec(small))


@pytest.fixture
def run(plan: Plan) -> RunDirectory:
    """A run of which every cell but the last has a record."""
    run = RunDirectory("results/small")
    run.write_spec(plan.spec)
    for cell in plan.cells[:-1]:
        told = cell.as_dict()
        run.write(Record(told, "done", gradient_metrics(told), timings={"seconds": 2.0}))
    return run


@pytest.fixture
def file(run: RunDirectory) -> Path:
    """Its bundle."""
    return write_bundle(run, Path("small.zip")).path


@pytest.fixture
def rewrite(file: Path) -> Callable[[Rewrite], Path]:
    """Puts a bundle in its place whose files are changed, and the manifest with them if asked."""

    def rewritten(change: Rewrite, *, listed: bool = True) -> Path:
        with zipfile.ZipFile(file) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        change(files)
        if listed:
            manifest = json.loads(files["manifest.json"])
            manifest["files"] = {
                name: hashlib.sha256(data).hexdigest()
                for name, data in files.items()
                if name != "manifest.json"
            }
            files["manifest.json"] = json.dumps(manifest).encode()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return file

    return rewritten
