"""Pruning takes stale records and the cache of what is finished, and nothing that is needed."""

from __future__ import annotations

import os

import pytest
from stored import lines
from written_runs import WriteRun, record_of

from maxk_lab.errors import LabError
from maxk_lab.execution.leases import Driver
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.store import Head
from maxk_lab.execution.upkeep import prunable, prune
from maxk_lab.planning.plan import Plan
from maxk_lab.studies.gradient.spec import policy_file, pool_file
from maxk_lab.studies.training.spec import checkpoint_file, reference_file, snapshot_file
from maxk_lab.sweep_file.load import load_spec

TRAINED = (
    "training={steps: 2, evaluate: {instances: 4, samples: 4},"
    " grid: {estimator: maxk, baseline: centred, n: 4, k: 2}}"
)


def keep(run: RunDirectory, *names: str) -> None:
    run.cache_path.mkdir(exist_ok=True)
    for name in names:
        (run.cache_path / name).write_text(name)


def kept(run: RunDirectory) -> set[str]:
    return {path.name for path in run.cache_path.iterdir()}


@pytest.fixture
def stale(write_run: WriteRun) -> tuple[RunDirectory, Plan]:
    """A run of 8 cells, of which a changed spec wants 4."""
    run, plan = write_run()
    run.write_spec(load_spec("sweep.yaml", ["seeds=[0]"]))
    return run, plan


def test_stale_records_go_and_done_and_failed_ones_stay_as_they_are(
    write_run: WriteRun,
) -> None:
    """With a line that is damaged beyond telling whose it was, which is told until then."""
    run, plan = write_run(failed=1)
    run.write_spec(load_spec("sweep.yaml", ["seeds=[0]"]))
    (segment,) = run.records_path.iterdir()
    segment.write_bytes(b"noise\n" + segment.read_bytes())
    (run.root / "old").write_text("12345")
    run, before, size = RunDirectory(run.root), lines(run.root), segment.stat().st_size
    gone = {cell.id for cell in plan.cells if cell.seed == 1}
    assert [*prunable(run).damaged.values()] == [6]
    assert len(run.problems) == 1
    found = prune(run, [run.root / "old"])
    assert (set(found.stale), found.others) == (gone, {run.root / "old": 5})
    assert not (run.root / "old").exists()
    again = RunDirectory(run.root)
    assert lines(run.root) == {one: line for one, line in before.items() if one not in gone}
    (segment,) = run.records_path.iterdir()
    assert segment.stat().st_size == size - (found.size - 5)
    assert again.problems == []
    assert not prunable(again)


def test_the_cache_of_finished_units_goes(write_run: WriteRun) -> None:
    run, plan = write_run(missing=1)
    unfinished, finished = (unit.as_dict() for unit in plan.units)
    mine = {"notes.txt", "pool-list.txt", "pool-mine.npz", "training-backup.pt", "policy-best.pt"}
    needed = {pool_file(unfinished), policy_file(unfinished, 0), *mine}
    of_nobody = "pool-0123456789abcdef.npz"
    keep(run, *needed, pool_file(finished), policy_file(finished, 0), of_nobody)
    prune(run)
    assert kept(run) == needed


def test_trained_policies_and_what_they_were_evaluated_on_stay(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, plan = write_run("taught", TRAINED, missing=99)
    head = Head("", 1, "done", 1.0, 0)
    done = {cell.id: head._replace(id=cell.id) for cell in plan.cells}
    monkeypatch.setattr(RunDirectory, "heads", done)
    trained = [cell for cell in plan.cells if cell.study == "training"]
    needed = {
        *(checkpoint_file(cell.id) for cell in trained),
        *(snapshot_file(cell.id, 2) for cell in trained),
        reference_file("bandit", "exact", "0123"),
    }
    # Those of cells that the sweep has no more cost hours, too, and another sweep may name them.
    needed |= {checkpoint_file("0" * 16), snapshot_file("0" * 16, 2)}
    keep(run, *needed, "pool-0123456789abcdef.npz")
    prune(run)
    assert kept(run) == needed


def test_a_run_in_which_somebody_works_stays(stale: tuple[RunDirectory, Plan]) -> None:
    run, _ = stale
    with Driver(run.root), pytest.raises(LabError, match="is in use by process"):
        prune(run)
    assert len(run.ids()) == 8


def test_what_is_written_beside_it_stays(stale: tuple[RunDirectory, Plan]) -> None:
    """Another process appends after `prune` has read, before and after its segment has gone."""
    run, plan = stale
    late, later = RunDirectory(run.root), RunDirectory(run.root)
    (cell, other, *_) = (cell for cell in plan.cells if cell.seed == 0)
    late.write(record_of(other), attempt=2)
    later.write(record_of(other), attempt=3)
    look = run.store.read
    once = iter([None])

    def and_then_write(head: Head) -> bytes:
        for _ in once:
            late.write(record_of(cell), attempt=7)
        return look(head)

    run.store.read = and_then_write  # type: ignore[method-assign]
    prune(run)
    later.write(record_of(other), attempt=9)
    again = RunDirectory(run.root)
    assert (again.attempt(cell.id), again.attempt(other.id)) == (7, 9)


def test_a_record_whose_segment_goes_while_it_is_written_is_written_again(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, plan = write_run(missing=99)
    flush, once = os.fsync, iter([None])

    def and_then_remove(file: int) -> None:
        flush(file)
        for path in run.records_path.glob("*") if list(once) else ():
            path.unlink()

    monkeypatch.setattr(os, "fsync", and_then_remove)
    run.write(record_of(plan.cells[0]))
    assert RunDirectory(run.root).ids() == [plan.cells[0].id]
