"""The libraries inside the page: as their projects published them, and part of the package."""

from __future__ import annotations

import hashlib
import json
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from fetch_libraries import FOLDER, LIST

from maxk_lab.reports.formats.html.page import HERE, LICENCES, SCRIPTS, STYLES, text

ROOT = Path(__file__).parents[4]


def test_they_are_the_files_that_were_fetched() -> None:
    packages = json.loads(LIST.read_text(encoding="utf-8"))
    listed = {name: told for package in packages for name, told in package["files"].items()}
    for name, told in listed.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == told["sha256"]
    there = {path.name for path in FOLDER.iterdir()}
    assert there == {*listed, "LICENSE-vega", "files.json", "README.md"}
    told = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{one['package']}`](" in told for one in packages)
    assert all(f" {one['version']} " in told for one in packages)


def test_all_files_of_the_page_are_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["maxk_lab.reports.formats.html"]
    folder = Path(str(HERE))
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    other = [name for name in files if not name.endswith((".py", ".pyc"))]
    assert len(other) > 8
    assert [name for name in other if not any(fnmatch(name, each) for each in patterns)] == []


@pytest.mark.parametrize("name", [*SCRIPTS, *STYLES, *LICENCES])
def test_none_ends_its_own_element_or_names_another_file(name: str) -> None:
    content = text(name)
    assert content
    assert "\r" not in content
    assert not any(
        end in content.lower() for end in ("</script", "</style", "<!--", "sourcemappingurl")
    )
