"""Cells are looked for in the other runs of the results, and found where they are done."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from written_runs import WriteRun, record_of

from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.bundles.write import write_bundle
from maxk_lab.sweeps.run.progress import statuses
from maxk_lab.sweeps.run.record_bytes import encoded
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.reuse.search import done_elsewhere, names_of
from maxk_lab.sweeps.run.shards import packing
from maxk_lab.sweeps.run.shards.archive import listed_ids

RESULTS = Path("results")


def found(plan: Plan, run: RunDirectory) -> dict[str, str]:
    states = statuses(plan, run)
    return names_of(done_elsewhere(states, states, run, RESULTS))


@pytest.fixture
def new() -> RunDirectory:
    return RunDirectory(RESULTS / "new")


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_done_elsewhere_is_found(
    write_run: WriteRun, new: RunDirectory, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(packing, "RECORDS", 3)
    run, plan = write_run("old", failed=1, missing=2)
    if packed:
        assert run.pack() == 6
    assert found(plan, new) == dict.fromkeys([cell.id for cell in plan.cells[3:]], "old")


def test_only_missing_cells_are_looked_for(write_run: WriteRun) -> None:
    write_run("old")
    run, plan = write_run("new", failed=1, missing=1)
    assert found(plan, run) == {plan.cells[0].id: "old"}


def test_a_run_does_not_find_its_own(write_run: WriteRun, tmp_path: Path) -> None:
    _, plan = write_run("old")
    absent = dict.fromkeys((cell.id for cell in plan.cells), "missing")
    assert done_elsewhere(absent, absent, RunDirectory(tmp_path / "results/old"), RESULTS) == {}
    assert len(done_elsewhere(absent, absent, RunDirectory("results/new"), RESULTS)) == 8
    assert done_elsewhere(absent, absent, RunDirectory("results/new"), None) == {}


def test_of_several_runs_the_latest_counts(write_run: WriteRun, new: RunDirectory) -> None:
    for name, changed in {"first": 1, "last": 3, "middle": 2}.items():
        run, plan = write_run(name, missing=2 * (name == "last"))
        os.utime(run.spec_path, (changed, changed))
    names = found(plan, new)
    assert [names[cell.id] for cell in plan.cells] == ["middle"] * 2 + ["last"] * 6


def test_what_is_damaged_or_of_an_older_version_is_not_found(
    write_run: WriteRun, new: RunDirectory
) -> None:
    run, plan = write_run("old")
    first, second = (run.cells.path(cell.id) for cell in plan.cells[:2])
    first.write_bytes(first.read_bytes()[:-40])
    (content := json.loads(second.read_bytes()))["metrics"].pop("cell")
    content.pop("checksum")
    second.write_bytes(encoded(content))
    assert set(found(plan, new)) == {cell.id for cell in plan.cells[2:]}


def test_what_is_no_folder_of_records_is_passed_over(
    write_run: WriteRun, new: RunDirectory
) -> None:
    _, plan = write_run("old")
    for name in ("odd", "empty"):
        (RESULTS / name).mkdir()
        (RESULTS / name / "spec.yaml").write_text("[")
    (RESULTS / "odd" / "cells").write_text("no folder")
    assert len(found(plan, new)) == 8


def test_a_shard_lists_its_cells(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packing, "RECORDS", 8)
    run, plan = write_run()
    assert run.pack() == 8
    (shard,) = run.cells_path.glob("*.zip")
    assert {cell.id for cell in plan.cells} <= set(listed_ids(shard))
    for damaged in (b"", b"PK", shard.read_bytes()[:-1], b"x" * 100):
        (tmp_path / "bad.zip").write_bytes(damaged)
        assert listed_ids(tmp_path / "bad.zip") == []
    assert listed_ids(tmp_path / "none.zip") == []


def test_a_record_that_is_found_is_that_of_its_cell(write_run: WriteRun, new: RunDirectory) -> None:
    run, plan = write_run("old", missing=1)
    run.write(record_of(plan.cells[1]))
    run.cells.path(plan.cells[1].id).rename(run.cells.path(plan.cells[0].id))
    assert set(found(plan, new)) == {cell.id for cell in plan.cells[2:]}


def test_bundles_are_looked_through_too(write_run: WriteRun, new: RunDirectory) -> None:
    run, plan = write_run("old", missing=2)
    write_bundle(run, RESULTS / "handed.zip")
    shutil.rmtree(run.root)
    assert found(plan, new) == dict.fromkeys([cell.id for cell in plan.cells[2:]], "handed.zip")
