"""The Pythons that the project is for: the pins resolve for them, and `make setup` takes them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import resolve_pins

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
OFFLINE = "WARNING: Retrying (Retry(total=0)) after connection broken\nERROR: from versions: none"
NO_WHEEL = "ERROR: No matching distribution found for ray==1.0.0"


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that resolves the pins, which keeps what it finds elsewhere."""
    kept = tmp_path / ".ci"
    kept.mkdir()
    shutil.copy(resolve_pins.RESOLVED, kept)
    monkeypatch.setattr(resolve_pins, "HERE", kept)
    monkeypatch.setattr(resolve_pins, "RESOLVED", kept / "resolved_pins.txt")
    return resolve_pins


def answer(monkeypatch: pytest.MonkeyPatch, pins: ModuleType, bad: str, stderr: str) -> list[str]:
    """Have pip fail for one Python, with that text; the Pythons that it is asked about."""
    asked: list[str] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        python = command[command.index("--python-version") + 1]
        asked.append(python)
        failed = python == bad
        return SimpleNamespace(returncode=int(failed), stderr=stderr if failed else "")

    monkeypatch.setattr(pins.subprocess, "run", run)
    return asked


def test_the_pins_as_they_are_were_found_to_resolve(pins, monkeypatch, capsys):
    asked = answer(monkeypatch, pins, bad="", stderr="")
    assert pins.pythons() == PYTHONS
    assert pins.main() == 0
    assert asked == []
    assert "3.14 (looked up before)" in capsys.readouterr().out


def test_other_pins_are_looked_up_once_for_every_python(pins, monkeypatch, tmp_path):
    (tmp_path / "constraints.txt").write_text("ray==1.0.0\n")
    monkeypatch.setattr(pins, "PINS", tmp_path / "constraints.txt")
    asked = answer(monkeypatch, pins, bad="", stderr="")
    assert [pins.main(), pins.main()] == [0, 0]
    assert asked == PYTHONS


@pytest.mark.parametrize(
    ("stderr", "said"), [(NO_WHEEL, NO_WHEEL), (OFFLINE, "the package index cannot be reached")]
)
def test_a_pin_that_does_not_resolve_is_told(pins, monkeypatch, tmp_path, capsys, stderr, said):
    (tmp_path / "constraints.txt").write_text("ray==1.0.0\n")
    monkeypatch.setattr(pins, "PINS", tmp_path / "constraints.txt")
    answer(monkeypatch, pins, bad="3.14", stderr=stderr)
    before = pins.RESOLVED.read_text()
    assert pins.main() == 1
    told = capsys.readouterr().err
    assert f"Python 3.14: {said}" in told
    assert "Python 3.13: every pin resolves" in told
    assert pins.RESOLVED.read_text() == before


@pytest.mark.parametrize(("enough", "said"), [(True, "creating .venv"), (False, "3.11 or newer")])
def test_setup_takes_every_python_that_is_new_enough(tmp_path, enough, said):
    """`make setup` asks a Python itself: one of tomorrow will do, as one of yesterday will not."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    later = tmp_path / "python9"
    version = (9, 9) if enough else (3, 10)
    # Runs what make asks for as if it were of that version; makes no environment.
    later.write_text(
        '#!/bin/sh\n[ "$1" = -c ] || exit 1\n'
        f'exec python3 -c "import sys; sys.version_info = {version}; $2"\n'
    )
    later.chmod(0o755)
    done = subprocess.run(
        ["make", "setup", f"PYTHON={later}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode != 0
    assert said in done.stdout + done.stderr
