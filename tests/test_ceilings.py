"""The check of how large the rooms are counts what it should, and fails above a ceiling."""

from __future__ import annotations

import subprocess
from pathlib import Path

import ceilings
import pytest

FILES = {
    "maxk_lab/one.py": 2,
    "maxk_lab/policies/one.py": 3,
    "maxk_lab/environments/deep/one.py": 4,
    "maxk_lab/report/page.js": 5,
    "maxk_lab/report/libraries/page.js": 50,
    "maxk_lab/report/answer.j2": 6,
    "tests/report/test_one.py": 7,
    ".ci/one.py": 8,
    "docs/one.py": 9,
    "docs/one.md": 90,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with files of so many lines."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for name, lines in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n" * lines)
    return tmp_path


def test_every_line_is_counted_in_its_room(checkout: Path) -> None:
    sizes, files = ceilings.measured(checkout)
    # Each line is a module's share of two nodes, a name and its context, in an expression.
    assert +sizes == {
        "top level": 2,
        "environments + policies": 7,
        "package": 9,
        "files, package": 3,
        "AST nodes, package": 3 + 3 * 9,
        "page of a report": 5,
        "templates": 6,
        "tests": 7,
        "AST nodes, tests": 1 + 3 * 7,
        "benchmarks + docs + .ci": 17,
    }
    assert (files["package"], files["benchmarks + docs + .ci"]) == (3, 2)


def test_what_is_above_its_ceiling_or_has_none_fails(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ceilings.main(checkout) == 0
    for name, text, said in [
        ("maxk_lab/report/answer.j2", "a" * 121, "1 too many"),
        ("maxk_lab/cellar/one.py", "a\n", "cellar"),
    ]:
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text(text)
        assert ceilings.main(checkout) == 1
        assert said in capsys.readouterr().out
        (checkout / name).unlink()
