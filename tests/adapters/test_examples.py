"""The examples run, leave nothing behind, and their trainings help."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    "trainer",
    [
        pytest.param("torchrl", marks=pytest.mark.deep),
        pytest.param("rl4co", marks=pytest.mark.deep),
        pytest.param("verl", marks=pytest.mark.foreign),
    ],
)
def test_training_helps(trainer, tmp_path):
    if find_spec(trainer) is None:
        pytest.skip(f"{trainer} has an environment of its own: make adapters")
    example = EXAMPLES / f"{trainer}_maxk.py"
    done = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    before, after = map(float, re.findall(r"best of 8 (\S+)", done.stdout))
    assert before < after - 0.5
    assert not list(tmp_path.iterdir())
