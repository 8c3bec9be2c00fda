"""Functions that a sweep names: looked up without an import, imported by the run alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from maxk_lab.environments.functions import check_function, load_function
from maxk_lab.environments.language.tasks import REWARDS
from maxk_lab.errors import LabError

TRAP = "raise SystemExit('imported')\n"
OURS = {"fn", "pack", "pack.inner", "a", "a.b"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is on the path from the first load on, for this test alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for path in (
        "fn.py",
        "pack/__init__.py",
        "pack/inner/__init__.py",
        "pack/inner/fn.py",
        "a/b.py",
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TRAP)
    return tmp_path


@pytest.mark.parametrize(
    "path", ["fn:f", "pack.inner.fn:f", "a.b:f", "math:sqrt", "_lsprof:x", "exact_match"]
)
def test_a_module_that_is_there_is_left_to_the_import(folder: Path, path: str) -> None:
    check_function(path, REWARDS)
    assert not OURS & set(sys.modules)
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere:f", r"No module named 'nowhere' \(looked for among the installed packages, in"),
        ("fn.more:f", "No module named 'fn.more'; 'fn' is not a package"),
        ("a.c:f", "No module named 'a.c'"),
        ("../fn:length", "no path of the form package.module:name"),
        (":length", "no path of the form"),
        ("fn:", "no path of the form"),
        ("fn:a.b", "no path of the form"),
        ("__main__:f", "put the function into a module, a file of its own"),
        ("exact_mtch", r"did you mean exact_match\?.*or a dotted path package.module:name"),
    ],
)
def test_what_is_not_there_is_said(folder: Path, path: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        check_function(path, REWARDS)
    assert not OURS & set(sys.modules)


@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        ("exits", "import sys; sys.exit(0)", "importing exits raised SystemExit: 0$"),
        ("closes", "raise GeneratorExit", "importing closes raised GeneratorExit: no message$"),
        ("stops", "raise KeyboardInterrupt('mine')", "reward function 'stops:reward': mine$"),
        ("odd", "raise type('Odd', (BaseException,), {})('x\\ny')", "raised Odd: x$"),
        ("lacks", "import nowhere", "No module named 'nowhere'"),
        ("wrong", "def reward(:", "importing wrong raised SyntaxError"),
        ("classy", "reward = type('R', (), {})", "must be a function of texts, got the class R$"),
        ("three", "reward = 3", "must be a function of texts, got 3$"),
        ("forgets", "del reward", "has no attribute 'reward'$"),
    ],
)
def test_a_module_that_breaks_costs_its_import(folder, module, source, reason) -> None:
    (folder / f"{module}.py").write_text(f"def reward(): ...\n{source}\n")
    with pytest.raises(LabError, match=reason):
        load_function(f"{module}:reward", REWARDS, "of texts")


def test_the_folder_is_open_from_the_first_load_on_and_hides_no_library(folder: Path) -> None:
    (folder / "own_reward.py").write_text("def reward():\n    import own_sibling\n    return 7\n")
    (folder / "own_sibling.py").write_text("")
    (folder / "pytest_timeout.py").write_text(TRAP)
    assert load_function("own_reward:reward", REWARDS, "")() == 7
    assert sys.path[-1] == str(folder)
    with pytest.raises(LabError, match="'pytest_timeout' has no attribute 'f'"):
        load_function("pytest_timeout:f", REWARDS, "")
