"""Runs are removed and renamed at one stroke, with nobody at work, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from written_runs import WriteRun

from maxk_lab.errors import LabError
from maxk_lab.files import StorageError
from maxk_lab.sweeps.run.bundles.write import write_bundle
from maxk_lab.sweeps.run.find import find_runs
from maxk_lab.sweeps.run.leases import Driver, registered
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.upkeep import moving
from maxk_lab.sweeps.upkeep.moving import own_run, remove, remove_leftovers, rename

RESULTS = Path("results")


def names() -> list[str]:
    return sorted(path.name for path in RESULTS.iterdir())


def test_a_removed_run_is_gone(write_run: WriteRun) -> None:
    run, _ = write_run("one")
    write_run("two")
    remove(run)
    assert names() == ["two"]


def test_what_a_link_in_a_run_leads_to_stays(write_run: WriteRun, tmp_path: Path) -> None:
    run, _ = write_run("one")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    (run.root / "linked").symlink_to(tmp_path / "precious")
    remove(run)
    assert (tmp_path / "precious" / "file").read_text() == "mine"


def test_a_removal_that_was_killed_leaves_no_run(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = write_run("one")
    with monkeypatch.context() as killed:
        killed.setattr(moving.shutil, "rmtree", lambda *a, **b: None)
        remove(run)
    assert find_runs(RESULTS) == []
    (left,) = names()
    assert left.startswith(".removed-one")
    assert [path.name for path in remove_leftovers(RESULTS)] == [left]
    assert names() == []


@pytest.mark.parametrize("change", [remove, lambda run: rename(run, "new")])
def test_a_run_in_which_somebody_works_stays(write_run: WriteRun, change: object) -> None:
    run, _ = write_run("one")
    with Driver(run.root, spec_hash=""), pytest.raises(LabError, match=r"in use by another run"):
        change(run)  # type: ignore[operator]
    assert len(run.ids()) == 8


def test_a_run_with_jobs_on_a_cluster_stays(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = write_run("one")
    (run.root / "jobs").mkdir()
    monkeypatch.setattr(moving, "any_may_run", lambda run: True)
    with pytest.raises(LabError, match="maxk-lab cancel results/one"):
        remove(run)
    assert names() == ["one"]


@pytest.mark.parametrize("name", ["elsewhere", "../elsewhere", "link", ".", "none", ""])
def test_only_what_lies_in_results_is_touched(
    write_run: WriteRun, tmp_path: Path, name: str
) -> None:
    run, _ = write_run("one")
    shutil.copytree(run.root, tmp_path / "elsewhere")
    (RESULTS / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LabError):
        own_run(name, RESULTS)


def test_a_run_is_named_by_its_name_or_folder(write_run: WriteRun) -> None:
    write_run("one")
    for name in ("one", "one/", "results/one", os.path.abspath("results/one")):
        assert own_run(name, RESULTS).root.resolve() == (RESULTS / "one").resolve()


def test_a_renamed_run_is_called_so_everywhere(write_run: WriteRun) -> None:
    run, plan = write_run("one")
    os.utime(run.spec_path, (5, 5))
    assert rename(run, "two") == RESULTS / "two"
    assert names() == ["two"]
    there = RunDirectory(RESULTS / "two")
    assert there.spec() == plan.spec.model_copy(update={"name": "two"})
    assert there.spec_path.stat().st_mtime == 5
    assert len(there.records(plan)) == 8
    assert registered(there.root) == []


def test_a_beat_after_the_move_makes_no_folder_anew(write_run: WriteRun) -> None:
    run, _ = write_run("one")
    with Driver(run.root, spec_hash="") as driver:
        driver.move(RESULTS / "two")
        driver.beat()
    assert names() == ["two"]


@pytest.mark.parametrize("name", ["two", "", "a b", "../x", "x/y", ".hidden"])
def test_a_name_that_is_none_or_taken_is_refused(write_run: WriteRun, name: str) -> None:
    run, _ = write_run("one")
    write_run("two")
    with pytest.raises(LabError):
        rename(run, name)
    assert names() == ["one", "two"]


def test_a_run_without_a_spec_can_be_renamed_and_removed(write_run: WriteRun) -> None:
    run, _ = write_run("one")
    run.spec_path.unlink()
    assert rename(own_run("one", RESULTS), "two") == RESULTS / "two"
    remove(own_run("two", RESULTS))
    assert names() == []


def test_a_folder_that_cannot_be_moved_stays(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError(13, "not allowed")

    run, _ = write_run("one")
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StorageError, match="not allowed"):
        rename(run, "two")
    assert len(run.ids()) == 8


def test_bundles_are_removed_and_renamed(write_run: WriteRun) -> None:
    run, _ = write_run("one")
    write_bundle(run, RESULTS / "handed.zip")
    assert rename(own_run("handed.zip", RESULTS), "other") == RESULTS / "other.zip"
    remove(own_run("other.zip", RESULTS))
    assert names() == ["one"]
