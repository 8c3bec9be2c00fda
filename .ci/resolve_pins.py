#!/usr/bin/env python3
"""Check that every pin of constraints.txt resolves for each Python that pyproject.toml names.

pip looks that up for one Python after the other, without installing anything. What it found is kept
in resolved_pins.txt, by a hash of the pins: as long as they stay as they are, nothing is looked up
again, and no network is needed.

    python .ci/resolve_pins.py
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PINS = HERE.parent / "constraints.txt"
PROJECT = HERE.parent / "pyproject.toml"
RESOLVED = HERE / "resolved_pins.txt"
# These have no wheel for any Python: each is a source package of Python alone, built on the spot.
SOURCES = ("antlr4-python3-runtime", "distance")
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def pythons() -> list[str]:
    """Return the Pythons that the project names as its own, as `3.13`."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    matches = [_CLASSIFIER.fullmatch(line) for line in project["classifiers"]]
    return [match[1] for match in matches if match]


def resolved_text() -> str:
    """Return the content of resolved_pins.txt where these very pins were found to resolve."""
    lines = PINS.read_text(encoding="utf-8").splitlines()
    pins = "\n".join(line for line in lines if line and not line.startswith("#"))
    digest = hashlib.sha256(pins.encode()).hexdigest()
    return f"sha256 of the pins: {digest}\nresolve for Python: {' '.join(pythons())}\n"


def missing(python: str, folder: str) -> str:
    """Return why the pins do not resolve for a Python; empty where they do."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--retries", "1", "--only-binary", ":all:"]
    command += ["--no-binary", ",".join(SOURCES), "--python-version", python]
    command += ["--target", folder, "-r", str(PINS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    if "Retrying (" in done.stderr:
        return "the package index cannot be reached, so it is not known whether the pins resolve"
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return "\n".join(errors) or done.stderr[-2000:]


def main() -> int:
    """Look the pins up unless that was done, and keep what was found. Returns the exit code."""
    if RESOLVED.exists() and RESOLVED.read_text(encoding="utf-8") == resolved_text():
        print(f"the pins resolve for Python {', '.join(pythons())} (looked up before)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        reasons = {python: missing(python, folder) for python in pythons()}
    for python, why in reasons.items():
        print(f"Python {python}: {why or 'every pin resolves'}", file=sys.stderr)
    if any(reasons.values()):
        return 1
    RESOLVED.write_text(resolved_text(), encoding="utf-8")
    print(f"commit {RESOLVED.relative_to(HERE.parent)}, so that they are not looked up again")
    return 0


if __name__ == "__main__":
    sys.exit(main())
