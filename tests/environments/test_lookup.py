"""Paths such as `package.module:name` are looked up in the source, and nothing is imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from maxk_lab.environments.lookup import no_function
from maxk_lab.errors import LabError

TRAP = "raise SystemExit('imported')\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes modules into the current folder, each with a trap behind its names."""
    monkeypatch.chdir(tmp_path)

    def write(source: str, path: str = "fn.py") -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source + "\n" + TRAP, encoding="utf-8")

    yield write
    assert not {"fn", "a", "a.b"} & set(sys.modules)


@pytest.mark.parametrize(
    "source",
    [
        "def f(p, c, **columns): return []",
        "async def f(): ...",
        "f = lambda p, c, **columns: []",
        "f = make()",
        "from os import path as f",
        "import os as f",
        "if x:\n    def f(): ...\nelse:\n    f = None",
        "f = None\ndef f(): ...",
        "try:\n    from fast import f\nexcept ImportError:\n    f = None",
        "from os.path import *",
        "def __getattr__(name): ...",
        "globals()['f'] = print",
        "def set():\n    global f\n    f = print",
        "class Model: ...\nf = Model()",
        "@instance\nclass f: ...",
        "class f(metaclass=Function): ...",
        "with open('x') as f: ...",
        "(f := print)",
        "for f in (print, repr): ...",
        "f, g = print, repr",
    ],
)
def test_what_may_be_a_function_is_left_to_the_import(write, source: str) -> None:
    write(source)
    assert no_function("fn:f") is None


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class f: ...", "the class f"),
        ("f = 3", "3"),
        ("f = {'a': [1, 2]}", "{'a': [1, 2]}"),
        ("f = 'a text'", "'a text'"),
    ],
)
def test_what_is_plainly_none_is_told(write, source: str, found: str) -> None:
    write(source)
    assert no_function("fn:f") == found


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("fn:lenght", r"module 'fn' has no attribute 'lenght' \(did you mean length\?\)"),
        ("fn:inner", "module 'fn' has no attribute 'inner'"),
        ("nowhere:f", "No module named 'nowhere'"),
        ("fn.more:f", "No module named 'fn.more'; 'fn' is not a package"),
        ("a.c:f", "No module named 'a.c'"),
        ("a:f", "module 'a' has no attribute 'f'"),
        ("broken:f", r"its source has an error: .*broken.py, line 1"),
        ("nul:f", "its source has an error"),
        ("latin:f", "latin.py cannot be read"),
        ("../fn:length", "no path of the form package.module:name"),
        (":length", "no path of the form"),
        ("fn:", "no path of the form"),
        ("fn:a.b", "no path of the form"),
        ("math:nothing", "module 'math' has no attribute 'nothing'"),
    ],
)
def test_what_is_not_there_is_told(write, tmp_path: Path, path: str, message: str) -> None:
    write("def length():\n    inner = 1")
    write("def f(): ...", "a/b.py")
    write("def f(:", "broken.py")
    write("f = 1 \0", "nul.py")
    (tmp_path / "latin.py").write_bytes("f = 'é'".encode("latin-1"))
    with pytest.raises(LabError, match=message):
        no_function(path)


def test_packages_on_the_way_are_not_imported(write) -> None:
    write("", "pack/__init__.py")
    write("", "pack/inner/__init__.py")
    write("def f(): ...", "pack/inner/fn.py")
    write("def f(): ...", "a/b.py")
    assert no_function("pack.inner.fn:f") is None
    assert no_function("a.b:f") is None
    assert not {"pack", "pack.inner"} & set(sys.modules)


def test_modules_without_source_are_left_to_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test may have imported it.
    monkeypatch.delitem(sys.modules, "_lsprof", raising=False)
    assert no_function("_lsprof:anything") is None


def test_what_is_imported_anyway_is_looked_at() -> None:
    assert no_function("math:pi") == "3.141592653589793"
    assert no_function("pathlib:Path") == "the class Path"
    assert no_function("math:sqrt") is None
    assert no_function("os.path:join") is None


def test_a_library_hides_a_file_of_the_current_folder(write) -> None:
    write("def f(): ...", "pytest_timeout.py")
    with pytest.raises(LabError, match="'pytest_timeout' has no attribute 'f'"):
        no_function("pytest_timeout:f")
