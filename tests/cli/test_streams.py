"""Streams that are full or read by nobody end a command in a line, or not at all."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = f'{sys.executable} -c "from maxk_lab.cli import main; main()"'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("list baselines >/dev/full", 2, "error: No space left on device\n"),
        ("list baselines 2>&1 | true", 0, ""),
        ("list baselines | head -1", 0, ""),
        ("list baselines >&- 2>&-", 0, ""),
    ],
)
def test_a_stream_that_takes_nothing_leaves_no_traceback(words: str, code: int, said: str) -> None:
    command = ["bash", "-c", f"{PROGRAM} {words}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (code, said)
