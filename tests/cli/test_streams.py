"""Streams that are closed, full or read by nobody end a command in a line, or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TINY = """\
name: tiny
seeds: [0]
environment: {name: bandit, arms: 4}
gradient: {instances: 2, pool: 8, grid: {estimator: maxk, baseline: none, n: 4, k: 2}}
tracking: {wandb: disabled}
"""
PROGRAM = f'{sys.executable} -c "from maxk_lab.cli import main; main()"'


def shell(words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", words.replace("maxk-lab", PROGRAM)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", ["list baselines", "list baselines --json", "--help"])
def test_a_full_stdout_is_told_in_a_line(words: str, tmp_path: Path) -> None:
    done = shell(f"maxk-lab {words} >/dev/full", tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", [">&- 2>&-", "2>&1 | true", "| head -1", "<&- >&- 2>&-"])
def test_a_stream_that_leads_nowhere_is_no_fault(words: str, tmp_path: Path) -> None:
    done = shell(f"maxk-lab list baselines {words}", tmp_path)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.slow
def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    assert shell("maxk-lab run tiny.yaml --json >&- 2>&- <&-", tmp_path).returncode == 0
    done = shell("maxk-lab run tiny.yaml", tmp_path)
    assert "0 measured, 1 already done, 0 failed" in done.stderr
    assert "damaged" not in done.stderr
