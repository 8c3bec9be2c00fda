"""The rules about modules that no linter knows; those about imports stand in pyproject.toml."""

import ast
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "maxk_lab"
PACKAGES = [f"maxk_lab.{init.parent.name}" for init in sorted(ROOT.glob("*/__init__.py"))]
TEXTS = {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}


def test_only_the_command_line_exits():
    exits = re.compile(r"^[^#\n]*(?:\b(?:exit|quit)\(|raise SystemExit)", re.MULTILINE)
    rooms = {path.relative_to(ROOT).parts[0] for path, text in TEXTS.items() if exits.search(text)}
    assert rooms == {"cli"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_lazy_name_is_there_and_hides_no_module(package):
    """Importing a module `report.x` would replace a function `x` that `report` exports lazily."""
    front = import_module(package)
    assert front.__doc__
    folder = ROOT / package.partition(".")[2]
    for exported in dir(front) if hasattr(front, "__getattr__") else ():
        value = getattr(front, exported)
        if (folder / f"{exported}.py").exists():
            assert value is import_module(f"{package}.{exported}")


def test_no_folder_needs_a_table_of_contents():
    sizes = Counter(path.parent for path in TEXTS if path.name != "__init__.py")
    assert not {str(folder): size for folder, size in sizes.items() if size > 16}


def test_docstrings_begin_with_their_subject_or_a_verb():
    words = {
        (path, (ast.get_docstring(node) or "").split(" ")[0])
        for path, text in TEXTS.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    }
    assert len(words) > 500
    assert not [(path, word) for path, word in words if word in ("What", "Of", "As", "By")]


def test_every_file_that_the_architecture_names_is_there():
    text = (ROOT.parent / "docs/architecture.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([a-z_0-9/]+(?:/|\.py))`", text))
    assert len(names) > 30
    rooms = [ROOT, ROOT.parent / "tests", ROOT.parent / "docs"]
    paths = [path for room in rooms for path in (room, *room.rglob("*"))]
    files = {f"/{path.relative_to(ROOT.parent)}{'/' * path.is_dir()}" for path in paths}
    assert not {name for name in names if not any(path.endswith(f"/{name}") for path in files)}
