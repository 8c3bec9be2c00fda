"""The examples of adapters that need no environment of their own run, and training helps."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, folder):
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return done.stdout


@pytest.mark.slow
def test_torchrl(tmp_path):
    before, after = map(float, re.findall(r"best of 8 (\S+)", run("torchrl_maxk.py", tmp_path)))
    assert 200 < before < after - 100


@pytest.mark.slow
def test_rl4co(tmp_path):
    told = re.search(r"(\S+) before, (\S+) after", run("rl4co_maxk.py", tmp_path))
    assert 2.5 < float(told[2]) < float(told[1]) - 0.5
