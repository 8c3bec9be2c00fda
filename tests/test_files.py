"""Files are whole or absent: an old one survives a writer that fails; leftovers can be removed."""

import os
from pathlib import Path

import pytest

from maxk_lab.environments.catalogue import hash_of_data
from maxk_lab.errors import LabError
from maxk_lab.files import (
    PARTIAL,
    hash_of_file,
    remove_partials,
    resolved_file,
    save_atomically,
    write_atomically,
)
from maxk_lab.installed import look_beside
from maxk_lab.policies.catalogue import folder_problem


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    folder = tmp_path / "folder"
    path = folder / "a.bin"
    for data in (b"older", b"old"):
        write_atomically(path, data)

    def fail(file):
        file.write(b"ha")
        file.flush()
        assert path.read_bytes() == b"old"
        assert [partial.read_bytes() for partial in folder.glob(f"{PARTIAL}*")] == [b"ha"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_atomically(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(folder) == ["a.bin"]
    (folder / f"{PARTIAL}a.bin-1").write_bytes(b"ha")
    remove_partials(folder)
    assert os.listdir(folder) == ["a.bin"]


def test_a_file_is_searched_here_beside_the_sweep_and_at_home(tmp_path, monkeypatch):
    here, sweep, home = (tmp_path / name for name in ("here", "my sweeps", "home"))
    for folder in (here, sweep, home):
        write_atomically(folder / f"{folder.name}.tsp", b"x")
        write_atomically(folder / "everywhere.tsp", folder.name.encode())
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MAXK_LAB_SWEEP_FOLDER", "")
    look_beside(sweep / "a.yaml")
    places = {
        "here.tsp": "here.tsp",
        "everywhere.tsp": "everywhere.tsp",
        "my sweeps.tsp": str(sweep / "my sweeps.tsp"),
        "~/home.tsp": str(home / "home.tsp"),
    }
    assert {name: resolved_file(name, "data")["path"] for name in places} == places
    with pytest.raises(LabError) as caught:
        resolved_file("$HOME/home.tsp", "data")
    assert str(caught.value) == f"$HOME/home.tsp does not exist (looked in {here} and {sweep})"


@pytest.mark.parametrize("path", ["x" * 300, "x" * 5_000, "a\0b", "a/" * 3_000])
def test_an_impossible_path_is_refused_in_a_line(path):
    for read in (hash_of_file, lambda path: hash_of_data(path, "tsp")):
        with pytest.raises(LabError) as caught:
            read(path)
        assert len(str(caught.value)) < 300
        assert str(caught.value).isprintable()
    assert folder_problem(Path(path)) is not None
