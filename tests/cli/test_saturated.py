"""A training study in which nothing differs says so, and names no best of equals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import Result
from compared_runs import measured

SWEEP = """\
name: saturated
seeds: [0, 1]
environment: {name: bandit, arms: 2, rewards: binary}
training:
  steps: 40
  batch: 8
  learning_rate: 0.5
  grid: {estimator: maxk, baseline: [centred, subloo], n: 8, k: [2, 4]}
  evaluate: {instances: 8, samples: 16}
tracking: {wandb: disabled}
"""


def test_equal_methods_are_said_to_be_equal(lab: Callable[..., Result], tmp_path: Path) -> None:
    run = measured(tmp_path / "saturated", sweep=SWEEP)
    done = lab("report", str(run.root))
    assert done.exit_code == 0, done.output
    answer = " ".join(done.output.split("In short")[0].split())
    assert "All 4 methods end at pass@16 = 1.00" in answer
    assert "nothing differs there. A smaller K or a harder task would show more." in answer
    assert "best" not in answer
    assert "Holm" not in answer, "nothing was tested"
