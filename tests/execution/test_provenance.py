"""The checkout of the lab as records tell it: results that lie in it are no code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from maxk_lab.execution.provenance import _git


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package of a checkout with results in it, all committed."""
    for name in ("maxk_lab/__init__.py", "maxk_lab/results/reading.py", "results/golden/report.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "All")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path / "maxk_lab"


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        ("results/golden/report.md", False),
        ("results/new/spec.yaml", False),
        ("maxk_lab/results/reading.py", True),
        ("maxk_lab/new.py", True),
        ("experiments/results/sweep.yaml", True),
        ("setup.py", True),
    ],
)
def test_only_code_makes_a_checkout_dirty(package: Path, name: str, dirty: bool) -> None:
    told = _git(package)
    assert told is not None
    assert told["dirty"] is False
    path = package.parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("2\n")
    assert _git(package) == {"commit": told["commit"], "dirty": dirty}
