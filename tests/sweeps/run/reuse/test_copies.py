"""Records are copied with their origin, digit by digit, and never over what others do."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written import gradient_metrics
from written_runs import WriteRun, record_of

from maxk_lab.studies.gradient.kept import pool_file
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.leases import Driver
from maxk_lab.sweeps.run.record_bytes import outlined
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.reuse.copies import copy_cells
from maxk_lab.sweeps.run.shards import packing

RESULTS = Path("results")
# They differ in their last digit from what fewer digits would say.
ODD = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1e-7, 123456789.123456789, 2.0, 1e22]


@pytest.fixture
def new() -> RunDirectory:
    return RunDirectory(RESULTS / "new")


def copied(plan: Plan, origin: RunDirectory, run: RunDirectory) -> dict[str, str]:
    found = dict.fromkeys((cell.id for cell in plan.cells), origin)
    with Driver(run.root, spec_hash="") as driver:
        return copy_cells(plan, found, run, driver, {})


def test_a_copy_has_the_same_metrics_to_the_last_byte(
    write_run: WriteRun, new: RunDirectory
) -> None:
    origin, plan = write_run("old")
    for number, cell in enumerate(plan.cells[:7]):
        metrics = gradient_metrics(cell.as_dict(), value=ODD[number], zero=-0.0)
        metrics["undefined"] = {"value": 'é \u2028 "\\'}
        origin.write(replace(record_of(cell), metrics=metrics))
    assert set(copied(plan, origin, new)) == {cell.id for cell in plan.cells}
    for cell in plan.cells:
        ours, theirs = (outlined(run.cells.read(cell.id)) for run in (new, origin))
        assert ours == theirs
    assert new.problems == []


def test_a_copy_tells_its_origin(write_run: WriteRun, new: RunDirectory) -> None:
    origin, plan = write_run("old")
    copied(plan, origin, new)
    cell = plan.cells[0]
    record, original = new.read(cell.id), origin.read(cell.id)
    assert record is not None
    assert original is not None
    told = {"run": "old", "measured": "1970-01-01T00:16:40+00:00"}
    assert record.provenance == {**original.provenance, "reused_from": told}
    assert replace(record, provenance=original.provenance) == original
    third = RunDirectory(RESULTS / "third")
    assert copied(plan, new, third)[cell.id] == "new"
    assert (again := third.read(cell.id)) is not None
    assert again.provenance["reused_from"]["run"] == "old"


def test_what_another_driver_measures_is_left_to_it(write_run: WriteRun, new: RunDirectory) -> None:
    origin, plan = write_run("old")
    unit = plan.units[0]
    with Driver(new.root, spec_hash="") as other:
        assert other.take(unit.id) is not None
        theirs = {cell.id for cell in plan.cells} - {cell.id for cell in unit.cells}
        assert set(copied(plan, origin, new)) == theirs


def test_what_is_there_by_now_is_not_replaced(write_run: WriteRun, new: RunDirectory) -> None:
    origin, plan = write_run("old")
    new.write(record_of(plan.cells[0], failed=True))
    assert plan.cells[0].id not in copied(plan, origin, new)
    assert (record := new.read(plan.cells[0].id)) is not None
    assert record.status == "failed"


def test_what_is_damaged_since_it_was_found_is_measured(
    write_run: WriteRun, new: RunDirectory
) -> None:
    origin, plan = write_run("old", missing=1, failed=1)
    origin.cells.path(plan.cells[2].id).write_text("[")
    assert set(copied(plan, origin, new)) == {cell.id for cell in plan.cells[3:]}


@pytest.mark.parametrize("links", [True, False])
def test_the_cache_of_the_units_is_shared(
    write_run: WriteRun, new: RunDirectory, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError("no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    origin, plan = write_run("old")
    pools = [pool_file(unit.as_dict()) for unit in plan.units]
    origin.cache_path.mkdir()
    for name in (*pools, "pool-of-somebody-else.npz"):
        (origin.cache_path / name).write_bytes(b"pool")
    new.cache_path.mkdir(parents=True)
    (new.cache_path / pools[0]).write_bytes(b"mine")
    copied(plan, origin, new)
    assert sorted(path.name for path in new.cache_path.iterdir()) == sorted(pools)
    assert [(new.cache_path / name).read_bytes() for name in pools] == [b"mine", b"pool"]


def test_a_run_measures_nothing_that_another_one_has(
    write_run: WriteRun, new: RunDirectory
) -> None:
    """No worker starts: the function that measures does not exist."""
    _, plan = write_run("old")
    events = []
    outcome = execute(
        plan,
        new,
        reuse=RESULTS,
        measure="nowhere:measure",
        on_event=lambda name, payload: events.append((name, payload)),
    )
    ids = [cell.id for cell in plan.cells]
    assert (outcome.copied, outcome.done) == (dict.fromkeys(ids, "old"), ())
    assert (outcome.reused, outcome.failed, outcome.missing) == ((), (), ())
    (told,) = (payload for name, payload in events if name == "reused")
    assert (told["run"], told["cell_ids"], told["cells"]) == ("old", ids, 8)
    again = execute(plan, new, reuse=RESULTS, measure="nowhere:measure")
    assert (again.copied, again.reused) == ({}, tuple(ids))


def test_only_what_is_selected_is_copied(write_run: WriteRun, new: RunDirectory) -> None:
    _, plan = write_run("old")
    outcome = execute(plan, new, reuse=RESULTS, only="n=8", measure="nowhere:measure")
    assert set(outcome.copied) == {cell.id for cell in plan.cells if cell.n == 8}
    assert len(new.ids()) == 4


@pytest.mark.parametrize("enough", [3, 8])
def test_very_many_records_are_copied_as_shards(
    write_run: WriteRun, new: RunDirectory, monkeypatch: pytest.MonkeyPatch, enough: int
) -> None:
    monkeypatch.setattr(packing, "RECORDS", enough)
    origin, plan = write_run("old")
    (new.cells_path).mkdir(parents=True)
    new.cells.path(plan.cells[5].id).write_text("[")
    before = {plan.cells[5].id: new.fingerprint(plan.cells[5].id)}
    found = dict.fromkeys((cell.id for cell in plan.cells), origin)
    with Driver(new.root, spec_hash="") as driver:
        assert len(copy_cells(plan, found, new, driver, before)) == 8
        assert all(driver.holder(unit.id) is None for unit in plan.units)
    # Units of four: one that is full goes at once, what is left stays files.
    assert len(list(new.cells_path.glob("*.zip"))) == {3: 2, 8: 0}[enough]
    there = RunDirectory(new.root)
    for cell in plan.cells:
        assert outlined(there.cells.read(cell.id)) == outlined(origin.cells.read(cell.id))
    assert [record.status for record in there.records(plan)] == ["done"] * 8
    assert there.problems == []
