"""The Pythons that the project is for: the pins resolve for them, and `make setup` takes them."""

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import resolve_pins

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
OFFLINE = "WARNING: Retrying (Retry(total=0)) after connection broken\nERROR: from versions: none"
NO_WHEEL = "ERROR: No matching distribution found for ray==1.0.0"


def test_pins_are_looked_up_once_for_every_python(tmp_path, monkeypatch, capsys):
    resolved, pins, stderr = tmp_path / "resolved.txt", tmp_path / "constraints.txt", [""]
    asked = []

    def run(command, **_):
        asked.append(command[command.index("--python-version") + 1])
        failed = bool(stderr[0]) and asked[-1] == "3.14"
        return SimpleNamespace(returncode=int(failed), stderr=stderr[0] * failed)

    shutil.copy(resolve_pins.RESOLVED, resolved)
    for name, value in (("HERE", tmp_path / ".ci"), ("RESOLVED", resolved)):
        monkeypatch.setattr(resolve_pins, name, value)
    monkeypatch.setattr(resolve_pins.subprocess, "run", run)
    assert resolve_pins.main() == 0
    assert "3.14 (looked up before)" in capsys.readouterr().out
    assert asked == [], "the pins of the repository are known to resolve"
    pins.write_text("ray==1.0.0\n")
    monkeypatch.setattr(resolve_pins, "PINS", pins)
    before = resolved.read_text()
    for stderr[0], reason in (
        (NO_WHEEL, NO_WHEEL),
        (OFFLINE, "the package index cannot be reached"),
    ):
        assert resolve_pins.main() == 1
        errors = capsys.readouterr().err
        assert f"Python 3.14: {reason}" in errors
        assert "Python 3.13: every pin resolves" in errors
        assert resolved.read_text() == before
    asked.clear()
    stderr[0] = ""
    assert [resolve_pins.main(), resolve_pins.main()] == [0, 0]
    assert asked == resolve_pins.pythons() == PYTHONS


@pytest.mark.parametrize(
    ("version", "line"), [((9, 9), "creating .venv"), ((3, 10), "3.11 or newer")]
)
def test_setup_takes_every_python_that_is_new_enough(tmp_path, version, line):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    # Answers like a Python of this version, and makes no environment.
    python = tmp_path / "python9"
    python.write_text(
        '#!/bin/sh\n[ "$1" = -c ] || exit 1\n'
        f'exec python3 -c "import sys; sys.version_info = {version}; $2"\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "setup", f"PYTHON={python}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode != 0
    assert line in done.stdout + done.stderr
