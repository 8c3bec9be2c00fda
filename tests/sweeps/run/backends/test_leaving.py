"""Units left in the middle, as before the end of a job: nothing fails, and no number changes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from sweep_files import Write

from maxk_lab.studies.training.work import measure as measure_training
from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.backends.backend import Event
from maxk_lab.sweeps.run.execute import execute, tasks_of
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.supervisor.local import LocalBackend
from maxk_lab.sweeps.spec.load import load_spec

pytestmark = pytest.mark.slow
TAUGHT = """\
name: taught
seeds: [0]
environment: {name: bandit, arms: 4}
training:
  steps: 900
  batch: 8
  checkpoint_every: 100000
  evaluate: {every: 100, instances: 8, samples: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""
Leave = Callable[[Event], bool]


def measured(
    plan: Plan, run: RunDirectory, measure: str | None, leave: Leave, seconds: float = 60.0
) -> list[Event]:
    """Have the missing cells measured, and left once `leave` has said so of every unit."""
    told: list[Event] = []
    missing = {cell.id for cell in plan.cells} - {*run.ids()}
    tasks = tasks_of(plan, missing, run, measure, run.heads)
    with LocalBackend(run, plan.spec.execution, 2, tasks) as backend:
        for task in tasks:
            backend.submit(task)
        waiting, asking = {task.key for task in tasks}, {task.key for task in tasks}
        end = time.monotonic() + 100
        while waiting:
            assert time.monotonic() < end
            for event in backend.events(0.1):
                told.append(event)
                if "record" in event.payload:
                    run.append(event.payload["record"])
                if event.key in asking and leave(event):
                    asking.discard(event.key)
                    if not asking:
                        backend.leave(seconds)
                if event.name in ("unit_finished", "left"):
                    waiting.discard(event.key)
    return told


def names(told: list[Event]) -> list[str]:
    """What became of the cells and units."""
    ends = ("cell_done", "cell_failed", "left", "worker_died")
    return sorted(event.name for event in told if event.name in ends)


def never(event: Event) -> bool:
    return False


def test_units_are_left_between_two_cells_and_gone_on_with(small: str, run: RunDirectory) -> None:
    plan = make_plan(load_spec(small))
    first = measured(plan, run, "fake_measures:patient", lambda event: event.name == "cell_done")
    assert names(first) == ["cell_done"] * 2 + ["left"] * 2
    second = measured(plan, run, "fake_measures:quick", never)
    assert names(second) == ["cell_done"] * 6


def test_those_that_do_not_leave_are_ended_in_time(small: str, run: RunDirectory) -> None:
    plan = make_plan(load_spec(small))
    start = time.monotonic()
    told = measured(plan, run, "fake_measures:stuck", lambda event: event.name == "cell_done", 0.5)
    assert time.monotonic() - start < 30
    assert names(told) == ["cell_done"] * 2 + ["left"] * 2
    assert len(run.ids()) == 2


def test_a_training_left_in_the_middle_goes_on_to_the_same_bytes(
    write: Write, run: RunDirectory
) -> None:
    plan = make_plan(load_spec(write(TAUGHT)))

    def under_way(event: Event) -> bool:
        return event.name == "progress" and event.payload.get("step", 0) > 2

    told = measured(plan, run, None, under_way)
    assert names(told) == ["left"]
    again = measured(plan, run, None, never)
    assert names(again) == ["cell_done"]
    # Without a break, here.
    (unit,) = plan.units
    cells = [cell.as_dict() for cell in unit.cells]
    (whole,) = measure_training(unit.as_dict(), cells, cache=None, event=lambda *event: None)
    assert isinstance(whole[1], dict)
    del whole[1]["timings"]
    (record,) = run.records(plan)
    ours, theirs = (json.dumps(one, sort_keys=True) for one in (record.metrics, whole[1]))
    assert ours == theirs
    first = next(event.payload["step"] for event in again if event.name == "progress")
    assert first > next(event.payload["step"] for event in told if event.name == "progress") > 0


def test_after_ctrl_c_what_was_measured_is_kept(small: str, run: RunDirectory) -> None:
    def interrupt(name: str, payload: dict[str, Any]) -> None:
        if name == "cell_done":
            os.kill(os.getpid(), signal.SIGINT)

    plan = make_plan(load_spec(small))
    with pytest.raises(KeyboardInterrupt):
        execute(plan, run, jobs=2, measure="fake_measures:counted", on_event=interrupt)
    begun = (run.cache_path / "begun").read_text().split()
    assert 0 < len(begun) < len(plan.cells)
    assert sorted(begun) == run.ids()
