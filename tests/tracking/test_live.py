"""Runs are sent while a sweep is measured; whatever W&B does, the sweep is none the worse."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from offline_runs import offline_run
from written_runs import record_of

from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.bundle import is_bundle
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.tracking import live, sending
from maxk_lab.tracking.live import Live
from maxk_lab.tracking.payload import Payload
from maxk_lab.tracking.session import NoKeyError, Target
from maxk_lab.tracking.wandb_tracker import track

SWEEP = """
name: watched
seeds: [0, 1]
environment: {name: bandit, arms: 4}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}
tracking: {wandb: online}
"""
SECONDS = 60.0


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return make_plan(load_spec(tmp_path / "sweep.yaml"))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "results" / "watched")


def measure(plan: Plan, run: RunDirectory, watcher: Live | None = None) -> None:
    """Write a record of every cell, and tell it."""
    run.write_spec(plan.spec)
    for cell in plan.cells:
        run.write(record_of(cell))
        if watcher is not None:
            watcher.event("cell_done", {"cell": cell.id})


def until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def started(plan: Plan, watcher: Live) -> list[str]:
    return watcher.event("run_started", {"cell_ids": [cell.id for cell in plan.cells]})


@pytest.mark.slow
def test_a_run_is_there_as_soon_as_its_cells_are_and_is_not_sent_again(
    plan: Plan, run: RunDirectory
) -> None:
    watcher = Live(run, plan, "offline")
    started(plan, watcher)
    measure(plan, run, watcher)
    until(lambda: len(watcher.sent) == 2)
    sent = watcher.end(SECONDS)
    before = {folder: Path(folder).stat().st_mtime_ns for folder in sent.values()}
    places = track(run, "offline", plan=plan, sent=sent)
    assert places[:2] == [*sent.values()]
    assert before == {folder: Path(folder).stat().st_mtime_ns for folder in places[:2]}
    first, second, whole = map(offline_run, places)
    assert [one.config["seed"] for one in (first, second)] == [0, 1]
    assert first.summary["cells_done"] == 2
    (bundle,) = whole.artifacts["bundle"].manifest.contents
    assert (bundle.path, whole.artifacts["bundle"].name) == ("watched.zip", "watched-bundle")
    assert is_bundle(Path(bundle.local_path))
    assert "bundle" not in whole.summary


def test_a_run_waits_for_all_of_its_cells_that_are_to_be_measured(
    plan: Plan, run: RunDirectory
) -> None:
    found = live._Sender(run, plan, "offline")
    (one, two), (three, _) = ([cell.id for cell in unit.cells] for unit in plan.units)
    found.hear("run_started", {"cell_ids": [one, two, three]})
    found.hear("cell_done", {"cell": one})
    assert not found.ready
    found.hear("cell_failed", {"cell": two})
    found.hear("measured_elsewhere", {"cells": [three]})
    assert len(found.ready) == 2
    # A run without a record, such as one that somebody has removed, is no run.
    assert found.send_next() == {}
    assert len(found.ready) == 1


@pytest.mark.parametrize("error", [ConnectionError("nobody there"), SystemExit(1)])
def test_what_is_wrong_with_wandb_is_said_once_and_tried_again(
    plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    asked = []

    def fail() -> None:
        asked.append(1)
        raise error

    monkeypatch.setattr(live, "set_up", lambda: None)
    monkeypatch.setattr(live, "log_in", fail)
    watcher = Live(run, plan, pause=0.0)
    started(plan, watcher)
    for cell in plan.cells:
        watcher.event("cell_done", {"cell": cell.id})
    until(lambda: len(asked) > 2)
    (note,) = watcher.event("progress", {})
    assert note.startswith("the sweep goes on, and W&B gets nothing meanwhile: ")
    assert f"{type(error).__name__}: {error}" in note
    assert watcher.event("progress", {}) == []
    assert watcher.end(SECONDS) == {}


def test_without_a_key_it_is_not_tried_again(
    plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse() -> None:
        asked.append(1)
        raise NoKeyError("there is no key")

    monkeypatch.setattr(live, "set_up", lambda: None)
    monkeypatch.setattr(live, "log_in", refuse)
    watcher = Live(run, plan, pause=0.0)
    started(plan, watcher)
    for cell in plan.cells:
        watcher.event("cell_done", {"cell": cell.id})
    until(lambda: not watcher._thread.is_alive())
    assert len(asked) == 1
    assert watcher.event("x", {}) == [
        "the sweep goes on, and W&B gets nothing meanwhile: there is no key"
    ]


def test_a_wandb_that_does_not_start_is_said(
    plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("no service")

    monkeypatch.setattr(live, "set_up", fail)
    watcher = Live(run, plan)
    (note,) = started(plan, watcher)
    assert "OSError: no service" in note
    assert watcher.event("cell_done", {"cell": plan.cells[0].id}) == []
    assert watcher.end(SECONDS) == {}


def test_a_network_that_hangs_is_not_waited_for(
    plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung, free = threading.Event(), threading.Event()

    def hang() -> None:
        hung.set()
        free.wait(SECONDS)
        raise ConnectionError("at last")

    monkeypatch.setattr(live, "set_up", lambda: None)
    monkeypatch.setattr(live, "log_in", hang)
    watcher = Live(run, plan)
    started(plan, watcher)
    for cell in plan.cells:
        assert watcher.event("cell_done", {"cell": cell.id}) == []
    assert hung.wait(SECONDS)
    assert watcher.end(0.0) == {}
    free.set()


def test_wandb_is_not_started_for_a_sweep_that_is_done(
    plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "set_up", lambda: pytest.fail("started"))
    watcher = Live(run, plan)
    assert watcher.event("run_started", {"cell_ids": []}) == []
    assert watcher.end(SECONDS) == {}


def test_each_is_sent_once(plan: Plan, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def send(payload: Payload, target: Target) -> str:
        names.append(payload.name)
        return "there"

    monkeypatch.setattr(sending, "send", send)
    measure(plan, run)
    found = live._Sender(run, plan, "offline")
    found.hear("run_started", {"cell_ids": [cell.id for cell in plan.cells]})
    for cell in (*plan.cells, *plan.cells):
        found.hear("cell_done", {"cell": cell.id})
    sent: dict[str, str] = {}
    while found.ready:
        sent |= found.send_next()
    assert names == ["gradient stage 0 seed 0", "gradient stage 0 seed 1"]
    assert len(sent) == 2
