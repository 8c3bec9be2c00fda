"""Links in somebody's results lead no writing to other places."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.events import Teller
from maxk_lab.sweeps.run.lock import locked


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.txt"
    path.write_text("kept")
    return path


def test_the_lock_is_no_link(tmp_path: Path, theirs: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").symlink_to(theirs)
    with pytest.raises(LabError, match="must be a regular file"), locked(run):
        pass
    assert theirs.read_text() == "kept"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_the_lock_is_a_file(tmp_path: Path, make) -> None:
    make(tmp_path / ".lock")
    with pytest.raises(LabError, match="must be a regular file"), locked(tmp_path):
        pass


def test_the_lock_names_its_process_while_it_is_held(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path):
            assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
            with pytest.raises(LabError, match=f"process {os.getpid()}"), locked(tmp_path):
                pass
        assert (tmp_path / ".lock").read_text() == ""


@pytest.mark.parametrize("name", ["cells", "cache", "damaged", "wandb"])
def test_no_folder_of_a_run_is_a_link_but_its_own(tmp_path: Path, name: str) -> None:
    run, other, linked = tmp_path / "run", tmp_path / "other", tmp_path / "linked"
    run.mkdir()
    other.mkdir()
    linked.symlink_to(run)
    with locked(linked):
        assert (run / ".lock").exists()
    (run / name).symlink_to(other)
    with pytest.raises(LabError, match=f"{name} is a symbolic link"), locked(run):
        pass
    assert list(other.iterdir()) == []


def test_events_are_written_to_a_file_only(tmp_path: Path, theirs: Path) -> None:
    told: list[str] = []
    for name, make in (("link", lambda path: path.symlink_to(theirs)), ("pipe", os.mkfifo)):
        make(tmp_path / name)
        Teller(tmp_path / name, lambda event, payload: told.append(event))("run_started")
    assert told == ["run_started"] * 2
    assert theirs.read_text() == "kept"
    assert (tmp_path / "link").is_symlink()
