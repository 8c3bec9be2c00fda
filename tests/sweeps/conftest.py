"""Fixtures of the sweep tests: small sweep files, and stand-ins for measuring that workers can import."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Workers get this process's sys.path, so that they find `fake_measures`.
sys.path.insert(0, str(Path(__file__).parent))

SMALL = """\
name: small
seeds: [0, 1]
environment: {name: bandit, arms: 4}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: [none, centred], n: [4, 8], k: 2}
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], str]:
    """Writes a sweep file; messages name it `sweep.yaml`, for the tests run in its folder."""
    monkeypatch.chdir(tmp_path)

    def write_file(text: str | bytes) -> str:
        Path("sweep.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return "sweep.yaml"

    return write_file


@pytest.fixture
def small(write: Callable[[str | bytes], str]) -> str:
    """The path of a sweep of 2 seeds × 4 points."""
    return write(SMALL)
