"""Tracebacks in records name no folder of the machine that they were written on."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
import yaml

from maxk_lab.execution.provenance import without_places
from maxk_lab.sweep_file.vary import short_names


def test_files_are_named_from_where_they_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        yaml.safe_load("a: [")
    except yaml.YAMLError:
        told = without_places(traceback.format_exc())
    assert 'File "yaml/__init__.py", line' in told
    assert str(Path(yaml.__file__).parents[1]) not in told
    assert "expected the node content" in told
    home = tmp_path / "home" / "ada"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "work")
    told = without_places(f'File "{home}/work/fn.py", line 3\nno {home}/data.npz, no /usr/x')
    assert told == 'File "fn.py", line 3\nno ~/data.npz, no /usr/x'
    told = without_places("no /scratch/ada/x/data.npz; see https://a.org/b/c/d, /usr/lib/x/y.so")
    assert told == "no data.npz; see https://a.org/b/c/d, /usr/lib/x/y.so"


def test_paths_have_short_names_that_tell_them_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = str(tmp_path / "models" / "tiny")
    elsewhere = ["/home/ada/a/last.ckpt", "/home/ada/b/last.ckpt"]
    assert short_names([inside, "../x", *elsewhere, "/y/z"]) == {
        inside: "models/tiny",
        "../x": "../x",
        "/home/ada/a/last.ckpt": "a/last.ckpt",
        "/home/ada/b/last.ckpt": "b/last.ckpt",
        "/y/z": "z",
    }


@pytest.mark.parametrize("home", ["/", ""])
def test_a_home_that_is_none_changes_nothing(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr("sys.path", ["", "/"])
    assert without_places("1/2, /usr/x") == "1/2, /usr/x"
