"""Links in somebody's results lead no writing to other places."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.events import Teller
from maxk_lab.sweeps.run.leases import Driver


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.txt"
    path.write_text("kept")
    return path


@pytest.mark.parametrize("name", ["cells", "cache", "damaged", "drivers", "leases", "wandb"])
def test_no_folder_of_a_run_is_a_link_but_its_own(tmp_path: Path, name: str) -> None:
    run, other, linked = tmp_path / "run", tmp_path / "other", tmp_path / "linked"
    run.mkdir()
    other.mkdir()
    linked.symlink_to(run)
    with Driver(linked, spec_hash=""):
        assert list((run / "drivers").iterdir())
    shutil.rmtree(run / name, ignore_errors=True)
    (run / name).symlink_to(other)
    with pytest.raises(LabError, match=f"{name} is a symbolic link"), Driver(run, spec_hash=""):
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
