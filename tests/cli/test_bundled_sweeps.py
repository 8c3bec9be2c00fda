"""The sweep in a bundle that names a module which is not there: said of a file that is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sweep_files import Write

from maxk_lab.cli.runs import planned
from maxk_lab.errors import SpecError
from maxk_lab.sweeps.run.bundle import write_bundle
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

SWEEP = """\
name: own
seeds: [0]
environment: {name: toy_llm, rewards: ["rewards_of_mine:short"]}
gradient:
  instances: 1
  pool: 16
  grid: {estimator: maxk, baseline: none, n: 4, k: 2}
"""
REWARD = """\
def short(prompts, completions, **columns):
    return [-float(len(one)) for one in completions]
"""


@pytest.fixture
def bundle(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle of a run without records, whose reward is gone."""
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "rewards_of_mine.py"
    module.write_text(REWARD)
    run = RunDirectory("elsewhere/own")
    run.write_spec(load_spec(write(SWEEP)))
    path = write_bundle(run, Path("own.zip")).path
    module.unlink()
    sys.modules.pop("rewards_of_mine", None)
    return path


def test_a_plan_names_the_sweep_in_the_bundle(bundle: Path) -> None:
    with pytest.raises(SpecError, match="rewards_of_mine") as caught:
        planned(bundle, None, Path("results"))
    assert str(caught.value).startswith("own.zip/spec.yaml:")
    assert not Path("results").exists()
