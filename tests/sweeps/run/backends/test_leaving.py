"""A training left in the middle, as by Ctrl-C: nothing fails, and no number changes."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from sweep_files import Write

from maxk_lab.studies.training.work import measure
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

pytestmark = pytest.mark.slow
TAUGHT = """\
name: taught
seeds: [0]
environment: {name: bandit, arms: 4}
training:
  steps: 400
  batch: 8
  checkpoint_every: 100000
  evaluate: {every: 100, instances: 8, samples: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""


def test_a_training_left_in_the_middle_goes_on_to_the_same_bytes(
    write: Write, run: RunDirectory
) -> None:
    plan = make_plan(load_spec(write(TAUGHT)))

    def ctrl_c(name: str, payload: dict[str, Any]) -> None:
        if payload.get("step", 0) > 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        execute(plan, run, on_event=ctrl_c)
    assert run.ids() == []
    steps: list[int] = []
    execute(plan, run, on_event=lambda _, payload: steps.extend({payload.get("step", 0)} - {0}))
    assert steps[0] > 2
    (unit,) = plan.units
    ((_, alone),) = measure(
        unit.as_dict(), [unit.cells[0].as_dict()], cache=None, event=lambda *_: None
    )
    (record,) = run.records(plan)
    assert record.metrics == {name: alone[name] for name in alone if name != "timings"}
