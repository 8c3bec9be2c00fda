"""The displays of a run: what they say of jobs that wait in the queue of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from maxk_lab.cli.progress import Display
from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.spec.load import load_spec

from .conftest import SWEEP


@pytest.fixture
def plan(tmp_path: Any) -> Plan:
    path = tmp_path / "tiny.yaml"
    path.write_text(SWEEP, encoding="utf-8")
    return make_plan(load_spec(path))


def jobs(queued: dict[str, int], running: int = 0) -> dict[str, Any]:
    return {"queued": queued, "running": running}


def test_lines_say_why_jobs_wait_when_that_changes(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    with Display(plan) as lines:
        lines("jobs", jobs({"": 3}))
        lines("jobs", jobs({"Priority": 3}))
        lines("jobs", jobs({"Priority": 2}))
        lines("jobs", jobs({"Priority": 1}, running=1))
        lines("jobs", jobs({"JobHeldUser": 1}, running=1))
    told = capsys.readouterr().err.splitlines()
    assert [line.partition("; ")[2] for line in told if "; jobs" in line] == [
        "jobs: 3 queued",
        "jobs: 3 queued (Priority)",
        "jobs: 1 queued (Priority), 1 running",
        "jobs: 1 queued (JobHeldUser), 1 running",
    ]


def test_a_bar_says_what_jobs_wait_for_until_they_are_at_work(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    label = plan.units[0].label

    def shown() -> str:
        task = bar._bar.tasks[0]
        return f"{task.description}; {task.fields['current']}"

    with Display(plan) as bar:
        bar("run_started", {"cell_ids": [cell.id for cell in plan.cells]})
        assert shown() == "0/20 cells; starting the workers"
        bar("jobs", jobs({"Priority": 2}))
        assert shown() == "0/20 cells; jobs: 2 queued (Priority)"
        bar("progress", {"unit": label, "phase": "cells", "done": 1, "of": 2})
        assert shown() == f"0/20 cells; {label}: cells 1/2"


def test_an_error_that_cells_repeat_is_said_once_and_counted(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    with Display(plan) as lines:
        lines("run_started", {"cell_ids": [cell.id for cell in plan.cells]})
        for cell, error in [("a", "one"), ("b", "one"), ("c", "another"), ("d", "one")]:
            lines("cell_failed", {"cell": cell, "error": error})
    assert capsys.readouterr().err.splitlines() == [
        "warning: cell a failed: one",
        "warning: cell c failed: another",
        "warning: 2 more cells failed as cell a did",
    ]
