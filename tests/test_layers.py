"""The rules about modules that no linter knows; those about imports stand in pyproject.toml."""

from __future__ import annotations

import ast
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "maxk_lab"
PACKAGES = [f"maxk_lab.{init.parent.name}" for init in sorted(ROOT.glob("*/__init__.py"))]


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def test_only_the_command_line_exits() -> None:
    exits = re.compile(r"^[^#\n]*(?:\b(?:exit|quit)\(|raise SystemExit)", re.MULTILINE)
    texts = {path: path.read_text(encoding="utf-8") for path in modules()}
    found = {path.relative_to(ROOT).parts[0] for path, text in texts.items() if exits.search(text)}
    assert found == {"cli"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_lazy_name_is_there_and_hides_no_module(package: str) -> None:
    """Importing a module `report.x` would replace a function `x` that `report` exports lazily."""
    front = import_module(package)
    assert front.__doc__
    folder = ROOT / package.partition(".")[2]
    for exported in dir(front) if hasattr(front, "__getattr__") else ():
        value = getattr(front, exported)
        if (folder / f"{exported}.py").exists():
            assert value is import_module(f"{package}.{exported}")


def test_no_folder_needs_a_table_of_contents() -> None:
    held = Counter(path.parent for path in modules() if path.name != "__init__.py")
    long = {folder.relative_to(ROOT).as_posix(): n for folder, n in held.items() if n > 16}
    assert not long


def test_docstrings_begin_with_their_subject_or_a_verb() -> None:
    wrong = [
        f"{path}: {words}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and (words := (ast.get_docstring(node) or "").partition("\n")[0]).split(" ")[0]
        in ("What", "Of", "As", "By")
    ]
    assert not wrong


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (ROOT.parent / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_0-9/]+(?:/|\.py))`", text))
    assert len(named) > 30
    paths = [
        path for room in ("maxk_lab", "tests", "docs") for path in (ROOT.parent / room).rglob("*")
    ]
    there = {f"/{path.relative_to(ROOT.parent)}{'/' * path.is_dir()}" for path in paths}
    there |= {"/maxk_lab/", "/docs/", "/tests/"}
    assert not {one for one in named if not any(path.endswith(f"/{one}") for path in there)}
