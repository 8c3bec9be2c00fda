"""Tracebacks in records name no folder of the machine that they were written on."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
import yaml

from maxk_lab.sweeps.run.places import without_places


def test_files_are_named_from_where_modules_are_found(tmp_path: Path) -> None:
    try:
        yaml.safe_load("a: [")
    except yaml.YAMLError:
        told = without_places(traceback.format_exc())
    assert 'File "yaml/__init__.py", line' in told
    assert str(Path(yaml.__file__).parents[1]) not in told
    assert "expected the node content" in told


def test_own_files_and_home_are_named_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = tmp_path / "home" / "ada", tmp_path / "home" / "ada" / "work"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    told = without_places(f'File "{work}/fn.py", line 3\nno {home}/data.npz, no /usr/x')
    assert told == 'File "fn.py", line 3\nno ~/data.npz, no /usr/x'


@pytest.mark.parametrize("home", ["/", ""])
def test_a_home_that_is_none_changes_nothing(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr("sys.path", ["", "/"])
    assert without_places("1/2, /usr/x") == "1/2, /usr/x"
